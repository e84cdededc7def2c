//! `on_failure = "roll-back-commit"`: when one object of a commit fails, everything that the commit touched goes back.

use std::collections::{BTreeMap, btree_map::Entry};
use std::sync::Arc;

use tracing::{info, warn};

use super::apply_wave::Ranks;
use super::context::Context;
use super::desired_state::DesiredState;
use super::head_change::Charged;
use super::prepared::Prepared;
use super::state::Source;
use super::task_result::{FailedCommit, TaskResult};
use crate::config::OnFailure;
use crate::history::Query;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Outcome, PlanStep, Planned, Reason, ReasonCode, Record, Trigger, Workload};

impl Source {
    /// Hears how a rollout ended. Where the whole commit goes back with it, what the commit touched is read, beside the loop.
    pub(super) fn ended(&mut self, record: &Record, outcome: Outcome) {
        // One that is complete goes back too, when another one has failed meanwhile.
        let matters = is_failure(outcome) || outcome == Outcome::Complete;
        if self.context.config.on_failure != OnFailure::RollBackCommit || !record.trigger.is_commit() || !matters {
            return;
        }
        let (context, desired, commit) = (Arc::clone(&self.context), self.desired(), record.commit.clone());
        self.tasks.spawn(async move {
            let reader = Arc::clone(&context);
            let failed =
                context.repository.blocking_pool.run_for_object(move || reader.failed_commit(&desired, &commit)).await;
            TaskResult::EndRead(failed.map(Box::new))
        });
        self.state.rollouts.ends_read += 1;
    }

    /// Hears what else goes back with what has ended.
    pub(super) fn end_read(&mut self, failed: Option<FailedCommit>) {
        self.state.rollouts.ends_read = self.state.rollouts.ends_read.saturating_sub(1);
        if let Some(failed) = failed {
            self.take_commit_back(failed);
        }
    }

    /// Takes back what a commit touched, because an object of it failed.
    fn take_commit_back(&mut self, failed: FailedCommit) {
        let FailedCommit { object, reason, under_way, complete } = failed;
        for (key, record) in under_way {
            let is_same = self.state.rollouts.under_way.get(&key).is_some_and(|rollout| rollout.record == record);
            if let Some(handle) = self.handles.get(&key).filter(|_| is_same) {
                handle.give_up.send_replace(Some(reason.clone()));
            }
        }
        let complete: Vec<_> = complete.into_iter().filter(|(record, _)| self.is_as_recorded(record)).collect();
        if complete.is_empty() {
            return;
        }
        info!(%object, objects = complete.len(), "everything else that its commit touched goes back");
        self.watch_deferred();
        let prepared = complete.into_iter().filter_map(|(_, charged)| self.goes_back_with(&object, &reason, charged));
        let prepared: Vec<Prepared> = prepared.collect();
        let Some(head) = self.state.planning.planned.clone() else { return };
        let recorded = |one: &Prepared| {
            let rolls_out = Workload::of(&one.planned.wanted.key).is_some();
            Record { rolls_out, ..self.record(&one.planned) }
        };
        let records: Vec<Record> = prepared.iter().map(recorded).collect();
        match self.context.begin_records(&head, &records, self.context.clock.now()) {
            Ok(ids) => {
                let ranks = Ranks::new(prepared.iter().map(|one| one.planned.rank()));
                ids.into_iter().zip(prepared).for_each(|(id, prepared)| self.roll_out(id, prepared, &ranks));
            }
            Err(error) => warn!(%object, %error, "failed to write down what goes back with it; that stays"),
        }
    }

    /// Whether an object has still the manifest that this record is of, and nothing else is done about it.
    fn is_as_recorded(&self, record: &Record) -> bool {
        let hash = self.desired().hash(&record.object).map(|hash| hash.to_string());
        hash.is_some() && hash == record.manifest_hash && !self.state.rollouts.under_way.contains_key(&record.object)
    }

    fn goes_back_with(&self, failed: &ObjectKey, reason: &Reason, charged: Charged) -> Option<Prepared> {
        let manifest = &charged.manifest;
        let Some(served) = self.watches.watched.serving(&manifest.api_version, &manifest.key.kind) else {
            warn!(object = %manifest.key, "does not go back with its commit: its kind is not watched");
            return None;
        };
        let wanted = self.context.want(&self.desired(), charged, Trigger::Together(failed.clone()));
        let step = PlanStep::RollBack { reason: reason.clone(), written: None };
        Some(Prepared { served: Some(served), ..Prepared::of(Planned { wanted, step }) })
    }

    /// Lets go, with a hold that somebody has taken off by hand, of what went back with that object.
    pub(super) fn release_companions(&mut self, key: &ObjectKey) {
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
    /// What a commit touched, where an object of it has failed and nothing has become of that since. It blocks.
    fn failed_commit(&self, desired: &DesiredState, commit: &CommitId) -> Option<FailedCommit> {
        let touched = self.newest_of_commit(commit);
        let is_newest =
            |record: &&Record| self.newest_record(&record.object).is_some_and(|newest| newest.id == record.id);
        let failed = touched.values().filter(|record| is_failure(record.outcome)).find(is_newest)?;
        let object = failed.object.clone();
        let why = failed.reason.as_ref().map_or("it failed", |reason| reason.message.as_str());
        let reason = Reason::new(ReasonCode::CommitFailed, format!("{object} of the same commit failed: {why}"));
        let others = || touched.values().filter(|other| other.object != object);
        let under_way = others().filter(|other| !other.outcome.is_final());
        let under_way = under_way.map(|other| (other.object.clone(), other.id)).collect();
        let complete = others().filter(|other| other.outcome == Outcome::Complete).filter_map(|other| {
            let (manifest, commit) = (self.read_manifest(desired, &other.object)?, self.commit(&other.commit)?);
            Some((other.clone(), Charged { manifest, commit }))
        });
        let complete = complete.collect();
        Some(FailedCommit { object, reason, under_way, complete })
    }

    /// The newest record of each object that a commit touched, where the commit itself set that off. It blocks.
    fn newest_of_commit(&self, commit: &CommitId) -> BTreeMap<ObjectKey, Record> {
        let source = Some(self.config.name.clone());
        let query = Query { source, commit: Some(commit.to_string()), ..Query::default() };
        let records = self.history.records(&query).unwrap_or_else(|error| {
            warn!(%error, "failed to ask the history what the commit touched");
            Vec::new()
        });
        let mut newest: BTreeMap<ObjectKey, Record> = BTreeMap::new();
        for record in records {
            match newest.entry(record.object.clone()) {
                Entry::Vacant(free) => drop(free.insert(record)),
                Entry::Occupied(mut known) if known.get().id < record.id => drop(known.insert(record)),
                Entry::Occupied(_) => {}
            }
        }
        newest.retain(|_, record| record.trigger.is_commit());
        newest
    }
}

fn is_failure(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::RolledBack | Outcome::RollbackFailed | Outcome::Failed)
}
