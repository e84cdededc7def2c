//! What the history adds to what is live: what is open and what it waits for, what ended badly, and where each source stands.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Heads, History, HistoryError, ObjectStanding, Query, SourceStanding, Trouble};
use belay_core::manifest::{ObjectKey, Place};
use belay_core::rollout::{
    HELD_AGAIN, ObjectFacts, ObjectState, Outcome, Reason, Record, SourceFacts, SourceState, StateCounts, StepKind,
    Trigger, Unnoticed, is_configuration,
};

/// What the history knows of each source.
#[derive(Default)]
pub(super) struct Memory {
    /// By the names of the sources.
    pub sources: BTreeMap<String, SourceMemory>,
}

/// What the history knows of one source.
#[derive(Default)]
pub(super) struct SourceMemory {
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
pub(super) struct Open {
    pub record: Record,
    /// What it waits for.
    pub waits_for: Option<String>,
}

impl Memory {
    /// What a history knows of the sources that it names, and of these.
    pub(super) fn read(history: &History, more: &BTreeSet<String>) -> Result<Memory, HistoryError> {
        let mut memory = Memory::default();
        for followed in history.followed()? {
            let source = SourceMemory { trouble: followed.trouble, ..SourceMemory::default() };
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

impl SourceMemory {
    /// Whether anything is known of it.
    pub(super) fn is_known(&self) -> bool {
        self.heads.recorded.is_some() || self.trouble.is_some()
    }

    /// What is known of an object here.
    pub(super) fn facts(&self, key: &ObjectKey) -> ObjectFacts {
        ObjectFacts {
            open: self.open.get(key).map(Open::state),
            ended: self.ended.get(key).map(|ended| ended.state),
            held: self.standing.as_ref().is_some_and(|standing| standing.held.contains(key)),
            ..ObjectFacts::default()
        }
    }

    /// How many of its objects are in which state.
    pub(super) fn counts(&self) -> StateCounts {
        let held = self.standing.iter().flat_map(|standing| &standing.held);
        let told: BTreeSet<&ObjectKey> = self.open.keys().chain(self.ended.keys()).chain(held).collect();
        let in_head = |key: &ObjectKey| self.ended.get(key).is_none_or(|ended| ended.in_head);
        let told = told.into_iter().map(|key| (ObjectState::of(&self.facts(key)), in_head(key)));
        StateCounts::of_source(self.standing.as_ref().map_or(0, |standing| standing.objects), 0, told)
    }

    /// Its state.
    pub(super) fn state(&self) -> SourceState {
        let standing = self.standing.as_ref();
        let facts = SourceFacts {
            blocked: self.trouble.is_some() || standing.is_some_and(|standing| standing.blocked.is_some()),
            troubled: standing.is_some_and(|standing| !standing.troubles.is_empty()),
            idle: self.heads.recorded.is_some() && self.heads.finished == self.heads.recorded,
        };
        SourceState::of(facts, &self.counts())
    }

    /// What is in its way, a line each, but for what keeps its repository from being read.
    pub(super) fn troubles(&self) -> impl Iterator<Item = (&String, &String)> {
        self.standing.iter().flat_map(|standing| &standing.troubles).filter(|(place, _)| *place != "repository")
    }
}

impl Open {
    /// The state that it shows.
    pub(super) fn state(&self) -> ObjectState {
        match self.record.outcome {
            // As it was kept before waiting had a word of its own.
            Outcome::Planned if self.waits_for.is_some() => ObjectState::Waiting,
            outcome => outcome.state(),
        }
    }
}

/// What an open record waits for: its last step says so.
pub(super) fn waits_for(history: &History, record: &Record) -> Result<Option<String>, HistoryError> {
    if record.outcome == Outcome::Skipped {
        return Ok(record.reason.as_ref().map(|reason| reason.message.clone()));
    }
    if record.outcome.is_final() {
        return Ok(None);
    }
    let last = history.steps(record.id)?.into_iter().next_back();
    Ok(last.filter(|step| step.kind == StepKind::Waiting).map(|step| step.detail))
}

/// Which workloads read what a record changed, and were not rolled out for it.
pub(super) fn unnoticed(history: &History, record: &Record) -> Result<Vec<Unnoticed>, HistoryError> {
    if !is_configuration(&record.object) {
        return Ok(Vec::new());
    }
    let steps = history.steps(record.id)?;
    let noted = steps.iter().rfind(|step| step.kind == StepKind::Unnoticed);
    Ok(noted.and_then(|step| serde_json::from_str(&step.detail).ok()).unwrap_or_default())
}

/// What the person said who asked for what a record is about.
pub(super) fn note(history: &History, record: &Record) -> Result<Option<String>, HistoryError> {
    if record.trigger != Trigger::Retry {
        return Ok(None);
    }
    Ok(history.steps(record.id)?.into_iter().find(|step| step.kind == StepKind::Note).map(|step| step.detail))
}

/// Why an object is as it is, with the place of its manifest.
pub(super) fn told(place: Option<&Place>, reason: Option<&Reason>) -> String {
    let message = reason.map(|reason| reason.message.as_str()).unwrap_or_default();
    match place {
        Some(place) if !message.starts_with(&*place.path) => format!("{place}: {message}"),
        _ => message.to_owned(),
    }
}

/// What the newest record of a held object says, where a newer commit has gone back to what is held.
pub(super) fn held_again(history: &History, source: &str, key: &ObjectKey) -> Result<Option<String>, HistoryError> {
    let newest = Query { limit: Some(1), ..Query::of(source, key) };
    let newest = history.records(&newest)?.into_iter().next();
    let again = newest.filter(|record| record.outcome == Outcome::Held).and_then(|record| record.reason);
    Ok(again.filter(|reason| reason.code == HELD_AGAIN).map(|reason| reason.message))
}
