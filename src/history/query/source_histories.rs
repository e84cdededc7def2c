//! The facts about sources besides the live objects: the published state of each, its open records and their
//! dependencies, and its bad ends.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::answers::{SourceAnswer, TroubleAnswer, WorkloadAnswer};
use super::row_cause::read_causes;
use super::step_details::waits_for;
use crate::history::{
    Drifted, HeldStatus, History, HistoryError, ObjectStanding, PublishedRollout, PublishedSource, SourceStanding,
};
use belay_core::manifest::{ObjectKey, Place};
use belay_core::rollout::health::Standing;
use belay_core::rollout::{
    CommitId, GRACE, LiveWorkload, ObjectFacts, ObjectState, Outcome, Reason, Record, Workload, short_cause,
};

/// The facts about each source that is followed.
#[derive(Debug, Default)]
pub struct SourceHistories {
    /// By the names of the sources.
    pub sources: BTreeMap<String, SourceHistory>,
}

/// The facts about one source.
#[derive(Debug, Default)]
pub struct SourceHistory {
    /// Its published state; `None` if no daemon has published any.
    standing: Option<SourceStanding>,
    /// The open records.
    pub open: BTreeMap<ObjectKey, Open>,
    /// The objects that ended badly, or were left alone.
    pub ended: BTreeMap<ObjectKey, ObjectStanding>,
    /// The held manifests.
    held: BTreeMap<ObjectKey, HeldStatus>,
    /// The trouble with the pods of workloads without a rollout.
    unhealthy: BTreeMap<ObjectKey, String>,
}

/// A rollout that has not ended.
#[derive(Debug)]
pub struct Open {
    state: ObjectState,
    commit: CommitId,
    /// The place of its manifest.
    place: Option<Place>,
    /// When it was taken up.
    since: Option<Timestamp>,
    /// The dependencies that it waits for.
    waits_for: Option<String>,
    /// The message of the daemon about its rollout.
    message: Option<String>,
    /// The trouble with its pods so far.
    wrong: Option<String>,
    /// When its deadline ends, as a daemon counts.
    until: Option<Timestamp>,
}

impl SourceHistories {
    /// Returns the history's facts about the sources that are followed, if no daemon answers.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn read(history: &History, now: Timestamp) -> Result<SourceHistories, HistoryError> {
        let mut known = SourceHistories::default();
        for followed in history.followed()? {
            let name = followed.source;
            let standing = history.standing(&name)?.map(|standing| standing.as_of(now));
            let (open, ended) = (open_rollouts(history, &name)?, history.object_standings(&name)?);
            let is_told = |key: &ObjectKey| standing.as_ref().is_some_and(|standing| standing.held.contains(key));
            let kept = history.kept_holds(&name)?.into_iter().filter(|(key, _)| is_told(key));
            let held = kept.map(|(key, kept)| (key, HeldStatus::of(&kept.hold))).collect();
            let unhealthy = BTreeMap::new();
            known.sources.insert(name, SourceHistory { standing, open, ended, held, unhealthy }.of_its_follower());
        }
        Ok(known)
    }

    /// Returns the sources as a daemon publishes them. The history, if it can be read, adds the places of manifests and
    /// the planned changes that have not begun.
    #[must_use]
    pub fn published(
        sources: BTreeMap<String, PublishedSource>,
        history: Option<&History>,
        now: Timestamp,
    ) -> SourceHistories {
        let of = |(name, published): (String, PublishedSource)| {
            let PublishedSource { standing, under_way, ended, held, unhealthy, workloads: _ } = published;
            let mut open = history.and_then(|history| open_rollouts(history, &name).ok()).unwrap_or_default();
            for (key, rollout) in under_way {
                let recorded = open.remove(&key);
                open.insert(key, Open::published(rollout, recorded));
            }
            let (standing, ended) = (Some(standing.as_of(now)), ended.into_iter().collect());
            let (held, unhealthy) = (held.into_iter().collect(), unhealthy.into_iter().collect());
            (name, SourceHistory { standing, open, ended, held, unhealthy }.of_its_follower())
        };
        SourceHistories { sources: sources.into_iter().map(of).collect() }
    }
}

/// Returns the rollouts of the open records of a source, with what they wait for.
fn open_rollouts(history: &History, source: &str) -> Result<BTreeMap<ObjectKey, Open>, HistoryError> {
    let mut open = BTreeMap::new();
    for record in history.open_records(source)? {
        let waits_for = waits_for(history, &record)?;
        open.insert(record.object.clone(), Open::recorded(record, waits_for));
    }
    Ok(open)
}

impl SourceHistories {
    /// Returns the objects of which the history knows that they wait, are rejected, orphaned and the like, and that are
    /// not among these rows. `here` says which namespaces are asked for.
    #[must_use]
    pub fn rows_besides(&self, rows: &[WorkloadAnswer], here: impl Fn(&ObjectKey) -> bool) -> Vec<WorkloadAnswer> {
        let known: BTreeSet<(&str, &ObjectKey)> = rows.iter().map(|row| (row.source.as_str(), &row.object)).collect();
        let mut besides = Vec::new();
        for (name, source) in &self.sources {
            let keys: BTreeSet<&ObjectKey> =
                source.open.keys().chain(source.ended.keys()).chain(source.held.keys()).collect();
            for key in keys.into_iter().filter(|key| here(key)) {
                let state = ObjectState::of(&source.facts(key));
                // A record that was only just planned is not worth a line of its own: there may be thousands.
                let soon =
                    matches!(state, ObjectState::Pending | ObjectState::Progressing) && Workload::of(key).is_none();
                if soon || known.contains(&(name.as_str(), key)) {
                    continue;
                }
                let mut row = WorkloadAnswer::of_object(key, name, state);
                source.tell(&mut row);
                row.tell_hidden_hold(source.held.get(key));
                besides.push(row);
            }
        }
        besides
    }

    /// Returns the published state of each source.
    #[must_use]
    pub fn source_answers(&self) -> Vec<SourceAnswer> {
        self.sources.iter().filter_map(|(name, source)| source.answer(name)).collect()
    }
}

impl SourceHistory {
    /// Returns the same without the facts of another daemon's time: a standby knows nothing of current rollouts.
    fn of_its_follower(mut self) -> SourceHistory {
        if self.standing.as_ref().is_some_and(|standing| standing.follower.standby) {
            self.open.clear();
            self.ended.clear();
            self.held.clear();
            self.unhealthy.clear();
        }
        self
    }

    /// Returns the answer about the source; `None` if no daemon has published its state.
    fn answer(&self, name: &str) -> Option<SourceAnswer> {
        let standing = self.standing.clone()?;
        let summary = standing.summary();
        let SourceStanding { state, counts, head, blocked, waits, mut troubles, warnings, follower, held: _ } =
            standing;
        let trouble = troubles.get("repository").cloned().zip(follower.trouble_since);
        let trouble = trouble.map(|(message, since)| TroubleAnswer { message, since });
        if trouble.is_some() {
            troubles.remove("repository");
        }
        Some(SourceAnswer {
            source: name.to_owned(),
            head,
            state,
            summary,
            objects: counts,
            waits_for: waits,
            blocked,
            cluster: follower.cluster,
            looked: follower.looked,
            trouble,
            troubles,
            warnings,
        })
    }

    /// Returns the known facts about an object.
    #[must_use]
    pub fn facts(&self, key: &ObjectKey) -> ObjectFacts {
        ObjectFacts {
            open: self.open.get(key).map(|open| open.state),
            ended: self.ended.get(key).map(|ended| ended.state),
            held: self.standing.as_ref().is_some_and(|standing| standing.held.contains(key)),
            ..ObjectFacts::default()
        }
    }
}

impl SourceHistory {
    /// Adds the known facts of its object to a row.
    pub fn tell(&self, row: &mut WorkloadAnswer) {
        if let Some(open) = self.open.get(&row.object) {
            row.waits_for.clone_from(&open.waits_for);
            row.place.clone_from(&open.place);
            if row.commit.is_empty() {
                row.commit = open.commit.to_string();
            }
            if let Some(waits_for) = &open.waits_for {
                row.message = format!("commit {} {waits_for}", open.commit.short());
                row.since = open.since;
            }
            let says_more = open.state == ObjectState::Baking || row.canary.is_some();
            if let Some(message) = open.message.as_ref().filter(|_| says_more) {
                row.message.clone_from(message);
            }
            row.deadline = open.deadline(row);
        } else if row.state == ObjectState::Held && (row.since.is_some() || self.held.contains_key(&row.object)) {
            // The hold says since when and why: the record of a correction says less.
            row.place = self.ended.get(&row.object).and_then(|ended| ended.place.clone());
            if let Some(held) = self.held.get(&row.object).filter(|_| row.since.is_none()) {
                (row.message, row.since) = (held.line(), Some(held.since));
                row.commit = held.commit.to_string();
                row.note_failure(&held.commit, &held.reason);
            }
        } else if let Some(ended) = self.ended.get(&row.object).filter(|ended| ended.state == row.state) {
            row.place.clone_from(&ended.place);
            row.since = Some(ended.since);
            let message = told(ended.place.as_ref(), ended.reason.as_ref());
            if ended.state.is_wrong() {
                let reason = ended.reason.as_ref().filter(|_| ended.state != ObjectState::Rejected);
                row.note_failure(&ended.commit, reason.map_or(&message, |reason| &reason.message));
            }
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
        let open = self.open.get(&row.object).map(|open| open.wrong.as_ref());
        if let Some(wrong) = open.unwrap_or_else(|| self.unhealthy.get(&row.object)) {
            row.message = if row.message.is_empty() { wrong.clone() } else { format!("{}; {wrong}", row.message) };
            row.cause = Some(short_cause(wrong, None));
        }
    }
}

impl Open {
    fn recorded(record: Record, waits_for: Option<String>) -> Open {
        let state = match record.outcome {
            // As it was kept before waiting had a word of its own.
            Outcome::Planned if waits_for.is_some() => ObjectState::Waiting,
            outcome => outcome.state(),
        };
        let Record { commit, place, started, .. } = record;
        Open { state, commit, place, since: Some(started), waits_for, message: None, wrong: None, until: None }
    }

    /// Returns a rollout as it is published, with the facts of its record.
    fn published(rollout: PublishedRollout, recorded: Option<Open>) -> Open {
        let PublishedRollout { state, commit, message, wrong, until } = rollout;
        let (place, since) = recorded.map(|open| (open.place, open.since)).unwrap_or_default();
        let waits_for = (state == ObjectState::Waiting).then(|| message.clone());
        Open { state, commit, place, since, waits_for, message: Some(message), wrong, until }
    }

    /// Returns the deadline of a row of this rollout. The daemon rules at the deadline of the controller, unless it has
    /// another of its own: on the way back, after an outage, and where the controller counts no time.
    fn deadline(&self, row: &WorkloadAnswer) -> Option<Timestamp> {
        let until = self.until.filter(|_| !row.paused);
        // The daemon's own is later by its grace, and by the moments after which it hears of progress.
        let alike = GRACE.saturating_add(GRACE);
        let is_the_controllers = |deadline: &Timestamp| match until {
            Some(until) => row.state == ObjectState::Progressing && until.duration_since(*deadline) <= alike,
            None => row.state == ObjectState::Progressing,
        };
        row.deadline.filter(is_the_controllers).or(until)
    }
}

/// Adds facts that need a query of their own: the evidence of failures, holds that a newer commit has gone back to, and
/// drift that is left alone.
pub fn refine(history: &History, rows: &mut [WorkloadAnswer]) {
    read_causes(history, rows);
    let sources: BTreeSet<String> = rows.iter().map(|row| row.source.clone()).collect();
    for source in sources {
        let held = rows.iter().filter(|row| row.source == source && row.state == ObjectState::Held);
        let mut held_again = history.held_again(&source, held.map(|row| &row.object)).unwrap_or_default();
        let drifts = history.drifts(&source).unwrap_or_default().into_iter();
        let mut drifts: BTreeMap<ObjectKey, Drifted> =
            drifts.map(|drifted| (drifted.object.clone(), drifted)).collect();
        for row in rows.iter_mut().filter(|row| row.source == source) {
            if let Some(message) = held_again.remove(&row.object) {
                row.cause = Some(short_cause(&message, None));
                row.message = message;
            }
            if let Some(drifted) = drifts.remove(&row.object) {
                row.message = format!("changed by {}, and left so, as configured", drifted.by);
                row.since = Some(drifted.since);
                row.drifted_by = Some(drifted.by);
            }
        }
    }
}

/// Returns why an object is in its state, with the place of its manifest.
#[must_use]
pub fn told(place: Option<&Place>, reason: Option<&Reason>) -> String {
    let message = reason.map(|reason| reason.message.as_str()).unwrap_or_default();
    match place {
        Some(place) if !message.starts_with(&*place.path) => format!("{place}: {message}"),
        _ => message.to_owned(),
    }
}

impl WorkloadAnswer {
    /// Returns a live workload, with the facts that the history has of its source.
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
        row.canary = live.canary;
        row.paused = live.standing == Some(Standing::Paused);
        row.deadline = live.deadline.filter(|_| state == ObjectState::Progressing && !row.paused);
        (row.updated, row.ready) = (live.counters.updated, live.counters.ready);
        (row.available, row.desired) = (live.counters.available, live.counters.desired);
        row.message = match (&live.hold, &live.suspended, state) {
            (_, Some(why), ObjectState::Suspended) => why.clone(),
            (Some(hold), _, ObjectState::Held) => HeldStatus::of(hold).line(),
            _ => live.failure.clone().filter(|_| state == ObjectState::Failed).unwrap_or_else(|| live.message.clone()),
        };
        match (&live.hold, &live.failure, state) {
            (Some(hold), _, ObjectState::Held) => row.note_failure(&hold.commit, &hold.reason),
            (_, Some(failure), ObjectState::Failed) => row.cause = Some(short_cause(failure, None)),
            _ => {}
        }
        let hold = live.hold.as_deref().map(HeldStatus::of);
        match known {
            Some(known) => {
                known.tell(&mut row);
                // The hold of a suspended workload may be about a manifest that the repository does not have any more.
                row.tell_hidden_hold(hold.as_ref().filter(|_| known.standing.is_none()).or(known.held.get(key)));
            }
            None => row.tell_hidden_hold(hold.as_ref()),
        }
        row
    }

    /// Adds to the line of a suspended object that its manifest is held.
    fn tell_hidden_hold(&mut self, held: Option<&HeldStatus>) {
        if let Some(held) = held.filter(|_| self.state == ObjectState::Suspended) {
            self.message = match self.message.as_str() {
                "" => held.line(),
                message => format!("{message}; {}", held.line()),
            };
        }
    }
}
