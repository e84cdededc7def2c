//! A step of a canary: its pods are made, become ready, and are watched for the time of the step.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use super::bake::{BakeProgress, LOOK_WHILE_BAKING};
use super::{HealthMonitor, MonitorEnd};
use crate::backoff::Backoff;
use crate::daemon::rollout::rollout_task::Cancelled;
use belay_core::manifest::Compact;
use belay_core::rollout::analysis::PROMOTED_EARLY;
use belay_core::rollout::canary::{CanaryAnswer, CanaryMove, CanaryRequest, next_move};
use belay_core::rollout::{Bake, Baseline, Reason, ReasonCode, StepKind, Waiting, WaitingOn};

/// The waits between two writes of the locks: others may keep changing them.
const LOCK_AGAIN: Backoff = Backoff::between(Duration::from_secs(1), Duration::from_mins(5));

/// The writes of a canary's locks, ever less frequent.
#[derive(Debug)]
pub(super) struct LockWrites {
    next: Option<Instant>,
    waits: Backoff,
}

impl Default for LockWrites {
    fn default() -> LockWrites {
        LockWrites { next: None, waits: LOCK_AGAIN }
    }
}

impl LockWrites {
    /// Returns the time until which they are not written; `None` if they are written now.
    fn take(&mut self, now: Instant) -> Option<Instant> {
        if let Some(next) = self.next.filter(|next| *next > now) {
            return Some(next);
        }
        self.next = Some(now + self.waits.wait());
        None
    }
}

/// The time for which a step is watched that waits for a person: in effect for ever.
const UNTIL_A_PERSON: SignedDuration = SignedDuration::from_hours(24 * 365 * 100);

impl HealthMonitor<'_> {
    /// Returns true when a step of a canary is watched, and not yet the whole rollout.
    pub(super) fn is_canary_step(&self) -> bool {
        self.work.canary.is_some()
    }

    /// Returns the time for which the pods of the step are watched.
    pub(super) fn time_of_step(&self) -> Option<SignedDuration> {
        let canary = self.work.canary.as_ref()?;
        Some(canary.step()?.time.map_or(UNTIL_A_PERSON, |time| time.signed()))
    }

    /// Returns the same suspicion, if it is about pods that were ready in a step of a canary.
    pub(super) fn within_step(&self, suspicion: Reason) -> Reason {
        match self.work.canary.as_ref().filter(|_| suspicion.code == ReasonCode::BakeFailed) {
            Some(canary) => canary.lock.mark.failure(),
            None => suspicion,
        }
    }

    /// Looks at a step of a canary. Returns its end: it goes on, or has failed.
    pub(super) async fn look_at_step(&mut self, live: &Compact) -> Result<Option<MonitorEnd>, Cancelled> {
        let object = Arc::new(live.read());
        let request = CanaryRequest::on(&object);
        if let Some(abort) = request.as_ref().filter(|request| request.answer == CanaryAnswer::Abort) {
            let message = format!("taken back by hand (belay abort) by {}", abort.person());
            return self.fails(Reason::new(ReasonCode::UndoneByHand, message), live).await.map(Some);
        }
        let (Some(time), Some(lock)) = (self.time_of_step(), self.work.present_lock(&object)) else {
            // A newer manifest has fewer steps, or none.
            return Ok(Some(MonitorEnd::Complete(object)));
        };
        let pods = match self.work.canary_pods(&object).await? {
            Ok(pods) => pods,
            Err(error) => {
                let told = format!("its pods can't be counted: {error}");
                return self.wait_for_step(live, WaitingOn::Pods, &told).await;
            }
        };
        let next = next_move(&lock, pods, lock.is_first_held_by(&object), object["spec"]["paused"] == true);
        if next == CanaryMove::Unpause && !lock.paused {
            let told = "paused by somebody else; belay resume lets it go on";
            return self.wait_for_step(live, WaitingOn::Resume, told).await;
        }
        if let Some(is_paused) = next.writes_paused()
            && let Some(end) = self.write_lock(&object, is_paused).await?
        {
            return Ok(Some(end));
        }
        if next == CanaryMove::Wait
            && let Err(error) = self.work.replace_on_nodes(&object, &lock).await?
        {
            let told = format!("an old pod of a node can't be deleted: {error}");
            return self.wait_for_step(live, WaitingOn::Pods, &told).await;
        }
        let is_ready = next == CanaryMove::Ready;
        if is_ready && self.bake.running().is_none() {
            self.bake = BakeProgress::Due(time);
        }
        // There are more where an autoscaler made them, or an older manifest asked for more.
        let told = format!("{} of {} new pods are ready", pods.ready, lock.new_pods().max(pods.current));
        if is_ready || self.bake.running().is_some() {
            let promoted = request.filter(|_| is_ready);
            return self.watch_step(live, (is_ready, &told), promoted).await;
        }
        self.wait_for_step(live, WaitingOn::Pods, &format!("{told}, beside the old ones")).await
    }

    /// Writes the locks, unless that was done a moment ago: others may keep changing them.
    async fn write_lock(&mut self, live: &Value, is_paused: bool) -> Result<Option<MonitorEnd>, Cancelled> {
        if let Some(next) = self.lock_writes.take(Instant::now()) {
            self.look_at_pods.0 = next;
            return Ok(None);
        }
        let reason = match self.work.write_lock(is_paused).await? {
            Ok(written) => {
                self.judge.is_written_again(Baseline::of(&self.work.planned.wanted.key, &written));
                return Ok(None);
            }
            Err(error) => error.to_reason(),
        };
        warn!(object = %self.work.planned.wanted.key, %reason, "the step of the canary was refused");
        self.fails(reason, &Compact::of(live)).await.map(Some)
    }

    /// Waits until the pods of the step are there and ready, within the deadline of the manifest.
    async fn wait_for_step(
        &mut self,
        live: &Compact,
        on: WaitingOn,
        told: &str,
    ) -> Result<Option<MonitorEnd>, Cancelled> {
        let words = self.work.canary.as_ref().map(|canary| canary.words()).unwrap_or_default();
        let (now, manifest) = (self.work.context.clock.steady(), self.work.planned.wanted.manifest.value());
        let waiting = self.judge.observe_step(&live.read(), &manifest, (on, format!("{words}: {told}")), now);
        self.look_waiting(waiting, live).await
    }

    /// Watches the pods of a step that were ready. Returns its end when its time is over, or a person lets it go on, or its
    /// analyses have proved enough, or it has shown a failure.
    async fn watch_step(
        &mut self,
        live: &Compact,
        (is_ready, told): (bool, &str),
        promoted: Option<CanaryRequest>,
    ) -> Result<Option<MonitorEnd>, Cancelled> {
        if let BakeProgress::Due(time) = self.bake {
            self.begin_bake(live, time).await?;
        }
        let Some(ends) = self.bake.ends() else { return Ok(None) };
        self.publish_step(told).await?;
        if let Some(end) = self.failed_by_analysis(live).await? {
            return Ok(Some(end));
        }
        let is_over = self.work.context.clock.steady() >= ends;
        let by_person = promoted.is_some();
        let promotion = match promoted {
            Some(promoted) => Some(format!("promoted by {}", promoted.person())),
            None if is_over => None,
            None => self.promoted_early().map(|proof| format!("{PROMOTED_EARLY}{proof}")),
        };
        if promotion.is_none() && !is_over {
            return self.look_at_pods(live).await;
        }
        if !by_person && !self.bake.takes_last_look(Instant::now()) {
            return Ok(None);
        }
        self.look_at_pods.0 = Instant::now() + LOOK_WHILE_BAKING;
        if let Some(end) = self.last_look(live).await? {
            return Ok(Some(end));
        }
        let is_unsure = self.bake.running().is_some_and(Bake::is_unsure);
        let may_go_on = by_person || self.undecided().is_none();
        if !is_ready || is_unsure || !may_go_on {
            return Ok(None);
        }
        if let Some(promotion) = promotion {
            self.work.step(StepKind::Note, &promotion).await?;
        }
        info!(object = %self.work.planned.wanted.key, "the step of its canary is over");
        Ok(Some(MonitorEnd::Complete(Arc::new(live.read()))))
    }

    async fn publish_step(&mut self, told: &str) -> Result<(), Cancelled> {
        let Some(canary) = &self.work.canary else { return Ok(()) };
        let undecided = self.undecided();
        let waits_for = match (canary.step().and_then(|step| step.time), self.bake.ends(), undecided) {
            (None, ..) => "waits for belay promote or belay abort".to_owned(),
            (Some(_), Some(ends), _) if self.work.context.clock.steady() < ends => {
                format!("watched until {:.0}", self.work.context.clock.shown(ends))
            }
            (_, _, Some(why)) => format!("no verdict, {why}: waits for belay promote or belay abort"),
            (_, _, None) => "its time is over".to_owned(),
        };
        let message = format!("{}: {told}; {waits_for}", canary.words());
        let counters = self.judge.counters();
        self.publish(&Waiting { on: WaitingOn::BakeTime, counters, message, until: None }).await
    }
}
