//! `on_failure = "roll-back-commit"`: when one object of a commit fails, everything that the commit touched goes back.

use std::sync::Arc;

use tracing::{info, warn};

use super::state::{Event, Source};
use super::task_result::TaskResult;
use crate::config::OnFailure;
use crate::daemon::repository::head_change::Charged;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::rollout::apply_wave::Ranks;
use crate::daemon::rollout::rollback::commit_rollback::{FailedCommit, ServedCommit};
use crate::daemon::shared::context::Context;
use crate::daemon::shared::rollout_slots::RolloutSlot;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Outcome, Record, Workload};

impl Source {
    /// Hears how a rollout ended. If the whole commit goes back with it, the objects that the commit touched are read
    /// beside the loop.
    pub fn ended(&mut self, record: &Record, outcome: Outcome) {
        if self.context.may_take_commit_back(record, outcome) {
            let commit = record.commit.clone();
            self.read_failed_commit(move |_| Some(commit));
        }
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
        let commits = self.context.failed_commits();
        commits.into_iter().for_each(|commit| self.read_failed_commit(move |_| Some(commit)));
    }

    /// Reads, beside the loop, the objects of a commit of which one may have failed.
    fn read_failed_commit(&mut self, commit: impl FnOnce(&Context) -> Option<CommitId> + Send + 'static) {
        let (context, desired) = (Arc::clone(&self.context), self.desired());
        self.tasks
            .spawn(async move { TaskResult::EndRead(context.read_failed_commit(desired, commit).await.map(Box::new)) });
        self.on(Event::EndInReading);
    }

    /// Takes the list of objects that go back with one whose rollout has ended.
    pub fn end_read(&mut self, failed: Option<ServedCommit>) {
        self.on(Event::EndRead);
        if let Some(failed) = failed {
            self.take_commit_back(failed);
        }
    }

    /// Rolls the objects of a commit back, because one of them failed.
    fn take_commit_back(&mut self, failed: ServedCommit) {
        let FailedCommit { object, reason, under_way, complete } = failed;
        for (key, record) in under_way {
            let is_same = self.state.rollouts().under_way(&key).is_some_and(|rollout| rollout.record == record);
            if let Some(handle) = self.handles.get(&key).filter(|_| is_same) {
                handle.give_up.send_replace(Some(reason.clone()));
            }
        }
        let complete: Vec<_> = complete.into_iter().filter(|(_, charged)| self.is_to_go_back(charged)).collect();
        if complete.is_empty() {
            return;
        }
        info!(%object, objects = complete.len(), "everything else that its commit touched goes back");
        self.watches.also_deferred();
        let prepared = complete.into_iter().map(|(served, charged)| {
            self.context.goes_back_with(self.state.desired(), (&object, &reason), served, charged)
        });
        let prepared: Vec<Prepared> = prepared.collect();
        let Some(head) = self.state.planning().planned().cloned() else { return };
        let recorded = |one: &Prepared| {
            let rolls_out = Workload::of(&one.planned.wanted.key).is_some();
            Record { rolls_out, reason: Some(reason.clone()), ..self.context.planned_record(&one.planned) }
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
        let left_alone = self.state.live().get(key).is_some_and(|facts| facts.suspended);
        let is_as_given = self.state.desired().hash(key) == Some(manifest.hash) && !left_alone;
        is_as_given && !self.state.rollouts().is_under_way(key) && !self.context.goes_back_already(manifest)
    }
}
