//! Watches one workload until the judge has ruled.

mod analysis;
mod analysis_job;
mod bake;
mod canary;
mod measured_rollout;
mod next_state;
mod pods;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tracing::{debug, info, warn};

use self::analysis::Analyses;
use self::bake::BakeProgress;
use self::canary::LockWrites;
pub use self::next_state::sleep_until;
use super::canary_progress::CanaryProgress;
use super::rollout_task::{Cancelled, RolloutTask};
use crate::cluster::{Backoff, ClusterError, EventKind, ObservedWorkload};
use crate::daemon::publish::status::{UnderWay, WatchedUntil, put_or_remove, set};
use belay_core::manifest::Compact;
use belay_core::rollout::health::Fault;
use belay_core::rollout::{
    Baseline, Counters, FailFast, Judge, Judgement, NeverStarted, Outcome, Reason, ReasonCode, StepKind, Verdict,
    Waiting, WaitingOn, marks, template,
};

/// The time for which the judge leaves a workload alone after an infrastructure fault.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// The time after which an object is read if the watch reports nothing of it.
const UNHEARD: Duration = Duration::from_secs(30);

/// The period between two inspections of the pods if belay may give up before the deadline.
pub const LOOK_AT_PODS: Duration = Duration::from_secs(5);

/// The time after which the pods are inspected to report trouble with them, and the least frequency.
const TELL_OF_PODS: Duration = Duration::from_secs(10);
const TELL_OF_PODS_AGAIN: Duration = Duration::from_mins(2);

/// The end of the monitoring.
#[derive(Clone, Debug)]
pub enum MonitorEnd {
    /// The workload is complete.
    Complete(Arc<Value>),
    /// It failed.
    Failed {
        /// The reason.
        reason: Reason,
        /// The observed workload.
        observed: Box<ObservedWorkload>,
        /// The workload as it was.
        live: Arc<Value>,
    },
    /// Somebody else wrote another pod template.
    TakenOver(Arc<Value>),
    /// Somebody deleted it.
    Gone,
    /// Somebody asked to leave it alone, and why.
    Suspended(String),
    /// The cluster's store was set back: it is as it was before the write.
    SetBack,
}

/// The judgement of an object by what it says itself.
enum Look {
    /// Nothing more is to be known.
    Ended(MonitorEnd),
    /// The source gives it up, and why.
    GivenUp(Reason),
    /// It seems to have failed.
    Suspect(Reason),
    /// It is on its way.
    Waits(Waiting),
    /// It is as it was before the write, and is read soon: nothing is ruled on a version that is not there.
    FromBefore(Waiting),
    /// It was complete, and its bake time is not over.
    Bakes,
    /// A step of its canary is under way.
    CanaryStep,
}

/// One workload being watched.
pub struct HealthMonitor<'a> {
    work: &'a mut RolloutTask,
    judge: Judge,
    /// The hash of the template as the server answered it, without ignored fields; a live one that differs is somebody
    /// else's.
    applied: Option<String>,
    /// The outcome that is published meanwhile.
    outcome: Outcome,
    /// The observations of its pods, if belay may give up early.
    fail_fast: Option<FailFast>,
    /// The observations of its start, if it runs once.
    never_started: NeverStarted,
    /// The bake time, which follows its completion.
    bake: BakeProgress,
    /// The analyses, which look within it.
    analyses: Option<Analyses>,
    /// The writes of a canary's locks.
    lock_writes: LockWrites,
    /// The time of the next inspection of the pods, and the wait after it.
    look_at_pods: (tokio::time::Instant, Duration),
    /// The time until which nothing is suspected.
    quiet_until: tokio::time::Instant,
    /// The counters that were recorded last.
    told: Option<Counters>,
    /// True when the object was inspected.
    seen: bool,
    /// The time at which the object is read if the watch has not reported the last write until then: it may have gone
    /// before the watch began, or the cluster's store was set back.
    unheard: Option<tokio::time::Instant>,
    /// True when the inspected object was just read for that.
    is_read: bool,
    /// True when it was just read because its deadline has passed.
    is_read_again: bool,
}

impl RolloutTask {
    /// Returns a judge of the rollout that a write began.
    pub fn judge(&self, baseline: Baseline) -> Judge {
        self.judge_since(baseline, self.context.clock.steady())
    }

    /// Returns the same of a rollout that has moved last at that time.
    pub fn judge_since(&self, baseline: Baseline, moved: Timestamp) -> Judge {
        let limit = self.context.config.outage_timeout.signed();
        let judge = Judge::new(self.planned.wanted.key.clone(), baseline, moved);
        judge.with_outage_timeout(limit)
    }

    /// Says everywhere that an infrastructure fault is in the way, and that nothing is judged meanwhile.
    pub async fn waits_for_infrastructure(&self, reason: &Reason) -> Result<(), Cancelled> {
        let key = &self.planned.wanted.key;
        warn!(object = %key, %reason, "a fault of the infrastructure: nothing is judged meanwhile");
        self.step(StepKind::Waiting, &reason.message).await?;
        self.context.status.change(|source| match source.under_way.get_mut(key) {
            Some(under_way) => set(&mut under_way.in_the_way, Some(reason.clone())),
            None => false,
        });
        Ok(())
    }
}

impl<'a> HealthMonitor<'a> {
    /// Judges the rollout that `work` began, or took back.
    pub fn new(
        work: &'a mut RolloutTask,
        judge: Judge,
        applied: Option<String>,
        outcome: Outcome,
    ) -> HealthMonitor<'a> {
        // The way back has its whole budget.
        let impatient = work.context.config.fail_fast && outcome == Outcome::UnderWay && work.is_judged();
        let fail_fast = impatient.then(FailFast::default);
        let now = tokio::time::Instant::now();
        let wait = if impatient { LOOK_AT_PODS } else { TELL_OF_PODS };
        let look_at_pods = (now + wait, wait);
        let unheard = work.live.borrow().is_none().then(|| now + UNHEARD);
        HealthMonitor {
            work,
            judge,
            applied,
            outcome,
            fail_fast,
            never_started: NeverStarted::default(),
            bake: BakeProgress::default(),
            analyses: None,
            lock_writes: LockWrites::default(),
            look_at_pods,
            quiet_until: now,
            told: None,
            seen: false,
            unheard,
            is_read: false,
            is_read_again: false,
        }
    }

    /// Watches from `live` on, the object as the write left it.
    pub async fn until_judged(&mut self, live: Option<Compact>) -> Result<MonitorEnd, Cancelled> {
        let ruled = self.watch(live).await;
        // Nothing is measured on the way back.
        self.analyses = None;
        ruled
    }

    async fn watch(&mut self, live: Option<Compact>) -> Result<MonitorEnd, Cancelled> {
        let Some(mut live) = live else { return Ok(MonitorEnd::Gone) };
        // Thousands wait at once: while one does, for whatever it is, it has nothing but the object's text.
        loop {
            let ruled = match self.judge_now(&live) {
                Look::Ended(end) => return Ok(end),
                look if self.is_to_be_read_again(&look) => {
                    self.is_read_again = true;
                    match Box::pin(self.work.read()).await? {
                        Some(read) => live = Compact::of(&read),
                        None => return Ok(MonitorEnd::Gone),
                    }
                    continue;
                }
                look => Box::pin(self.look(look, &live)).await?,
            };
            if let Some(ruled) = ruled {
                return Ok(ruled);
            }
            self.is_read_again = false;
            match self.next(&live).await? {
                Some(next) => live = next,
                None => return Ok(MonitorEnd::Gone),
            }
        }
    }

    /// Returns true when the object was present while it was watched.
    pub fn has_seen_it(&self) -> bool {
        self.seen
    }

    /// Judges the object as it is now, by what it says itself.
    fn judge_now(&mut self, text: &Compact) -> Look {
        let live = Arc::new(text.read());
        if self.judge.is_of_another(&live) {
            return Look::Ended(MonitorEnd::Gone);
        }
        if let Some(why) = marks::suspension(&live) {
            return Look::Ended(MonitorEnd::Suspended(why.to_owned()));
        }
        let is_from_before = self.judge.is_from_before(&live);
        if is_from_before {
            if std::mem::take(&mut self.is_read) {
                return Look::Ended(MonitorEnd::SetBack);
            }
            self.unheard.get_or_insert_with(|| tokio::time::Instant::now() + UNHEARD);
        }
        self.is_read = false;
        self.seen = true;
        if self.is_taken_over(&live) {
            return Look::Ended(MonitorEnd::TakenOver(live));
        }
        if let Some(reason) = self.given_up() {
            return Look::GivenUp(reason);
        }
        let now = self.work.context.clock.steady();
        self.judge.note_outages(&self.work.context.cluster.outages(), now);
        if self.is_canary_step() && !is_from_before {
            return Look::CanaryStep;
        }
        match self.judge.observe(&live, now) {
            _ if self.bake.running().is_some() => Look::Bakes,
            Verdict::Complete if self.must_bake(&live) => Look::Bakes,
            Verdict::Complete => Look::Ended(MonitorEnd::Complete(live)),
            Verdict::Suspect(reason) => Look::Suspect(reason),
            Verdict::Waiting(waiting) if is_from_before => Look::FromBefore(waiting),
            Verdict::Waiting(waiting) => Look::Waits(waiting),
        }
    }

    /// Returns true when the deadline of what the watch told last has passed. The watch may have told nothing for long: the object
    /// is read before it is ruled on.
    fn is_to_be_read_again(&self, look: &Look) -> bool {
        let is_overdue = || self.judge.overdue(self.work.context.clock.steady()).is_some();
        let is_quiet = tokio::time::Instant::now() < self.quiet_until;
        let may_be_over = match look {
            Look::Waits(_) => true,
            Look::CanaryStep => self.bake.running().is_none(),
            _ => false,
        };
        may_be_over && !self.is_read_again && !is_quiet && is_overdue()
    }

    /// Does what the object does not say itself; `None` if it is still to be waited for. Thousands wait at once for the history to
    /// take what they publish: the longer futures of the few that do more are boxed.
    async fn look(&mut self, look: Look, live: &Compact) -> Result<Option<MonitorEnd>, Cancelled> {
        let suspicion = match look {
            Look::Ended(end) => return Ok(Some(end)),
            Look::GivenUp(reason) => {
                return Box::pin(self.fails(reason, live)).await.map(Some);
            }
            Look::Suspect(reason) => Some(reason),
            Look::Bakes => return Box::pin(self.watch_on(live)).await,
            Look::FromBefore(waiting) => {
                self.publish(&waiting).await?;
                return Ok(None);
            }
            Look::CanaryStep => return Box::pin(self.look_at_step(live)).await,
            Look::Waits(waiting) => return self.look_waiting(waiting, live).await,
        };
        self.look_suspected(suspicion, live).await
    }

    /// Publishes that it waits, and rules on it once its deadline has passed.
    async fn look_waiting(&mut self, waiting: Waiting, live: &Compact) -> Result<Option<MonitorEnd>, Cancelled> {
        self.publish(&waiting).await?;
        let overdue = self.judge.overdue(self.work.context.clock.steady());
        if overdue.is_some() && !self.is_read_again {
            // It was still due before the history took what was published: the object is read again first.
            return Ok(None);
        }
        self.look_suspected(overdue, live).await
    }

    async fn look_suspected(
        &mut self,
        suspicion: Option<Reason>,
        live: &Compact,
    ) -> Result<Option<MonitorEnd>, Cancelled> {
        if let Some(suspicion) = suspicion.filter(|_| tokio::time::Instant::now() >= self.quiet_until) {
            if let Some(ruled) = Box::pin(self.rule(suspicion, live)).await? {
                return Ok(Some(ruled));
            }
            self.quiet_until = tokio::time::Instant::now() + LOOK_AGAIN;
        }
        Box::pin(self.look_at_pods(live)).await
    }

    /// Looks at the pods and rules; `None` if an infrastructure fault is in the way.
    async fn rule(&mut self, suspicion: Reason, live: &Compact) -> Result<Option<MonitorEnd>, Cancelled> {
        let context = Arc::clone(&self.work.context);
        let key = self.work.planned.wanted.key.clone();
        let (observed, live) = self.observe(live).await?;
        let has_recovered = || observed.observation.pods.iter().all(|pod| pod.fault != Fault::Commit);
        if suspicion.code == ReasonCode::BakeFailed && has_recovered() {
            return Ok(None);
        }
        let suspicion = self.within_step(suspicion);
        let now = context.clock.steady();
        // The pods may have been asked for in vain for long.
        self.judge.note_outages(&context.cluster.outages(), now);
        match self.judge.rule(suspicion, &observed.observation, now) {
            Judgement::Failed(reason) => {
                info!(object = %key, %reason, "failed");
                Ok(Some(MonitorEnd::Failed { reason, observed: Box::new(observed), live }))
            }
            Judgement::Infrastructure(reason) => {
                let message = format!("not rolled back, because the commit is not at fault: {reason}");
                context.tell(&key, &live, EventKind::Warning, "RolloutWaiting", message);
                drop(live);
                self.work.waits_for_infrastructure(&reason).await?;
                Ok(None)
            }
        }
    }

    /// Returns the end of a rollout that has failed for this reason, with the workload as it is observed now.
    async fn fails(&self, reason: Reason, live: &Compact) -> Result<MonitorEnd, Cancelled> {
        let (observed, live) = self.observe(live).await?;
        Ok(MonitorEnd::Failed { reason, observed: Box::new(observed), live })
    }

    /// Observes the workload, as soon as there is room to. Returns the object with it.
    async fn observe(&self, text: &Compact) -> Result<(ObservedWorkload, Arc<Value>), Cancelled> {
        let (context, key) = (&self.work.context, &self.work.planned.wanted.key);
        // Pods that may not be seen, or are not served, may be soon. At the limit it is ruled without them.
        let look = || async {
            let look = || async {
                let live = Arc::new(text.read());
                (context.cluster.observe(key, &live, self.bake.running()).await, live)
            };
            let (answer, live) = loop {
                match context.requests.look(text.text().len(), look).await {
                    Some(found) => break found,
                    None if self.judge.is_at_its_limit(context.clock.steady()) => {
                        let late = "its pods were not told of within 5 s, and other large objects wait".to_owned();
                        return Ok((ObservedWorkload::hidden(late), Arc::new(text.read())));
                    }
                    None => debug!(object = %key, "gives its room to other large objects, and looks again"),
                }
            };
            match answer {
                Err(error)
                    if (error.is_own() || matches!(error, ClusterError::Denied { .. }))
                        && self.judge.is_at_its_limit(context.clock.steady()) =>
                {
                    Ok((ObservedWorkload::hidden(error.to_string()), live))
                }
                answer => answer.map(|observed| (observed, live)),
            }
        };
        let look = Backoff::retry(context.in_the_way(key), look);
        let observed = self.work.unless_cancelled(look).await?;
        let observed =
            observed.unwrap_or_else(|error| (ObservedWorkload::hidden(error.to_string()), Arc::new(text.read())));
        context.status.object_trouble(key, None);
        Ok(observed)
    }

    /// Returns why the source gives it up, if it does. A rollback that has begun goes on.
    fn given_up(&self) -> Option<Reason> {
        self.work.give_up.borrow().clone().filter(|_| self.outcome == Outcome::UnderWay)
    }

    fn is_taken_over(&self, live: &Value) -> bool {
        match (&self.applied, template(live)) {
            (Some(applied), Some(present)) => {
                self.judge.is_written_since(live)
                    && self.work.planned.wanted.ignored_fields.template_hash(present) != *applied
            }
            _ => false,
        }
    }

    /// Returns until when its ready pods are watched.
    fn watched(&self) -> Option<WatchedUntil> {
        let (ends, clock) = (self.bake.ends()?, &self.work.context.clock);
        let waits_for_person = |canary: &CanaryProgress| {
            let is_timed = canary.step().is_some_and(|step| step.time.is_some());
            !is_timed || (clock.steady() >= ends && self.undecided().is_some())
        };
        match self.work.canary.as_deref().is_some_and(waits_for_person) {
            true => Some(WatchedUntil::Person),
            false => Some(WatchedUntil::Time(clock.shown(ends))),
        }
    }

    async fn publish(&mut self, waiting: &Waiting) -> Result<(), Cancelled> {
        let wanted = &self.work.planned.wanted;
        let under_way = UnderWay {
            commit: wanted.commit.id.clone(),
            outcome: self.published_outcome(),
            counters: waiting.counters.into(),
            message: waiting.message.clone(),
            until: waiting.until.map(|due| self.work.context.clock.shown(due)),
            watched: self.watched(),
            in_the_way: None,
            wrong: None,
        };
        self.work.context.status.change(|source| {
            let before = source.under_way.get(&wanted.key);
            let (in_the_way, wrong) =
                before.map(|before| (before.in_the_way.clone(), before.wrong.clone())).unwrap_or_default();
            put_or_remove(&mut source.under_way, &wanted.key, Some(UnderWay { in_the_way, wrong, ..under_way }))
        });
        debug!(object = %wanted.key, message = waiting.message, "waiting");
        let moved = self.told.is_none_or(|told| waiting.counters.progressed_since(&told));
        if moved && waiting.on == WaitingOn::Pods {
            self.told = Some(waiting.counters);
            self.work.step(StepKind::Progress, &waiting.message).await?;
        }
        Ok(())
    }
}
