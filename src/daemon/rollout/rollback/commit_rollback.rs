//! `on_failure = "roll-back-commit"`: when one object of a commit fails, everything that the commit touched goes back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::{info, warn};

use crate::cluster::{Backoff, Served};
use crate::config::OnFailure;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::head_change::Charged;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::rollout::apply_wave::Ranks;
use crate::daemon::shared::context::Context;
use crate::daemon::shared::rollout_slots::RolloutSlot;
use crate::daemon::source::state::Source;
use crate::daemon::source::task_result::{FailedCommit, ServedCommit, TaskResult, UnservedCommit};
use crate::history::ObjectStanding;
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::rollback::CommitPart;
use belay_core::rollout::{
    CommitId, ObjectState, Outcome, PlanStep, Planned, Reason, ReasonCode, Record, Trigger, Workload, readings,
    rolls_on_config, template,
};

impl Source {
    /// Hears how a rollout ended. If the whole commit goes back with it, the objects that the commit touched are read
    /// beside the loop.
    pub fn ended(&mut self, record: &Record, outcome: Outcome) {
        // One that is complete goes back too, when another one has failed meanwhile.
        let matters = is_failure(outcome) || outcome == Outcome::Complete;
        if self.context.config.on_failure != OnFailure::RollBackCommit || !record.trigger.is_commit() || !matters {
            return;
        }
        let commit = record.commit.clone();
        self.read_failed_commit(move |_| Some(commit));
    }

    /// Hears that an object was resumed. It goes back with its commit, if another object of that failed meanwhile.
    pub fn resumed(&mut self, key: &ObjectKey) {
        if self.context.config.on_failure == OnFailure::RollBackCommit {
            let key = key.clone();
            self.read_failed_commit(move |context| context.newest_record(&key).map(|record| record.commit));
        }
    }

    /// Takes up, at the start, unfinished work of an earlier daemon: the rest of the commits of which an object failed.
    pub fn finish_commit_rollbacks(&mut self) {
        if self.context.config.on_failure != OnFailure::RollBackCommit || self.recorded.failed_commits_read {
            return;
        }
        self.recorded.failed_commits_read = true;
        let failed = |one: &ObjectStanding| {
            matches!(one.state, ObjectState::Failed | ObjectState::RolledBack | ObjectState::RollbackFailed)
        };
        let commits: Option<BTreeSet<CommitId>> = self
            .context
            .status
            .read(|source| source.ended.values().filter(|one| failed(one)).map(|one| one.commit.clone()).collect());
        commits.into_iter().flatten().for_each(|commit| self.read_failed_commit(move |_| Some(commit)));
    }

    /// Reads, beside the loop, the objects of a commit of which one may have failed.
    fn read_failed_commit(&mut self, commit: impl FnOnce(&Context) -> Option<CommitId> + Send + 'static) {
        let (context, desired) = (Arc::clone(&self.context), self.desired());
        self.tasks.spawn(async move {
            let reader = Arc::clone(&context);
            let read = move || commit(&reader).and_then(|commit| reader.failed_commit(&desired, &commit));
            let failed = match context.repository.blocking_pool.run_for_object(read).await {
                Some(failed) => Some(Box::new(context.served(failed).await)),
                None => None,
            };
            TaskResult::EndRead(failed)
        });
        self.state.rollouts.ends_read += 1;
    }

    /// Takes the list of objects that go back with one whose rollout has ended.
    pub fn end_read(&mut self, failed: Option<ServedCommit>) {
        self.state.rollouts.ends_read = self.state.rollouts.ends_read.saturating_sub(1);
        if let Some(failed) = failed {
            self.take_commit_back(failed);
        }
    }

    /// Rolls the objects of a commit back, because one of them failed.
    fn take_commit_back(&mut self, failed: ServedCommit) {
        let FailedCommit { object, reason, under_way, complete } = failed;
        for (key, record) in under_way {
            let is_same = self.state.rollouts.under_way.get(&key).is_some_and(|rollout| rollout.record == record);
            if let Some(handle) = self.handles.get(&key).filter(|_| is_same) {
                handle.give_up.send_replace(Some(reason.clone()));
            }
        }
        let complete: Vec<_> = complete.into_iter().filter(|(_, charged)| self.is_to_go_back(charged)).collect();
        if complete.is_empty() {
            return;
        }
        info!(%object, objects = complete.len(), "everything else that its commit touched goes back");
        self.watch_deferred();
        let prepared =
            complete.into_iter().map(|(served, charged)| self.goes_back_with(&object, &reason, served, charged));
        let prepared: Vec<Prepared> = prepared.collect();
        let Some(head) = self.state.planning.planned.clone() else { return };
        let recorded = |one: &Prepared| {
            let rolls_out = Workload::of(&one.planned.wanted.key).is_some();
            Record { rolls_out, reason: Some(reason.clone()), ..self.record(&one.planned) }
        };
        let records: Vec<Record> = prepared.iter().map(recorded).collect();
        match self.context.begin_records(&head, &records, self.context.clock.now()) {
            Ok(ids) => {
                let ranks = Ranks::new(prepared.iter().map(|one| one.planned.rank()));
                ids.into_iter()
                    .zip(prepared)
                    .for_each(|(id, prepared)| self.roll_out(id, prepared, RolloutSlot::uncounted(), &ranks));
            }
            Err(error) => warn!(%object, %error, "failed to write down what goes back with it; that stays"),
        }
    }

    /// Returns true when an object still has the manifest that the commit gave it, and nothing else is done about it. It
    /// may have gone back meanwhile with another object of the commit.
    fn is_to_go_back(&self, Charged { manifest, .. }: &Charged) -> bool {
        let key = &manifest.key;
        let left_alone = self.state.live.get(key).is_some_and(|facts| facts.suspended);
        self.desired().hash(key) == Some(manifest.hash)
            && !left_alone
            && !self.state.rollouts.under_way.contains_key(key)
            && !self.context.goes_back_already(manifest)
    }

    fn goes_back_with(&self, failed: &ObjectKey, reason: &Reason, served: Served, charged: Charged) -> Prepared {
        let wanted = self.context.want(&self.desired(), charged, Trigger::Together(failed.clone()));
        let step = PlanStep::RollBack { reason: reason.clone(), written: None };
        Prepared { served: Some(served), ..Prepared::of(Planned { wanted, step }) }
    }

    /// Releases the objects that went back with an object whose hold somebody has removed by hand.
    pub fn release_companions(&mut self, key: &ObjectKey) {
        let went_with: Vec<ObjectKey> = self
            .state
            .live
            .iter()
            .filter(|(_, facts)| {
                facts.hold.as_ref().is_some_and(|hold| hold.with.iter().any(|companion| companion.object == *key))
            })
            .map(|(key, _)| key.clone())
            .collect();
        for other in went_with {
            if let Some(facts) = self.state.live.get_mut(&other) {
                facts.released.clone_from(&facts.hold);
            }
            self.recheck_after(other, std::time::Duration::ZERO);
        }
    }
}

impl Context {
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
