//! The objects of a source that differ from its head: published, and recorded in the history for commands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tracing::warn;

use crate::config::OnFailure;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::{SourceStatus, put_or_remove};
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::head_change::{Charged, HeadChange};
use crate::daemon::rollout::rollout_task::{End, RolloutEnd};
use crate::daemon::shared::context::Context;
use crate::history::{ObjectStanding, Query};
use crate::telemetry::Took;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, ObjectState, Outcome, Reason, ReasonCode, Record, RecordId, is_well, marks};

impl Context {
    /// Takes up the bad ends from before the daemon stopped, from the newest record of each object. Returns the objects that
    /// ended because something is missing.
    pub fn resume_standings(&self, desired: &DesiredState) -> Vec<ObjectKey> {
        let source = &self.config.name;
        let noted = self.history.object_standings(source).unwrap_or_else(|error| {
            warn!(%error, "failed to ask the history what had ended badly");
            Default::default()
        });
        let outcomes = Outcome::ALL.into_iter().filter(|outcome| outcome.is_final());
        let outcomes = outcomes.filter(|outcome| !is_well(*outcome) || *outcome == Outcome::Orphaned).collect();
        let query = Query { source: Some(source.clone()), outcomes, ..Query::default() };
        let ended = self.history.records(&query).unwrap_or_else(|error| {
            warn!(%error, "failed to ask the history what had ended badly");
            Vec::new()
        });
        let first = self.history.standing(source).ok().flatten().is_none();
        let mut standings: BTreeMap<ObjectKey, ObjectStanding> = BTreeMap::new();
        for record in ended {
            let is_newest = |newest: Record| newest.id == record.id;
            // An orphan that has been deleted meanwhile is not recorded any more.
            let still = first || record.outcome != Outcome::Orphaned || noted.contains_key(&record.object);
            if still && self.newest_record(&record.object).is_some_and(is_newest) {
                standings.insert(record.object.clone(), self.standing_of(desired, &record));
            }
        }
        noted.keys().filter(|key| !standings.contains_key(*key)).for_each(|key| self.note_standing(key, None));
        let mut missing = Vec::new();
        for (key, standing) in standings {
            if standing.reason.as_ref().is_some_and(|reason| reason.code == ReasonCode::Missing) {
                missing.push(key.clone());
            }
            self.note_standing(&key, Some(standing));
        }
        missing
    }

    /// Publishes the state of an object whose record has ended.
    pub fn publish_end(&self, desired: &DesiredState, id: RecordId, outcome: Outcome) {
        let well = outcome.is_good();
        let nothing_wrong = self.status.read(|source| source.ended.is_empty()).unwrap_or(true);
        // Thousands end well where nothing is wrong.
        if well && nothing_wrong || matches!(outcome, Outcome::Superseded | Outcome::Unknown) || !outcome.is_final() {
            return;
        }
        match self.history.record(id) {
            Ok(Some(record)) => {
                let standing = (!well).then(|| self.standing_of(desired, &record));
                self.note_standing(&record.object, standing);
            }
            Ok(None) => {}
            Err(error) => warn!(%error, "failed to read how a record ended"),
        }
    }

    fn standing_of(&self, desired: &DesiredState, record: &Record) -> ObjectStanding {
        ObjectStanding {
            state: record.outcome.state(),
            commit: record.commit.clone(),
            reason: record.reason.clone(),
            place: desired.locate(&record.object).map(|located| located.place).or_else(|| record.place.clone()),
            since: record.ended.unwrap_or(record.started),
            in_head: desired.has(&record.object),
        }
    }

    /// Publishes the state of an object whose rollout has ended.
    pub fn publish_rollout_end(
        &self,
        desired: &DesiredState,
        key: &ObjectKey,
        outcome: Outcome,
        recorded: Option<&EndedRecord>,
    ) {
        let well = outcome.is_good();
        let known = self.status.read(|source| source.ended.get(key).map(|one| one.state)).flatten();
        let is_orphan = known == Some(ObjectState::Orphaned) && !desired.mentions(key);
        match recorded {
            // Its manifest left while it was rolled out, and it stays.
            _ if is_orphan && outcome != Outcome::Pruned => {}
            _ if !outcome.is_final() || matches!(outcome, Outcome::Superseded | Outcome::Unknown) => {}
            _ if well && known.is_some() => self.note_standing(key, None),
            Some(recorded) if !well => self.note_standing(key, Some(self.standing_of(desired, &recorded.record))),
            _ => {}
        }
    }

    /// Returns the state of an object that is refused again, if the reason is another one than the published. The same with
    /// another time or number in it is no other.
    pub fn refused_otherwise(&self, key: &ObjectKey, reason: &Reason) -> Option<ObjectStanding> {
        let known = self.status.read(|source| source.ended.get(key).cloned()).flatten();
        let is_told = |known: &ObjectStanding| known.reason.as_ref().is_some_and(|told| told.is_same_trouble(reason));
        let known = known.filter(|known| !is_told(known))?;
        Some(ObjectStanding { reason: Some(reason.clone()), ..known })
    }

    /// Notes all of it again, in a history that was begun again.
    pub fn note_standings_again(&self) {
        for (key, standing) in self.status.read(|source| source.ended.clone()).unwrap_or_default() {
            self.note_standing(&key, Some(standing));
        }
    }

    /// Notes that somebody has asked to leave an object alone, or to take it up again.
    pub fn note_suspension(&self, desired: &DesiredState, planned: Option<&CommitId>, key: &ObjectKey, live: &Value) {
        let Some(why) = marks::suspension(live) else {
            let suspended =
                |source: &SourceStatus| source.ended.get(key).map(|one| one.state) == Some(ObjectState::Suspended);
            if self.status.read(suspended).unwrap_or_default() {
                self.note_standing(key, None);
            }
            return;
        };
        let commit = marks::annotation(live, marks::COMMIT).and_then(|commit| commit.parse().ok());
        let Some(commit) = commit.or_else(|| planned.cloned()) else { return };
        if !desired.mentions(key) {
            return;
        }
        let standing = ObjectStanding {
            state: ObjectState::Suspended,
            commit,
            reason: Some(Reason::new(ReasonCode::Suspended, why.to_owned())),
            place: None,
            since: self.clock.now(),
            in_head: desired.has(key),
        };
        self.note_standing(key, Some(standing));
    }

    /// Takes the revisions of a workload up again. If that fails, an undo with kubectl to one of them suspends it
    /// again, which its status shows.
    pub async fn take_up_revisions(&self, key: &ObjectKey, live: &Value) {
        let _room = self.requests.room().await;
        if let Err(error) = self.cluster.take_up_revisions(key, live).await {
            warn!(object = %key, %error, "its revisions still ask to leave it alone");
        }
    }

    /// Removes an object that is gone from the status: if it was orphaned, or its deletion took too long, nobody has to
    /// act any more.
    pub fn orphan_is_gone(&self, key: &ObjectKey) {
        let hung = |reason: &Reason| reason.code == ReasonCode::DeletionHangs;
        let left = |one: &ObjectStanding| one.state == ObjectState::Orphaned || one.reason.as_ref().is_some_and(hung);
        let orphaned = |source: &SourceStatus| source.ended.get(key).is_some_and(left);
        if self.status.read(orphaned).unwrap_or_default() {
            self.note_standing(key, None);
        }
    }

    /// Publishes again that an object is orphaned that somebody has deleted and made again as it was.
    pub fn tell_orphan_again(&self, desired: &DesiredState, key: &ObjectKey) {
        let newest = self.newest_record(key).filter(|record| record.outcome == Outcome::Orphaned);
        if let Some(record) = newest {
            self.note_standing(key, Some(self.standing_of(desired, &record)));
        }
    }

    /// Publishes how an object stands, and notes it; with `None`, that there is nothing to be said of it any more.
    pub fn note_standing(&self, key: &ObjectKey, standing: Option<ObjectStanding>) {
        let noted = self.history.object_stands(&self.config.name, key, standing.as_ref());
        if let Err(error) = noted {
            warn!(object = %key, %error, "failed to note the state of an object");
        }
        self.status.change(|source| put_or_remove(&mut source.ended, key, standing));
    }

    /// Forgets reports about objects and files that have left the repository, or that are no longer complained about.
    /// Orphans stay until they are mentioned again, or deleted. `is_open` tells whether an object has a rollout, under way or to
    /// be taken up.
    pub fn forget_what_left(&self, desired: &DesiredState, is_open: impl Fn(&ObjectKey) -> bool) {
        let unread: BTreeSet<String> = desired.complained_files();
        let stays = |key: &ObjectKey, standing: &ObjectStanding| match standing.state {
            ObjectState::Orphaned => !desired.mentions(key),
            _ if is_file(key) => unread.contains(&key.name),
            _ => desired.mentions(key),
        };
        let found = self.status.read(|source| {
            let left = source.ended.iter().filter(|(key, one)| !stays(key, one)).map(|(key, _)| key.clone());
            let obstacles = source.obstacles.trouble.keys().filter(|obstacle| obstacle.object().is_some()).cloned();
            (left.collect::<Vec<ObjectKey>>(), obstacles.collect::<Vec<Obstacle>>())
        });
        let (left, mut obstacles) = found.unwrap_or_default();
        let is_alive = |key: &ObjectKey| desired.has(key) || is_open(key);
        obstacles.retain(|obstacle| obstacle.object().is_some_and(|key| !is_alive(key)));
        left.iter().for_each(|key| self.note_standing(key, None));
        obstacles.iter().for_each(|obstacle| self.status.trouble(obstacle, None));
    }

    /// Returns the paths that an earlier run of the daemon complained about; none as soon as something is read.
    pub fn complained_before(&self, desired: &DesiredState) -> BTreeSet<String> {
        if desired.at.is_some() {
            return BTreeSet::new();
        }
        let paths = |source: &SourceStatus| {
            source.ended.keys().filter(|key| is_file(key)).map(|key| key.name.clone()).collect()
        };
        self.status.read(paths).unwrap_or_default()
    }

    /// Says of objects whose manifests have moved to another file or line where these are now.
    pub fn follow_moved_manifests(&self, desired: &DesiredState) {
        let moved = self.status.read(|source| {
            let moved = |(key, standing): (&ObjectKey, &ObjectStanding)| {
                let place = desired.locate(key)?.place;
                let known = standing.place.as_ref()?;
                (place != *known).then(|| (key.clone(), ObjectStanding { place: Some(place), ..standing.clone() }))
            };
            source.ended.iter().filter_map(moved).collect::<Vec<_>>()
        });
        for (key, standing) in moved.unwrap_or_default() {
            self.note_standing(&key, Some(standing));
        }
    }

    /// Returns the objects that a head has taken away and that are not deleted: pruning is off, or nothing is deleted for now.
    /// `is_live` tells whether one is known to be live.
    pub fn orphans_of(
        &self,
        desired: &DesiredState,
        news: &HeadChange,
        is_live: impl Fn(&ObjectKey) -> bool,
    ) -> Orphans {
        let why = match (self.config.prune, desired.unreadable().next().is_some()) {
            (false, _) => "its manifest left the repository, and pruning is off: the object stays",
            (true, true) => "its manifest left the repository; nothing is deleted while a file can't be read",
            (true, false) => return Orphans::default(),
        };
        let gone = news.removed.iter().filter(|(key, _)| !desired.mentions(key));
        let orphan = |(key, charged): (&ObjectKey, &Charged)| (key.clone(), charged.commit.id.clone(), is_live(key));
        Orphans { why, objects: gone.map(orphan).collect() }
    }
}

/// Returns true for the key under which a file is recorded that names no object.
fn is_file(key: &ObjectKey) -> bool {
    key.kind == "File" && key.group.is_empty()
}

/// The objects that have left the repository and stay.
#[derive(Debug, Default)]
pub struct Orphans {
    why: &'static str,
    /// Each with the commit that took it away, and whether it is known to be live.
    objects: Vec<(ObjectKey, CommitId, bool)>,
}

impl Context {
    /// Returns records for the objects that have left the repository and stay, of those that exist. It blocks.
    pub fn orphaned(&self, orphans: Orphans) -> Vec<Record> {
        let Orphans { why, objects } = orphans;
        let is_told = |key: &ObjectKey, commit: &CommitId| {
            let newest = self.newest_record(key);
            newest.is_some_and(|newest| newest.outcome == Outcome::Orphaned && newest.commit == *commit)
        };
        let gone = objects.into_iter().filter(|(key, _, is_live)| *is_live || self.was_applied(key));
        let gone = gone.filter(|(key, commit, _)| !is_told(key, commit));
        let record = |(key, commit, _): (ObjectKey, CommitId, bool)| Record {
            reason: Some(Reason::new(ReasonCode::Orphaned, why.to_owned())),
            ..Record::planned(&self.config.name, &commit, key, self.clock.now())
        };
        gone.map(record).collect()
    }

    /// Returns the record of a rollout that has ended, if that is needed; a good rollout that nobody judged has none.
    /// It is read beside the loop.
    pub async fn ended_record(
        self: &Arc<Context>,
        record: RecordId,
        end: &RolloutEnd,
        judged: bool,
    ) -> Option<Box<EndedRecord>> {
        let End::Recorded(outcome) = end.end else { return None };
        let well = outcome.is_good();
        if well && !judged && self.config.on_failure != OnFailure::RollBackCommit {
            return None;
        }
        let context = Arc::clone(self);
        let read = move || {
            let record = context.history.record(record).unwrap_or_else(|error| {
                warn!(%error, "failed to read how a record ended");
                None
            })?;
            let commit = context.history.commit(&record.commit).ok().flatten();
            let authored = commit.filter(|_| !context.only_adopted(&record)).map(|commit| commit.authored);
            Some(Box::new(EndedRecord { record, authored }))
        };
        self.repository.blocking_pool.run_for_object(read).await
    }
}

impl Context {
    /// Returns true when a record is the first of its object and has rolled nothing out: the object ran before, and is only
    /// followed from now on.
    fn only_adopted(&self, record: &Record) -> bool {
        let earlier =
            Query { older_than: Some(record.id), limit: Some(1), ..Query::of(&self.config.name, &record.object) };
        !record.rolls_out && self.history.records(&earlier).is_ok_and(|earlier| earlier.is_empty())
    }
}

/// The record of a rollout that has ended.
pub struct EndedRecord {
    pub record: Record,
    /// When the commit was written that it is about.
    pub authored: Option<Timestamp>,
}

impl EndedRecord {
    /// Returns how long it took, and, for a complete commit, since when.
    pub fn took(&self, outcome: Outcome) -> Option<Took> {
        let seconds = |since: Timestamp| Some(self.record.ended?.duration_since(since).as_secs_f64());
        let is_commits = outcome == Outcome::Complete && self.record.trigger.is_commit();
        let since_commit = self.authored.filter(|_| is_commits).and_then(seconds);
        Some(Took { seconds: seconds(self.record.started)?, since_commit })
    }
}
