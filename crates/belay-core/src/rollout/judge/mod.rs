//! Healths over time become a verdict: waiting, complete, or failed and why.
//!
//! The judge believes the object's own status, once it is about the generation that belay's write produced, with two
//! exceptions. A failure that stood there before the write is not this rollout's. And where the cluster's own deadline
//! can't fire (a revision that existed before keeps its `NewReplicaSetAvailable` until something moves; some kinds have
//! no deadline), the judge keeps one of its own. A seeming failure is only a suspicion until the pods have been
//! inspected: a fault of the infrastructure is not the commit's.

pub(in crate::rollout) mod bake;
pub(in crate::rollout) mod fail_fast;
pub(in crate::rollout) mod failure_cause;
pub mod health;
pub(in crate::rollout) mod never_started;
pub(in crate::rollout) mod observation;
pub(in crate::rollout) mod outage;
pub(in crate::rollout) mod reason_texts;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use self::health::{Counters, Fault, Health, Standing, health};
use self::reason_texts::{blame, in_the_way};
use super::{
    Observation, Outages, Reason, ReasonCode, Workload, being_deleted, marks, progress_deadline_seconds, runs_once,
};
use crate::manifest::ObjectKey;

/// The time that the judge's own deadline allows beyond the cluster's, which should come first.
pub const GRACE: SignedDuration = SignedDuration::from_secs(15);

/// The default time for which a fault of the infrastructure is waited out.
pub const OUTAGE_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// The state after a write, from which its judging starts. Kept in the history, so that a restart judges by the same
/// measure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// The generation that the write produced.
    pub generation: i64,
    /// The mark of a failure that the object spoke of already when it was written.
    pub old_failure: Option<String>,
    /// The object that was written; empty if that is not known.
    pub uid: String,
    /// True when the write changed the number of pods alone: there is no other template to go back to.
    pub only_size: bool,
    /// When the rollout has moved last, if that was before a restart.
    pub moved: Option<Timestamp>,
}

impl Baseline {
    /// Returns the baseline of a write, from the object that the API server answered.
    #[must_use]
    pub fn of(key: &ObjectKey, written: &Value) -> Baseline {
        // It runs once: where it has failed already, the answer to the write that made it was lost.
        let once = runs_once(key, written);
        let failure = health(key, written).and_then(|health| health.failure).filter(|_| !once);
        let old_failure = failure.map(|failure| failure.mark);
        let (generation, uid) = (marks::generation(written), marks::uid(written).to_owned());
        Baseline { generation, old_failure, uid, only_size: false, moved: None }
    }
}

/// Judges one rollout.
#[derive(Clone, Debug)]
pub struct Judge {
    key: ObjectKey,
    baseline: Baseline,
    budget: Option<SignedDuration>,
    outage_timeout: SignedDuration,
    /// The time from which outages of the API server count: its last progress.
    outages_from: Timestamp,
    /// The time for which the API server did not answer since.
    outage: SignedDuration,
    /// The time until which it is left alone because the infrastructure is at fault.
    excused_until: Option<Timestamp>,
    observed: bool,
    paused: bool,
    /// True when a step of a canary is judged: where there is no room for its pods, that is not the version's fault.
    is_step: bool,
    /// The furthest that it has come. A pod that comes and goes makes no progress.
    best: Option<Counters>,
    progress_at: Timestamp,
    deadline: Option<SignedDuration>,
    /// The time since which an object without a deadline of its kind is being deleted, with what keeps it.
    going: Option<(Timestamp, Reason)>,
}

/// The judge's answer to its observations so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not there yet.
    Waiting(Waiting),
    /// There.
    Complete,
    /// It may be a failure: [`Judge::rule`] decides when it has seen the pods.
    Suspect(Reason),
}

/// The reason for which a rollout is not complete yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The thing that it waits for.
    pub on: WaitingOn,
    /// The progress.
    pub counters: Counters,
    /// One sentence for people.
    pub message: String,
    /// When the judge's own deadline ends; `None` while none runs.
    pub until: Option<Timestamp>,
}

/// The thing that a rollout waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingOn {
    /// The controller to see the write at all.
    Controller,
    /// A person who resumes the paused rollout.
    Resume,
    /// Its pods.
    Pods,
    /// The end of its bake time.
    BakeTime,
}

/// The judge's ruling after it has inspected the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The commit failed.
    Failed(Reason),
    /// The infrastructure is in the way: reported, and waited for as long as the outage timeout says.
    Infrastructure(Reason),
}

impl Judge {
    /// Returns a judge of the rollout that a write at `now` began, or that belay took up again at `now`.
    #[must_use]
    pub fn new(key: ObjectKey, baseline: Baseline, now: Timestamp) -> Judge {
        Judge {
            key,
            outages_from: baseline.moved.unwrap_or(now),
            baseline,
            budget: None,
            outage_timeout: OUTAGE_TIMEOUT,
            outage: SignedDuration::ZERO,
            excused_until: None,
            observed: false,
            paused: false,
            is_step: false,
            best: None,
            progress_at: now,
            deadline: None,
            going: None,
        }
    }

    /// Allows `budget` on top of the workload's own deadline, and the budget where the workload has none: for a rollback.
    #[must_use]
    pub fn with_budget(mut self, budget: SignedDuration) -> Judge {
        self.budget = Some(budget);
        self
    }

    /// Waits so long for the infrastructure at most, on top of the deadline.
    #[must_use]
    pub fn with_outage_timeout(mut self, limit: SignedDuration) -> Judge {
        self.outage_timeout = limit;
        self
    }

    /// Judges an object without a status of its own by this deadline.
    #[must_use]
    pub fn with_deadline(self, deadline: SignedDuration) -> Judge {
        Judge { deadline: Some(deadline), observed: true, ..self }
    }

    /// Returns the time for which a fault of the infrastructure is waited out.
    #[must_use]
    pub fn outage_timeout(&self) -> SignedDuration {
        self.outage_timeout
    }

    /// Takes into account when the API server did not answer, as known at `now`.
    pub fn note_outages(&mut self, outages: &Outages, now: Timestamp) {
        self.outage = outages.within(self.outages_from, now);
    }

    /// Returns true when this is another object of the same name, whose generations are counted from the beginning.
    #[must_use]
    pub fn is_of_another(&self, object: &Value) -> bool {
        !self.baseline.uid.is_empty() && self.baseline.uid != marks::uid(object)
    }

    /// Returns true when an object is as it was before the write: a watch may report it late, or the cluster's store
    /// was set back to an older state, from which the write is gone.
    #[must_use]
    pub fn is_from_before(&self, object: &Value) -> bool {
        let generation = marks::generation(object);
        generation != 0 && generation < self.baseline.generation
    }

    /// Returns true when an object may have another specification than after the write: it is of a later generation, or
    /// of a kind without any. An object of an earlier generation is from before the write: a watch may still report it.
    #[must_use]
    pub fn is_written_since(&self, object: &Value) -> bool {
        let generation = marks::generation(object);
        generation > self.baseline.generation || generation == 0
    }

    /// Looks at the object as it is at `now`.
    pub fn observe(&mut self, object: &Value, now: Timestamp) -> Verdict {
        let Some(health) = health(&self.key, object) else { return Verdict::Complete };
        self.note_deletion(object, now);
        self.deadline = self.own_deadline(object);
        // A clock that was set back must not put the deadline off.
        self.progress_at = self.progress_at.min(now);
        self.outages_from = self.outages_from.min(now);
        let generation = self.baseline.generation.max(marks::generation(object));
        if health.observed_generation < generation {
            return Verdict::Waiting(self.waiting(
                WaitingOn::Controller,
                &health,
                "the controller has not seen the change yet",
            ));
        }
        if !self.observed {
            self.observed = true;
            self.progress_at = now;
        }
        self.note_progress(&health, now);
        let new_failure =
            health.failure.as_ref().filter(|failure| self.baseline.old_failure.as_ref() != Some(&failure.mark));
        match (health.standing, new_failure) {
            (Standing::Complete, _) => Verdict::Complete,
            (Standing::Paused, _) => Verdict::Waiting(self.waiting(WaitingOn::Resume, &health, &health.message)),
            (Standing::Failed, Some(failure)) if self.believes_the_controller(&failure.reason, now) => {
                Verdict::Suspect(failure.reason.clone())
            }
            (Standing::Failed | Standing::Moving, _) => {
                Verdict::Waiting(self.waiting(WaitingOn::Pods, &health, &health.message))
            }
        }
    }

    /// Looks at a step of a canary as it is at `now`. The object's own deadline is one of its locks: the manifest's counts, unless
    /// the step waits for a person.
    pub fn observe_step(
        &mut self,
        object: &Value,
        manifest: &Value,
        (on, message): (WaitingOn, String),
        now: Timestamp,
    ) -> Waiting {
        self.is_step = true;
        self.deadline = self.own_deadline(manifest);
        self.progress_at = self.progress_at.min(now);
        self.outages_from = self.outages_from.min(now);
        let Some(health) = health(&self.key, object) else {
            return Waiting { on, counters: self.counters(), message, until: self.due() };
        };
        if health.observed_generation >= self.baseline.generation && !self.observed {
            self.observed = true;
            self.progress_at = now;
        }
        let standing = if on == WaitingOn::Resume { Standing::Paused } else { Standing::Moving };
        self.note_progress(&Health { standing, ..health.clone() }, now);
        self.waiting(on, &health, &message)
    }

    /// Notes that the same rollout was written again, without a new beginning.
    pub fn is_written_again(&mut self, written: Baseline) {
        self.baseline.generation = self.baseline.generation.max(written.generation);
    }

    /// Returns the furthest that it has come.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.best.unwrap_or_default()
    }

    /// Returns when the judge's own deadline ends, if nothing moves until then; `None` while none runs.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let own = self.own_due().map(|due| due.max(self.excused_until.unwrap_or(self.progress_at)));
        own.into_iter().chain(self.gone_by()).min()
    }

    /// Returns until when a deletion is waited for.
    fn gone_by(&self) -> Option<Timestamp> {
        self.going.as_ref()?.0.checked_add(self.outage_timeout).ok()
    }

    /// Returns the same, whatever the infrastructure does to the pods.
    fn own_due(&self) -> Option<Timestamp> {
        self.after_progress(self.outage)
    }

    /// Returns until when a fault of the infrastructure is waited out.
    fn limit(&self) -> Option<Timestamp> {
        self.after_progress(self.outage_timeout)
    }

    /// Returns true when even a fault of the infrastructure has been waited out for long enough.
    #[must_use]
    pub fn is_at_its_limit(&self, now: Timestamp) -> bool {
        self.limit().is_some_and(|limit| limit.max(self.own_due().unwrap_or(limit)) <= now)
    }

    fn after_progress(&self, more: SignedDuration) -> Option<Timestamp> {
        let deadline = self.deadline.filter(|_| !self.paused)?;
        self.progress_at.checked_add(deadline.saturating_add(more)).ok()
    }

    /// Returns true when the judge accepts the controller's statement that the deadline has passed. A way back has its
    /// budget, however short that deadline is; and the controller does not know of an outage of the API server, which
    /// it waited out itself, nor of a fault of the infrastructure, like its own absence.
    fn believes_the_controller(&self, said: &Reason, now: Timestamp) -> bool {
        let is_excused =
            said.code == ReasonCode::ProgressDeadlineExceeded && self.excused_until.is_some_and(|until| now < until);
        !is_excused && !self.is_put_off(now)
    }

    /// Returns true when the deadline is put off, by a budget or an outage of the API server.
    fn is_put_off(&self, now: Timestamp) -> bool {
        let alone = self.budget.is_none() && self.outage.is_zero();
        !alone && self.own_due().is_some_and(|due| due > now)
    }

    /// Returns the judge's own reason for failure if its deadline has passed at `now`.
    #[must_use]
    pub fn overdue(&self, now: Timestamp) -> Option<Reason> {
        if let Some((_, Reason { code, message })) =
            self.going.as_ref().filter(|_| self.gone_by().is_some_and(|by| by <= now))
        {
            let seconds = self.outage_timeout.as_secs();
            let message = format!("{message}: waited for all of outage_timeout, {seconds} s");
            return Some(Reason { code: code.clone(), message });
        }
        (now >= self.due()?).then(|| {
            Reason::new(ReasonCode::ProgressDeadlineExceeded, "the rollout made no progress within its deadline")
        })
    }

    /// Rules on a suspicion, after an inspection of the pods. After [`Judgement::Infrastructure`] the judge waits for
    /// another whole deadline, but not beyond the outage timeout: then that fault is the reason for which the rollout
    /// has failed.
    pub fn rule(&mut self, suspicion: Reason, observation: &Observation, now: Timestamp) -> Judgement {
        if suspicion.code == ReasonCode::ProgressDeadlineExceeded && !self.outage.is_zero() && self.is_put_off(now) {
            self.excused_until = self.own_due();
            let seconds = self.outage.as_secs();
            let message = format!("the API server did not answer for {seconds} s: its deadline ends so much later");
            return Judgement::Infrastructure(Reason::new(ReasonCode::ApiServerAway, message));
        }
        // A workload without pods of its own, and a Job, which does not try again, are believed.
        let own_word = suspicion.code != ReasonCode::ProgressDeadlineExceeded
            && matches!(Workload::of(&self.key), None | Some(Workload::Job));
        let worst = observation.pods.iter().max_by_key(|pod| pod.fault);
        match worst.map(|pod| (pod.fault, &pod.seen)) {
            Some((Fault::Commit | Fault::Young, seen)) => {
                Judgement::Failed(self.with_outage(Reason { message: blame(&suspicion, seen), ..suspicion }))
            }
            _ if own_word => Judgement::Failed(suspicion),
            _ if observation.cannot_make_pods.is_some() && !self.is_step => {
                let message =
                    format!("{}: {}", suspicion.message, observation.cannot_make_pods.as_deref().unwrap_or_default());
                Judgement::Failed(Reason { message, ..suspicion })
            }
            worst if self.observed => self.waits(in_the_way(&suspicion, worst, observation), now),
            _ => {
                let message = "its controller has not seen the change yet".to_owned();
                self.waits(Reason::new(ReasonCode::ControllerSilent, message), now)
            }
        }
    }

    /// Waits for the infrastructure, or no longer.
    fn waits(&mut self, fault: Reason, now: Timestamp) -> Judgement {
        let limit = self.limit();
        if self.is_at_its_limit(now) {
            let message = format!("{}; that has lasted for all of outage_timeout", fault.message);
            return Judgement::Failed(Reason { message, ..fault });
        }
        let again = self.deadline.and_then(|deadline| now.checked_add(deadline).ok());
        self.excused_until = again.map(|again| limit.map_or(again, |limit| again.min(limit)));
        Judgement::Infrastructure(fault)
    }

    /// Says of an outage that has been allowed for.
    fn with_outage(&self, reason: Reason) -> Reason {
        if self.outage.is_zero() {
            return reason;
        }
        let seconds = self.outage.as_secs();
        let message = format!("{}; the API server did not answer for {seconds} s meanwhile", reason.message);
        Reason { message, ..reason }
    }

    fn own_deadline(&self, object: &Value) -> Option<SignedDuration> {
        let own = progress_deadline_seconds(&self.key, object).map(SignedDuration::from_secs);
        match (own, self.budget) {
            (Some(own), Some(budget)) => Some(own.saturating_add(budget)),
            (None, Some(budget)) => Some(budget),
            (Some(own), None) => Some(own.saturating_add(GRACE)),
            (None, None) => None,
        }
    }

    /// Notes that an object is being deleted, if no deadline of its kind ends the wait for it.
    fn note_deletion(&mut self, object: &Value, now: Timestamp) {
        let ends_by_itself = !matches!(Workload::of(&self.key), None | Some(Workload::Job));
        let since = self.going.take().map_or(now, |(since, _)| since.min(now));
        self.going = being_deleted(object).filter(|_| !ends_by_itself).map(|reason| (since, reason));
    }

    fn note_progress(&mut self, health: &Health, now: Timestamp) {
        let paused = health.standing == Standing::Paused;
        // A pause stops the clock; resuming starts it from the beginning, as Kubernetes does.
        let best = self.best.filter(|best| best.desired == health.counters.desired);
        let moved = best.is_none_or(|best| health.counters.progressed_since(&best));
        if moved || paused || self.paused {
            self.progress_at = now;
            self.excused_until = None;
            // The progress before a restart is not known.
            if self.best.is_some() || self.baseline.moved.is_none() {
                self.outages_from = now;
            }
        }
        self.paused = paused;
        self.best = Some(best.map_or(health.counters, |best| health.counters.best_of(&best)));
    }

    fn waiting(&self, on: WaitingOn, health: &Health, message: &str) -> Waiting {
        Waiting { on, counters: health.counters, message: message.to_owned(), until: self.due() }
    }
}
