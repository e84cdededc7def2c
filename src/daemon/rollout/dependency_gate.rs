//! Objects that wait for others, as `belay.dev/after` says: they are begun when those are complete, and passed over when
//! those are not coming. Workloads wait for a slot of `max_rollouts` in the same way.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info};

use crate::daemon::publish::status::{SourceStatus, UnderWay, put_or_remove};
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::shared::rollout_slots::RolloutSlot;
use crate::daemon::source::state::{Source, passed_over};
use crate::history::Update;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{
    After, DependencyStanding, Gate, Outcome, PlanStep, Planned, Reason, Record, RecordId, Step, StepKind, Workload,
    gate,
};

impl Source {
    /// Returns true when the dependencies of an object are complete; `beginning` names those that are about to begin.
    pub fn gate(&self, key: &ObjectKey, beginning: &BTreeSet<ObjectKey>) -> Gate {
        let Some(after) = self.desired().after_of(key) else { return Gate::Open };
        self.gate_of(&after, beginning)
    }

    fn gate_of(&self, after: &After, beginning: &BTreeSet<ObjectKey>) -> Gate {
        gate(after, |name| {
            let known = self.state.dependency(name);
            DependencyStanding {
                under_way: known.under_way || beginning.contains(name),
                newest: self.context.newest_record(name).map(|record| (record.outcome, record.reason)),
                ..known
            }
        })
    }

    /// Lets a planned object wait, under its record: it is planned again when it is its turn. `earlier` is the record as it was
    /// before: an object on its way back stays on it.
    pub fn let_wait(&mut self, id: RecordId, earlier: Option<Record>, planned: &Planned, message: String) {
        let mut record = earlier.unwrap_or_else(|| Record { id, ..self.record(planned) });
        if record.outcome != Outcome::RollingBack {
            record.outcome = Outcome::Waiting;
        }
        self.state.rollouts.resumed.insert(record.object.clone(), record.clone());
        self.tell_waiting(&record, message);
    }

    fn tell_waiting(&mut self, record: &Record, message: String) {
        let Record { id, object: key, commit, outcome, .. } = record;
        let told = self.state.rollouts.waiting.get(key);
        if told == Some(&message) {
            return;
        }
        let is_of_it = |source: &SourceStatus| source.under_way.get(key).is_some_and(|told| told.commit == *commit);
        let is_of_it = told.is_some() && self.context.status.read(is_of_it).unwrap_or_default();
        if is_of_it && !self.state.retries.tells_other_words(key, Instant::now()) {
            return;
        }
        self.state.rollouts.waiting.insert(key.clone(), message.clone());
        info!(object = %key, message, "waits");
        let step = Step { at: self.context.clock.now(), kind: StepKind::Waiting, detail: message.clone() };
        let update = Update { outcome: Some(*outcome), steps: vec![step], ..Update::default() };
        if let Err(error) = self.context.history.update(*id, &update) {
            error!(%error, "failed to write down that something waits");
        }
        let under_way = UnderWay {
            commit: commit.clone(),
            outcome: *outcome,
            counters: Default::default(),
            message,
            until: None,
            in_the_way: None,
            wrong: None,
        };
        self.context.status.change(|source| put_or_remove(&mut source.under_way, key, Some(under_way)));
    }

    /// Passes an object over: its dependency is not coming.
    pub fn skip(&mut self, key: &ObjectKey, id: RecordId, reason: &Reason) {
        info!(object = %key, %reason, "skipped");
        self.stop_waiting(key);
        self.finish(id, Outcome::Skipped, Some(reason));
        // Others may wait for this one.
        self.recheck_dependents(key);
    }

    /// Forgets that an object waits.
    pub fn stop_waiting(&mut self, key: &ObjectKey) {
        self.state.rollouts.without_slot.remove(key);
        if self.state.rollouts.waiting.remove(key).is_some() {
            self.context.status.change(|source| source.under_way.remove(key).is_some());
        }
    }

    /// Rechecks the objects that wait for one whose state has changed.
    pub fn recheck_dependents(&mut self, key: &ObjectKey) {
        if self.state.planning.planned.is_none() {
            return;
        }
        let behind: Vec<After> = self.desired().after().filter(|after| after.names.contains(key)).cloned().collect();
        for after in behind {
            let gate = self.gate_of(&after, &BTreeSet::new());
            let object = &after.object;
            match (
                self.state
                    .rollouts
                    .resumed
                    .get(object)
                    .filter(|record| record.outcome != Outcome::RollingBack)
                    .filter(|_| self.state.rollouts.waiting.contains_key(object))
                    .cloned(),
                gate,
            ) {
                (Some(_), Gate::Open) => self.recheck_after(object.clone(), Duration::ZERO),
                (Some(record), Gate::Shut(message)) => self.tell_waiting(&record, message),
                (Some(record), Gate::Skip(reason)) => {
                    passed_over(&mut self.state, object);
                    self.skip(object, record.id, &reason);
                }
                (None, Gate::Open) if self.was_skipped(object) => self.recheck_after(object.clone(), Duration::ZERO),
                (None, _) => {}
            }
        }
    }

    fn was_skipped(&self, key: &ObjectKey) -> bool {
        !self.state.rollouts.under_way.contains_key(key)
            && self.context.newest_record(key).is_some_and(|record| record.outcome == Outcome::Skipped)
    }

    /// Forgets those that wait no longer because a newer commit has taken their place.
    pub fn forget_superseded_waits(&mut self) {
        let gone: Vec<ObjectKey> = self
            .state
            .rollouts
            .waiting
            .keys()
            .filter(|key| !self.state.rollouts.resumed.contains_key(key))
            .cloned()
            .collect();
        gone.iter().for_each(|key| self.stop_waiting(key));
    }

    /// Takes a slot of `max_rollouts` for a rollout that replaces the pods of a workload. A new workload disturbs nobody, and
    /// needs none. A workload that is not complete does not wait: a fix is not behind others. Otherwise returns the reason for
    /// which it waits.
    pub fn slot_for(&mut self, prepared: &Prepared) -> Result<RolloutSlot, String> {
        let key = &prepared.planned.wanted.key;
        let creates = matches!(&prepared.planned.step, PlanStep::Apply(apply) if apply.creates);
        if !prepared.rolls_out() || creates || Workload::of(key).is_none_or(|kind| !kind.can_go_back()) {
            return Ok(RolloutSlot::uncounted());
        }
        match self.context.rollout_slots.take() {
            Err(_) if is_interrupted(prepared) => Ok(RolloutSlot::uncounted()),
            Err(message) => {
                self.state.rollouts.without_slot.insert(key.clone());
                Err(message)
            }
            slot => slot,
        }
    }

    /// Plans as many waiting workloads again as there are free slots. Called after each change of what waits, and when a slot
    /// becomes free.
    pub fn fill_slots(&mut self) {
        let next: Vec<ObjectKey> =
            self.state.rollouts.without_slot.iter().take(self.context.rollout_slots.free()).cloned().collect();
        next.into_iter().for_each(|key| self.recheck_after(key, Duration::ZERO));
    }
}

/// Returns true when a rollout takes the place of one that is not complete, or goes on with the template of one that bakes.
pub fn is_interrupted(prepared: &Prepared) -> bool {
    let replaces = matches!(&prepared.planned.step, PlanStep::Apply(apply) if apply.rolls_out);
    prepared.continues_rollout && !replaces || prepared.live.as_ref().is_some_and(|live| !live.complete)
}
