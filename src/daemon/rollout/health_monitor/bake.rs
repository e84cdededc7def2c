//! The bake time of a workload that is complete.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{HealthMonitor, MonitorEnd};
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use crate::history::{JudgedBake, JudgedWrite};
use belay_core::manifest::Compact;
use belay_core::rollout::health::PodAccount;
use belay_core::rollout::{
    Bake, BakeStart, Outcome, Reason, StepKind, Waiting, WaitingOn, Workload, bake_time, comes_back, is_complete,
    template,
};

/// The period between two inspections of the pods within a bake time.
pub(super) const LOOK_WHILE_BAKING: Duration = Duration::from_secs(10);

/// The bake time of a watched workload.
#[derive(Debug, Default)]
pub(super) enum BakeProgress {
    /// It is not complete yet.
    #[default]
    Before,
    /// It is complete, and is to be watched for so long.
    Due(SignedDuration),
    /// It was complete, and is watched on.
    Running {
        /// The bake time.
        bake: Bake,
        /// The time of the next look after its end.
        next_look: Instant,
    },
    /// It has none.
    Skipped,
}

impl BakeProgress {
    /// Returns the bake time that has begun.
    pub(super) fn running(&self) -> Option<&Bake> {
        match self {
            BakeProgress::Running { bake, .. } => Some(bake),
            BakeProgress::Before | BakeProgress::Due(_) | BakeProgress::Skipped => None,
        }
    }

    /// Returns when it ends, once it has begun.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        self.running().map(Bake::ends)
    }

    /// Returns true when it is time for a look after the end of the bake time, and puts the next one off.
    pub(super) fn takes_last_look(&mut self, now: Instant) -> bool {
        match self {
            BakeProgress::Running { next_look, .. } if *next_look <= now => {
                *next_look = now + LOOK_WHILE_BAKING;
                true
            }
            _ => false,
        }
    }

    /// Returns the failure that the pods show within the bake time.
    pub(super) fn look(&mut self, pods: &[PodAccount]) -> Option<Reason> {
        match self {
            BakeProgress::Running { bake, .. } => bake.look(pods),
            BakeProgress::Before | BakeProgress::Due(_) | BakeProgress::Skipped => None,
        }
    }
}

impl RolloutTask {
    /// Returns the time for which the workload is watched after it is complete; zero if it is not. A rollback takes no longer
    /// than its budget.
    fn time_to_bake(&self, live: &Value, outcome: Outcome) -> SignedDuration {
        let (key, config) = (&self.planned.wanted.key, &self.context.config);
        if !Workload::of(key).is_some_and(Workload::can_go_back) || !self.is_of_template() {
            return SignedDuration::ZERO;
        }
        let time = bake_time(&self.planned.wanted.manifest.value(), config.bake);
        let budget = config.rollback_budget.signed();
        let time = if outcome == Outcome::RollingBack { time.min(budget) } else { time };
        if time.is_positive() && self.was_complete_lately(live) { SignedDuration::ZERO } else { time }
    }

    /// Returns true when the live pod template was complete, and no other took its place before `rollback_window`: it comes
    /// back without delay.
    pub fn was_complete_lately(&self, live: &Value) -> bool {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        let window = context.config.rollback_window.signed();
        if window.is_zero() {
            return false;
        }
        let since = context.clock.now().checked_sub(window).unwrap_or(Timestamp::MIN);
        let Some(present) = template(live) else { return false };
        let known = context.history.templates_since(&context.config.name, key, since).unwrap_or_else(|error| {
            warn!(object = %key, %error, "failed to read which templates were complete; it has its bake time");
            Vec::new()
        });
        comes_back(present, &known)
    }

    /// Returns the beginning of the bake time that was under way when belay stopped.
    fn bake_from_before(&self, of: JudgedWrite) -> Option<BakeStart> {
        self.context.history.bake(self.record, of).unwrap_or_else(|error| {
            warn!(object = %self.planned.wanted.key, %error, "failed to read when its bake time began; it begins again");
            None
        })
    }
}

impl HealthMonitor<'_> {
    /// Returns true when a complete workload is to be watched on.
    pub(super) fn must_bake(&mut self, live: &Value) -> bool {
        if matches!(self.bake, BakeProgress::Before) {
            let time = self.work.time_to_bake(live, self.outcome);
            self.bake = if time.is_positive() { BakeProgress::Due(time) } else { BakeProgress::Skipped };
        }
        !matches!(self.bake, BakeProgress::Skipped)
    }

    /// Watches a complete workload on. Returns its end when the bake time is over, or has shown a failure.
    pub(super) async fn watch_on(&mut self, live: &Compact) -> Result<Option<MonitorEnd>, Cancelled> {
        if let BakeProgress::Due(time) = self.bake {
            self.begin_bake(live, time).await?;
        }
        let Some(ends) = self.bake.ends() else { return Ok(None) };
        self.publish_bake(ends).await?;
        if let Some(end) = self.failed_by_analysis(live).await? {
            return Ok(Some(end));
        }
        if self.work.context.clock.steady() < ends {
            return self.look_at_pods(live).await;
        }
        if !self.bake.takes_last_look(Instant::now()) {
            return Ok(None);
        }
        self.look_at_pods.0 = Instant::now() + LOOK_WHILE_BAKING;
        if let Some(end) = self.last_look(live).await? {
            return Ok(Some(end));
        }
        let key = self.work.planned.wanted.key.clone();
        let Some(read) = Box::pin(self.work.read()).await? else { return Ok(Some(MonitorEnd::Gone)) };
        let is_well = is_complete(&key, &read) && !self.bake.running().is_some_and(Bake::is_unsure);
        let undecided = self.undecided();
        if is_well && undecided.is_none() {
            info!(object = %key, "its bake time is over");
            return Ok(Some(MonitorEnd::Complete(read)));
        }
        // Pods are missing, and none has failed: it was scaled, or there is no room for pods that were evicted.
        let limit = self.judge.outage_timeout();
        if self.work.context.clock.steady() < ends.checked_add(limit).unwrap_or(Timestamp::MAX) {
            return Ok(None);
        }
        let message = match undecided {
            Some(why) if is_well => format!("its bake time is over without a verdict: {why}"),
            _ => "its bake time is over: no pod of it has failed, though some are missing".to_owned(),
        };
        warn!(object = %key, "{message}");
        self.work.step(StepKind::Waiting, &message).await?;
        Ok(Some(MonitorEnd::Complete(read)))
    }

    /// Looks at the pods once more at the end: a restart just before it counts, too.
    pub(super) async fn last_look(&mut self, live: &Compact) -> Result<Option<MonitorEnd>, Cancelled> {
        match self.pods(live, true).await?.and_then(|pods| self.bake.look(&pods)) {
            Some(suspicion) => self.rule(suspicion, live).await,
            None => Ok(None),
        }
    }

    pub(super) async fn begin_bake(&mut self, live: &Compact, time: SignedDuration) -> Result<(), Cancelled> {
        let (context, of) = (Arc::clone(&self.work.context), self.judged_write());
        let pods = self.pods(live, true).await?;
        let bake = Bake::begin(time, pods.as_deref(), context.clock.steady());
        let start = BakeStart { ends: context.clock.shown(bake.ends()), ..bake.start() };
        let (outcome, detail) = match &self.work.canary {
            Some(canary) => (None, canary.watched()),
            None => {
                let outcome = (of == JudgedWrite::Applied).then_some(Outcome::Baking);
                (outcome, format!("complete, and watched for {} s", time.as_secs()))
            }
        };
        let begun = context.begin_bake(self.work.record, JudgedBake { of, start }, outcome, &detail);
        self.work.unless_cancelled(begun).await?;
        let began = context.clock.steady();
        self.begin_analyses(&live.read(), pods.as_deref(), time, began);
        self.run_bake(bake);
        Ok(())
    }

    /// Takes up the bake time that was under way when belay stopped, if one was, with the time that is left.
    pub(in crate::daemon::rollout) async fn resume_bake(&mut self, live: Option<&Compact>) -> Result<(), Cancelled> {
        let Some(start) = self.work.bake_from_before(self.judged_write()) else { return Ok(()) };
        let (clock, config) = (&self.work.context.clock, &self.work.context.config);
        let own = || bake_time(&self.work.planned.wanted.manifest.value(), config.bake);
        let longest = self.time_of_step().unwrap_or_else(own);
        let left = start.ends.duration_since(clock.now()).clamp(SignedDuration::ZERO, longest);
        let ends = clock.steady().checked_add(left).unwrap_or(Timestamp::MAX);
        let began = ends.checked_sub(longest).unwrap_or(ends);
        self.run_bake(Bake::resume(BakeStart { ends, ..start }));
        if let Some(live) = live {
            let pods = self.pods(live, true).await?;
            self.begin_analyses(&live.read(), pods.as_deref(), longest, began);
        }
        Ok(())
    }

    fn run_bake(&mut self, bake: Bake) {
        self.look_at_pods = (Instant::now() + LOOK_WHILE_BAKING, LOOK_WHILE_BAKING);
        self.bake = BakeProgress::Running { bake, next_look: Instant::now() };
    }

    /// Returns the write whose rollout is watched.
    fn judged_write(&self) -> JudgedWrite {
        if self.outcome == Outcome::RollingBack { JudgedWrite::WentBack } else { JudgedWrite::Applied }
    }

    /// Returns the outcome that is published meanwhile.
    pub(super) fn published_outcome(&self) -> Outcome {
        let bakes = self.bake.running().is_some() && self.outcome == Outcome::UnderWay && !self.is_canary_step();
        if bakes { Outcome::Baking } else { self.outcome }
    }

    async fn publish_bake(&mut self, ends: Timestamp) -> Result<(), Cancelled> {
        let undecided = self.undecided().map(|why| format!("; {why}")).unwrap_or_default();
        let message =
            format!("complete; its pods are watched until {:.0}{undecided}", self.work.context.clock.shown(ends));
        let counters = self.judge.counters();
        self.publish(&Waiting { on: WaitingOn::BakeTime, counters, message, until: None }).await
    }
}
