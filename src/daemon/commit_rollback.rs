//! `on_failure = "roll-back-commit"`: when one object of a commit fails, everything that the commit touched goes back.

use tracing::{info, warn};

use super::apply_wave::Ranks;
use super::head_change::Charged;
use super::planner::Prepared;
use super::resume_point::resumed_apply;
use super::rollout_task::ResumePoint;
use super::state::{FailedObject, Source};
use crate::config::OnFailure;
use crate::history::Query;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Action, CommitId, Outcome, Planned, Reason, ReasonCode, Record, Trigger, rank};

impl Source {
    /// Hears how a rollout ended: where the whole commit goes back with it, that begins here.
    pub(super) fn ended(&mut self, key: &ObjectKey, record: &Record, outcome: Outcome) {
        if self.context.config.on_failure != OnFailure::RollBackCommit || !record.trigger.is_commit() {
            return;
        }
        match outcome {
            Outcome::RolledBack | Outcome::RollbackFailed | Outcome::Failed => self.take_commit_back(key, record),
            // It went through while the verdict about another one was on its way.
            Outcome::Complete => {
                if let Some(failed) = self.state.rollouts.failed_commits.get(&record.commit).cloned() {
                    self.take_back_with(&failed, record);
                }
            }
            _ => {}
        }
    }

    fn take_commit_back(&mut self, key: &ObjectKey, record: &Record) {
        if self.state.rollouts.failed_commits.contains_key(&record.commit) {
            return;
        }
        let why = record.reason.as_ref().map_or("it failed", |reason| reason.message.as_str());
        let reason = Reason::new(ReasonCode::CommitFailed, format!("{key} of the same commit failed: {why}"));
        let failed = FailedObject { object: key.clone(), reason };
        info!(commit = record.commit.short(), object = %key, "everything that the commit touched goes back");
        self.state.rollouts.failed_commits.insert(record.commit.clone(), failed.clone());
        for other in self.touched_by(&record.commit).into_iter().filter(|other| other.object != *key) {
            match self.state.rollouts.under_way.get(&other.object).filter(|rollout| rollout.record == other.id) {
                Some(_) => {
                    if let Some(handle) = self.handles.get(&other.object) {
                        handle.give_up.send_replace(Some(failed.reason.clone()));
                    }
                }
                None if other.outcome == Outcome::Complete => self.take_back_with(&failed, &other),
                None => {}
            }
        }
    }

    fn touched_by(&self, commit: &CommitId) -> Vec<Record> {
        let source = Some(self.context.config.name.clone());
        let query = Query { source, commit: Some(commit.to_string()), ..Query::default() };
        let records = self.context.history.records(&query).unwrap_or_else(|error| {
            warn!(%error, "failed to ask the history what the commit touched");
            Vec::new()
        });
        records.into_iter().filter(|record| record.trigger.is_commit()).collect()
    }

    /// Takes back what is complete, under a record of its own.
    fn take_back_with(&mut self, failed: &FailedObject, complete: &Record) {
        let key = &complete.object;
        let same = self.desired().hash(key).map(|hash| hash.to_string());
        if same.is_none() || same != complete.manifest_hash || self.state.rollouts.under_way.contains_key(key) {
            return;
        }
        let (Some(manifest), Some(commit)) = (self.read_manifest(key), self.commit(&complete.commit)) else { return };
        self.watch_crowds();
        let api_version = manifest.api_version.clone();
        let trigger = Trigger::Together(failed.object.clone());
        let wanted = self.context.want(&self.desired(), Charged { manifest, commit }, trigger);
        let Some(served) = self.watches.watched.serving(&api_version, &key.kind) else {
            warn!(object = %key, "does not go back with its commit: its kind is not watched");
            return;
        };
        let action = Action::Apply(resumed_apply(&wanted, &self.context.config.name));
        let planned = Planned { wanted, action };
        let record = self.record(&planned);
        let Some(head) = self.state.planning.planned.clone() else { return };
        let now = self.context.clock.now();
        match self.context.history.begin(&self.context.config.name, &head, &[record], now) {
            Ok(ids) => {
                let ranks = Ranks::new([rank(key)]);
                let stage = ResumePoint::GoingBack { reason: failed.reason.clone(), went: None };
                let prepared = Prepared { served: Some(served), ..Prepared::of(planned) };
                for id in ids {
                    self.roll_out(id, prepared.clone(), stage.clone(), &ranks);
                }
            }
            Err(error) => warn!(object = %key, %error, "failed to write down that it goes back; it stays"),
        }
    }

    /// Lets go, with a hold that somebody has taken off by hand, of what went back with that object.
    pub(super) fn let_go_of_company(&mut self, key: &ObjectKey) {
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
                facts.let_go.clone_from(&facts.hold);
            }
            self.recheck_after(other, std::time::Duration::ZERO);
        }
    }
}
