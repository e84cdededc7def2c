//! Planned objects that wait: for others, as `belay.dev/after` says, for a slot of `max_rollouts`, or for something that is
//! missing or not served. They are begun when their turn comes, and passed over when that does not come.

use std::collections::BTreeSet;

use tokio::time::Instant;
use tracing::{error, info, warn};

use super::state::{Event, Source, cause_of, end_of_wait, is_too_long};
use crate::daemon::planning::plan_parts::is_definition;
use crate::daemon::publish::status::{SourceStatus, UnderWay, put_or_remove};
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::rollout::until_served::beyond_limit;
use crate::daemon::shared::rollout_slots::RolloutSlot;
use crate::history::Update;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{
    After, Gate, Outcome, PlanStep, Planned, Reason, ReasonCode, Record, RecordId, Step, StepKind, Workload,
};

impl Source {
    /// Returns true when the dependencies of an object are complete; `beginning` names those that are about to begin.
    pub fn gate(&self, key: &ObjectKey, beginning: &BTreeSet<ObjectKey>) -> Gate {
        let Some(after) = self.state.desired().after_of(key) else { return Gate::Open };
        self.gate_of(&after, beginning)
    }

    fn gate_of(&self, after: &After, beginning: &BTreeSet<ObjectKey>) -> Gate {
        let newest = |name: &ObjectKey| self.context.newest_record(name);
        self.state.gate_of(after, beginning, newest)
    }

    /// Lets a planned object wait, under its record: it is planned again when it is its turn. `earlier` is the record as it was
    /// before: an object on its way back stays on it.
    pub fn let_wait(&mut self, id: RecordId, earlier: Option<Record>, planned: &Planned, message: String) {
        let mut record = earlier.unwrap_or_else(|| Record { id, ..self.context.planned_record(planned) });
        if record.outcome != Outcome::RollingBack {
            record.outcome = Outcome::Waiting;
        }
        self.on(Event::Waits(Box::new(record.clone())));
        self.tell_waiting(&record, message);
    }

    fn tell_waiting(&mut self, record: &Record, message: String) {
        let Record { id, object: key, commit, outcome, .. } = record;
        let told = self.state.rollouts().waiting(key);
        if told == Some(&message) {
            return;
        }
        let is_of_it = |source: &SourceStatus| source.under_way.get(key).is_some_and(|told| told.commit == *commit);
        let is_of_it = told.is_some() && self.context.status.read(is_of_it).unwrap_or_default();
        if is_of_it && !self.state.tells_other_words(key, Instant::now()) {
            return;
        }
        self.on(Event::WaitTold { key: key.clone(), message: message.clone() });
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
            watched: None,
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
        if self.state.stop_waiting(key) {
            self.context.status.change(|source| source.under_way.remove(key).is_some());
        }
    }

    /// Rechecks the objects that wait for one whose state has changed.
    pub fn recheck_dependents(&mut self, key: &ObjectKey) {
        if self.state.planning().planned().is_none() {
            return;
        }
        let behind: Vec<After> =
            self.state.desired().after().filter(|after| after.names.contains(key)).cloned().collect();
        for after in behind {
            let gate = self.gate_of(&after, &BTreeSet::new());
            let object = &after.object;
            match (self.state.waiting_record(object), gate) {
                (Some(_), Gate::Open) => self.on(Event::MayDiffer(object.clone())),
                (Some(record), Gate::Shut(message)) => self.tell_waiting(&record, message),
                (Some(record), Gate::Skip(reason)) => {
                    self.on(Event::PassedOver(object.clone()));
                    self.skip(object, record.id, &reason);
                }
                (None, Gate::Open) if self.was_skipped(object) => self.on(Event::MayDiffer(object.clone())),
                (None, _) => {}
            }
        }
    }

    fn was_skipped(&self, key: &ObjectKey) -> bool {
        !self.state.rollouts().is_under_way(key)
            && self.context.newest_record(key).is_some_and(|record| record.outcome == Outcome::Skipped)
    }

    /// Forgets those that wait no longer because a newer commit has taken their place.
    pub fn forget_superseded_waits(&mut self) {
        let gone = self.state.superseded_waits();
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
            Err(_) if prepared.is_interrupted() => Ok(RolloutSlot::uncounted()),
            Err(message) => {
                self.on(Event::NoSlot(key.clone()));
                Err(message)
            }
            slot => slot,
        }
    }

    /// Plans as many waiting workloads again as there are free slots. Called after each change of what waits, and when a slot
    /// becomes free.
    pub fn fill_slots(&mut self) {
        let next = self.state.next_for_slots(self.context.rollout_slots.free());
        next.into_iter().for_each(|key| self.on(Event::MayDiffer(key)));
    }

    /// Tries the objects of a definition at once, when it has changed, or is not going to.
    pub fn retry_what_it_defines(&mut self, key: &ObjectKey) {
        if !is_definition(key) {
            return;
        }
        if let Some((_, group)) = key.name.split_once('.') {
            self.context.cluster.forget_group(group);
        }
        self.on(Event::DefinitionThrough(key.clone()));
    }

    /// Lets a manifest wait for something that does not exist yet, that belay has no right for, or that the API server
    /// can't serve now: it is tried again by itself, under the same record. Only a missing right is waited for without a
    /// limit; everything else is given up after `outage_timeout`, and tried again all the same, under another record.
    pub fn wait_for(&mut self, id: RecordId, earlier: Option<Record>, planned: &Planned, reason: &Reason) {
        let (key, cause) = (planned.wanted.key.clone(), cause_of(reason));
        let waited = self.state.put_off_waiting(&key, cause, Instant::now());
        if reason.code == ReasonCode::Missing {
            self.watch_for_missing([key.clone()].into());
        }
        let limit = self.context.config.outage_timeout.0;
        if !is_too_long(cause, waited, limit) {
            return self.let_wait(id, earlier, planned, reason.message.clone());
        }
        let reason = beyond_limit(reason.clone(), limit);
        warn!(object = %key, %reason, "given up for now");
        self.stop_waiting(&key);
        let going_back = earlier.filter(|record| record.outcome == Outcome::RollingBack);
        let (outcome, reason) = end_of_wait(reason, going_back.map(|record| record.reason));
        self.finish(id, outcome, Some(&reason));
        self.on(Event::Refused(key.clone()));
        self.recheck_dependents(&key);
    }
}
