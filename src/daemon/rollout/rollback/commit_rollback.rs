//! `on_failure = "roll-back-commit"`: when one object of a commit fails, everything that the commit touched goes back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::warn;

use crate::cluster::{Backoff, Served};
use crate::config::OnFailure;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::head_change::Charged;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::shared::context::Context;
use crate::history::ObjectStanding;
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::rollback::CommitPart;
use belay_core::rollout::{
    CommitId, ObjectState, Outcome, PlanStep, Planned, Reason, ReasonCode, Record, RecordId, Trigger, readings,
    rolls_on_config, template,
};

/// The parts of a commit of which an object failed; each part that goes back is a `P`.
pub struct FailedCommit<P> {
    pub object: ObjectKey,
    /// The reason for which the other objects go back.
    pub reason: Reason,
    /// The rollouts still under way, with their records.
    pub under_way: Vec<(ObjectKey, RecordId)>,
    /// The complete objects.
    pub complete: Vec<P>,
}

/// The same, from the history and Git.
type UnservedCommit = FailedCommit<Charged>;

/// The same, with the resources that serve the objects that go back.
pub type ServedCommit = FailedCommit<(Served, Charged)>;

impl Context {
    /// Returns true when a whole commit may go back with a rollout that has ended. One that is complete goes back too, when
    /// another one has failed meanwhile.
    pub fn may_take_commit_back(&self, record: &Record, outcome: Outcome) -> bool {
        let matters = is_failure(outcome) || outcome == Outcome::Complete;
        self.config.on_failure == OnFailure::RollBackCommit && record.trigger.is_commit() && matters
    }

    /// Returns the commits of which an object has ended badly, as it is published.
    pub fn failed_commits(&self) -> BTreeSet<CommitId> {
        let failed = |one: &ObjectStanding| {
            matches!(one.state, ObjectState::Failed | ObjectState::RolledBack | ObjectState::RollbackFailed)
        };
        let commits = self
            .status
            .read(|source| source.ended.values().filter(|one| failed(one)).map(|one| one.commit.clone()).collect());
        commits.unwrap_or_default()
    }

    /// Reads the objects of a commit, if one of them has failed, and the resources that serve those that go back.
    pub async fn read_failed_commit(
        self: &Arc<Context>,
        desired: Arc<DesiredState>,
        commit: impl FnOnce(&Context) -> Option<CommitId> + Send + 'static,
    ) -> Option<ServedCommit> {
        let reader = Arc::clone(self);
        let read = move || commit(&reader).and_then(|commit| reader.failed_commit(&desired, &commit));
        match self.repository.blocking_pool.run_for_object(read).await {
            Some(failed) => Some(self.served(failed).await),
            None => None,
        }
    }

    /// Returns the way back of an object of a commit of which another one failed.
    pub fn goes_back_with(
        &self,
        desired: &DesiredState,
        (failed, reason): (&ObjectKey, &Reason),
        served: Served,
        charged: Charged,
    ) -> Prepared {
        let wanted = self.want(desired, charged, Trigger::Together(failed.clone()));
        let step = PlanStep::RollBack { reason: reason.clone(), written: None };
        Prepared { served: Some(served), ..Prepared::of(Planned { wanted, step }) }
    }

    /// Returns the objects that a commit touched, if one of them has failed and no newer commit has acted on that
    /// since. It blocks.
    fn failed_commit(&self, desired: &DesiredState, commit: &CommitId) -> Option<UnservedCommit> {
        let touched = self.touched_by(commit);
        let parts: Vec<(CommitPart, &Record)> = touched.values().filter_map(CommitPart::of).collect();
        let is_newest =
            |record: &Record| self.newest_record(&record.object).is_some_and(|newest| newest.commit == record.commit);
        let failed = first_failure(parts.iter().filter(|(_, record)| is_newest(record)))?;
        let object = failed.object.clone();
        let reason = commit_failed(failed);
        let under_way = parts.iter().filter(|(part, _)| *part == CommitPart::UnderWay);
        let under_way = under_way.map(|(_, other)| (other.object.clone(), other.id)).collect();
        let complete = parts.iter().filter_map(|(part, record)| self.live_part(desired, *part, record)).collect();
        Some(FailedCommit { object, reason, under_way, complete })
    }

    /// Returns true when an object has gone back from this manifest, or is about to, with another object. It blocks.
    pub fn goes_back_already(&self, manifest: &Manifest) -> bool {
        let hash = manifest.hash.to_string();
        let is_held = self.holds.of(&manifest.key).is_some_and(|kept| kept.hold.manifest == hash);
        is_held || {
            let newest = self.newest_record(&manifest.key).filter(|newest| !newest.outcome.is_final());
            let with_another = |newest: &Record| matches!(newest.trigger, Trigger::Together(_));
            newest.is_some_and(|newest| with_another(&newest) && newest.manifest_hash == Some(hash))
        }
    }

    /// Returns why everything else of a commit goes back, if an object of it has failed. It blocks.
    pub fn failure_of(&self, commit: &CommitId) -> Option<Reason> {
        if self.config.on_failure != OnFailure::RollBackCommit {
            return None;
        }
        let touched = self.touched_by(commit);
        let parts: Vec<(CommitPart, &Record)> = touched.values().filter_map(CommitPart::of).collect();
        first_failure(&parts).map(commit_failed)
    }

    /// Returns the manifest that a commit gave an object, if that is live.
    fn live_part(&self, desired: &DesiredState, part: CommitPart, record: &Record) -> Option<Charged> {
        let (key, commit) = (&record.object, &record.commit);
        let is_its = |manifest: &Manifest| match part {
            CommitPart::Complete if record.manifest_hash.is_some() => {
                record.manifest_hash == Some(manifest.hash.to_string())
            }
            // For objects that others applied and for rebuilt records, only Git says whether the commit changed them.
            CommitPart::Complete | CommitPart::AsItWas => {
                self.repository.has_changed(key, commit).unwrap_or_default()
                    || self.has_changed_configuration(manifest, commit)
            }
            CommitPart::Failed | CommitPart::UnderWay | CommitPart::Nothing => false,
        };
        let manifest = self.read_manifest(desired, key).filter(is_its)?;
        Some(Charged { manifest, commit: self.commit(commit)? })
    }

    /// Returns true when a commit changed configuration whose changes roll a workload out. It blocks.
    fn has_changed_configuration(&self, manifest: &Manifest, commit: &CommitId) -> bool {
        let (key, value) = (&manifest.key, manifest.value());
        if !rolls_on_config(key, &value, self.config.roll_on_config) {
            return false;
        }
        let read = template(&value).map(|template| readings(template, key.namespace.as_deref())).unwrap_or_default();
        read.into_keys().any(|object| self.repository.has_changed(&object, commit).unwrap_or_default())
    }

    /// Returns the resources that serve the objects that go back.
    async fn served(&self, failed: UnservedCommit) -> ServedCommit {
        let FailedCommit { object, reason, under_way, complete } = failed;
        let mut served = Vec::new();
        for charged in complete {
            let (key, version) = (charged.manifest.key.clone(), charged.manifest.api_version.clone());
            let ask = || self.cluster.served(&version, &key.kind);
            let ask = Backoff::until_answered(self.in_the_way(&key), ask).await;
            match ask {
                Ok(resource) => served.push((resource, charged)),
                Err(error) => warn!(object = %key, %error, "does not go back with its commit"),
            }
        }
        FailedCommit { object, reason, under_way, complete: served }
    }

    /// Returns the records of each object that a commit touched. It blocks.
    fn touched_by(&self, commit: &CommitId) -> BTreeMap<ObjectKey, Vec<Record>> {
        let mut touched: BTreeMap<ObjectKey, Vec<Record>> = BTreeMap::new();
        for record in self.records_of_commit(commit) {
            touched.entry(record.object.clone()).or_default().push(record);
        }
        touched
    }
}

/// Returns the record of the object that failed first: one that was given up for another object of the commit only where
/// there is no other.
fn first_failure<'a>(parts: impl IntoIterator<Item = &'a (CommitPart, &'a Record)>) -> Option<&'a Record> {
    let failed = parts.into_iter().filter(|(part, _)| *part == CommitPart::Failed).map(|(_, record)| *record);
    failed.min_by_key(|record| (is_given_up(record), record.id))
}

fn is_given_up(record: &Record) -> bool {
    record.reason.as_ref().is_some_and(|reason| reason.code == ReasonCode::CommitFailed)
}

/// Returns the reason for which the others go back with the failed object.
fn commit_failed(failed: &Record) -> Reason {
    if let Some(reason) = failed.reason.as_ref().filter(|_| is_given_up(failed)) {
        return reason.clone();
    }
    let why = failed.reason.as_ref().map_or("it failed", |reason| reason.message.as_str());
    Reason::new(ReasonCode::CommitFailed, format!("{} of the same commit failed: {why}", failed.object))
}

fn is_failure(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::RolledBack | Outcome::RollbackFailed | Outcome::Failed)
}
