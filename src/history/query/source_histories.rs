//! What the history adds to what is live: what is open and what it waits for, what ended badly, and where each source stands.

use std::collections::{BTreeMap, BTreeSet};

use super::answers::{SourceAnswer, TroubleAnswer, WorkloadAnswer};
use super::step_details::waits_for;
use crate::history::{Heads, History, HistoryError, ObjectStanding, Query, SourceStanding, Trouble};
use belay_core::manifest::{ObjectKey, Place};
use belay_core::rollout::health::Standing;
use belay_core::rollout::{
    LiveWorkload, ObjectFacts, ObjectState, Outcome, Reason, ReasonCode, Record, SourceFacts, SourceState, StateCounts,
    Workload,
};

/// What the history knows of each source.
#[derive(Debug, Default)]
pub struct SourceHistories {
    /// By the names of the sources.
    pub sources: BTreeMap<String, SourceHistory>,
}

/// What the history knows of one source.
#[derive(Debug, Default)]
pub struct SourceHistory {
    /// The heads that it has had.
    pub heads: Heads,
    /// What is in the way of reading its repository.
    pub trouble: Option<Trouble>,
    /// Where its daemon says that it stands; `None` where none has said so.
    standing: Option<SourceStanding>,
    /// What is open, with what it waits for.
    pub open: BTreeMap<ObjectKey, Open>,
    /// What ended badly, or was left alone.
    pub ended: BTreeMap<ObjectKey, ObjectStanding>,
}

/// A record that has not ended.
#[derive(Debug)]
pub struct Open {
    /// The record.
    pub record: Record,
    /// What it waits for.
    pub waits_for: Option<String>,
}

impl SourceHistories {
    /// What a history knows of the sources that it names, and of these.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn read(history: &History, more: &BTreeSet<String>) -> Result<SourceHistories, HistoryError> {
        let mut memory = SourceHistories::default();
        for followed in history.followed()? {
            let source = SourceHistory { trouble: followed.trouble, ..SourceHistory::default() };
            memory.sources.insert(followed.source, source);
        }
        for name in more {
            memory.sources.entry(name.clone()).or_default();
        }
        for (name, source) in &mut memory.sources {
            source.heads = history.heads(name)?;
            source.standing = history.standing(name)?;
            source.ended = history.object_standings(name)?;
            for record in history.open_records(name)? {
                let waits_for = waits_for(history, &record)?;
                source.open.insert(record.object.clone(), Open { record, waits_for });
            }
        }
        Ok(memory)
    }
}

impl SourceHistories {
    /// The objects of which the history knows that they wait, are rejected, orphaned and the like, and that are not among
    /// these rows. `here` says which namespaces are asked for.
    #[must_use]
    pub fn rows_besides(&self, rows: &[WorkloadAnswer], here: impl Fn(&ObjectKey) -> bool) -> Vec<WorkloadAnswer> {
        let known: BTreeSet<(&str, &ObjectKey)> = rows.iter().map(|row| (row.source.as_str(), &row.object)).collect();
        let mut besides = Vec::new();
        for (name, source) in &self.sources {
            let keys: BTreeSet<&ObjectKey> = source.open.keys().chain(source.ended.keys()).collect();
            for key in keys.into_iter().filter(|key| here(key)) {
                let state = ObjectState::of(&source.facts(key));
                // What was only just planned is not worth a line of its own: there may be thousands.
                let soon =
                    matches!(state, ObjectState::Pending | ObjectState::Progressing) && Workload::of(key).is_none();
                if soon || known.contains(&(name.as_str(), key)) {
                    continue;
                }
                let mut row = WorkloadAnswer::of_object(key, name, state);
                source.tell(&mut row);
                besides.push(row);
            }
        }
        besides
    }

    /// Where each source is of which anything is known.
    #[must_use]
    pub fn source_answers(&self) -> Vec<SourceAnswer> {
        let known = self.sources.iter().filter(|(_, source)| source.is_known());
        known.map(|(name, source)| source.answer(name)).collect()
    }
}

impl SourceHistory {
    fn answer(&self, name: &str) -> SourceAnswer {
        let trouble = self.trouble.clone().map(|Trouble { message, since }| TroubleAnswer { message, since });
        SourceAnswer {
            source: name.to_owned(),
            head: self.heads.recorded.clone(),
            state: self.state(),
            objects: self.counts(),
            trouble,
            troubles: self.troubles().map(|(place, message)| (place.clone(), message.clone())).collect(),
            warnings: self.standing.as_ref().map(|standing| standing.warnings.clone()).unwrap_or_default(),
        }
    }

    /// Whether anything is known of it.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.heads.recorded.is_some() || self.trouble.is_some()
    }

    /// What is known of an object here.
    #[must_use]
    pub fn facts(&self, key: &ObjectKey) -> ObjectFacts {
        ObjectFacts {
            open: self.open.get(key).map(Open::state),
            ended: self.ended.get(key).map(|ended| ended.state),
            held: self.standing.as_ref().is_some_and(|standing| standing.held.contains(key)),
            ..ObjectFacts::default()
        }
    }

    /// How many of its objects are in which state.
    #[must_use]
    pub fn counts(&self) -> StateCounts {
        let held = self.standing.iter().flat_map(|standing| &standing.held);
        let told: BTreeSet<&ObjectKey> = self.open.keys().chain(self.ended.keys()).chain(held).collect();
        let in_head = |key: &ObjectKey| self.ended.get(key).is_none_or(|ended| ended.in_head);
        let told = told.into_iter().map(|key| (ObjectState::of(&self.facts(key)), in_head(key)));
        StateCounts::of_source(self.standing.as_ref().map_or(0, |standing| standing.objects), 0, told)
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> SourceState {
        let standing = self.standing.as_ref();
        let facts = SourceFacts {
            blocked: self.trouble.is_some() || standing.is_some_and(|standing| standing.blocked.is_some()),
            troubled: standing.is_some_and(|standing| !standing.troubles.is_empty()),
            idle: self.heads.recorded.is_some() && self.heads.finished == self.heads.recorded,
        };
        SourceState::of(facts, &self.counts())
    }

    /// What is in its way, a line each, but for what keeps its repository from being read.
    pub fn troubles(&self) -> impl Iterator<Item = (&String, &String)> {
        self.standing.iter().flat_map(|standing| &standing.troubles).filter(|(place, _)| *place != "repository")
    }
}

impl SourceHistory {
    /// Adds to a row what is known of its object here.
    pub fn tell(&self, row: &mut WorkloadAnswer) {
        if let Some(open) = self.open.get(&row.object) {
            row.waits_for.clone_from(&open.waits_for);
            row.place.clone_from(&open.record.place);
            if row.commit.is_empty() {
                row.commit = open.record.commit.to_string();
            }
            if let Some(waits_for) = &open.waits_for {
                row.message = format!("commit {} {waits_for}", open.record.commit.short());
                row.since = Some(open.record.started);
            }
        } else if let Some(ended) = self.ended.get(&row.object).filter(|ended| ended.state == row.state) {
            row.place.clone_from(&ended.place);
            row.since = Some(ended.since);
            let message = told(ended.place.as_ref(), ended.reason.as_ref());
            row.message = if row.commit == ended.commit.as_str() || row.commit.is_empty() {
                message
            } else {
                format!("commit {}: {message}", ended.commit.short())
            };
            if row.state == ObjectState::Waiting {
                row.waits_for = ended.reason.as_ref().map(|reason| reason.message.clone());
            }
            if row.commit.is_empty() {
                row.commit = ended.commit.to_string();
            }
        }
    }
}

impl Open {
    /// The state that it shows.
    #[must_use]
    pub fn state(&self) -> ObjectState {
        match self.record.outcome {
            // As it was kept before waiting had a word of its own.
            Outcome::Planned if self.waits_for.is_some() => ObjectState::Waiting,
            outcome => outcome.state(),
        }
    }
}

/// Adds what is worth a question of its own: holds that a newer commit has gone back to, and drift that is left alone.
pub fn refine(history: &History, rows: &mut [WorkloadAnswer]) {
    for row in rows.iter_mut().filter(|row| row.state == ObjectState::Held) {
        if let Ok(Some(message)) = held_again(history, &row.source, &row.object) {
            row.message = message;
        }
    }
    let sources: BTreeSet<String> = rows.iter().map(|row| row.source.clone()).collect();
    for source in sources {
        for drifted in history.drifts(&source).unwrap_or_default() {
            if let Some(row) = rows.iter_mut().find(|row| row.source == source && row.object == drifted.object) {
                row.message = format!("changed by {}, and left so, as configured", drifted.by);
                row.since = Some(drifted.since);
                row.drifted_by = Some(drifted.by);
            }
        }
    }
}

/// Why an object is as it is, with the place of its manifest.
#[must_use]
pub fn told(place: Option<&Place>, reason: Option<&Reason>) -> String {
    let message = reason.map(|reason| reason.message.as_str()).unwrap_or_default();
    match place {
        Some(place) if !message.starts_with(&*place.path) => format!("{place}: {message}"),
        _ => message.to_owned(),
    }
}

/// What the newest record of a held object says, where a newer commit has gone back to what is held.
///
/// # Errors
///
/// When the file can't be read.
pub fn held_again(history: &History, source: &str, key: &ObjectKey) -> Result<Option<String>, HistoryError> {
    let newest = Query { limit: Some(1), ..Query::of(source, key) };
    let newest = history.records(&newest)?.into_iter().next();
    let again = newest.filter(|record| record.outcome == Outcome::Held).and_then(|record| record.reason);
    Ok(again.filter(|reason| reason.code == ReasonCode::HeldAgain).map(|reason| reason.message))
}

impl WorkloadAnswer {
    /// A live workload, with what the history knows of its source.
    #[must_use]
    pub fn of_live(
        key: &ObjectKey,
        source: &str,
        live: &LiveWorkload,
        known: Option<&SourceHistory>,
    ) -> WorkloadAnswer {
        let facts = ObjectFacts {
            held: live.hold.is_some(),
            suspended: live.suspended.is_some(),
            live: live.standing,
            ..known.map(|known| known.facts(key)).unwrap_or_default()
        };
        let state = ObjectState::of(&facts);
        let mut row = WorkloadAnswer::of_object(key, source, state);
        row.commit = live.commit.as_ref().map(ToString::to_string).unwrap_or_default();
        row.since = live.hold.as_ref().map(|hold| hold.since);
        row.paused = live.standing == Some(Standing::Paused);
        let moves = matches!(state, ObjectState::Progressing | ObjectState::RollingBack) && !row.paused;
        row.deadline = live.deadline.filter(|_| moves);
        (row.updated, row.ready) = (live.counters.updated, live.counters.ready);
        (row.available, row.desired) = (live.counters.available, live.counters.desired);
        row.message = match (&live.hold, &live.suspended, state) {
            (_, Some(why), ObjectState::Suspended) => why.clone(),
            (Some(hold), _, ObjectState::Held) => format!("commit {} is held: {}", hold.commit.short(), hold.reason),
            _ => live.failure.clone().filter(|_| state == ObjectState::Failed).unwrap_or_else(|| live.message.clone()),
        };
        if let Some(known) = known {
            known.tell(&mut row);
        }
        row
    }
}
