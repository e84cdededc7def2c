//! One rollout: one manifest of one commit, from the plan to its record.
//!
//! Apply, watch, judge; complete, or take back by the same apply, watch and judge. Every step is recorded before and after
//! it is taken, so that a daemon that is killed anywhere takes it up again where it was.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::Value;

use super::driver::WorkloadDriver;
use super::established::waits_for;
use super::failure::FailedRollout;
use super::health_monitor::{HealthMonitor, MonitorEnd};
use super::live::digest;
use super::panics::text_of;
use super::queued_events::QueuedEvent;
use super::rollout_end::InSync;
use super::rollout_task::{Cancelled, End, RolloutEnd, RolloutStart, RolloutTask};
use super::{manual_rollback, prune};
use crate::backoff::Backoff;
use belay_core::rollout::{
    Apply, Baseline, Hold, Outcome, StepKind, Workload, held_reason, is_as_applied, template, template_hash,
};

/// The waits before a rollout is begun again that others have disturbed more than once.
pub(super) const DISTURBED: Backoff = Backoff::between(Duration::from_secs(1), Duration::from_mins(5));

impl RolloutTask {
    /// Carries the rollout through. A panic in it is its own end, and nobody else's.
    pub(super) async fn run(mut self: Box<RolloutTask>) -> RolloutEnd {
        // Not through a function of its own: that would keep its state twice, and there are thousands.
        let (driver, start) = (WorkloadDriver::of(&self), std::mem::take(&mut self.resume.start));
        let end = match AssertUnwindSafe(driver.carry_through(&mut self, start)).catch_unwind().await {
            Ok(Ok(outcome)) => End::Recorded(outcome),
            Ok(Err(Cancelled)) => End::Stopped,
            Err(panic) => End::Fault(text_of(&*panic)),
        };
        let key = self.planned.wanted.key.clone();
        self.context.status.change(|source| {
            let (was_under_way, trouble) =
                (source.under_way.remove(&key), source.obstacles.trouble.remove(&key.to_string()));
            was_under_way.is_some() || trouble.is_some()
        });
        RolloutEnd { end, findings: self.findings }
    }

    /// Rolls out what has pods that a controller replaces, or none.
    pub(super) async fn roll_out(&mut self, start: RolloutStart) -> Result<Outcome, Cancelled> {
        match start {
            RolloutStart::Apply => {
                if self.apply.respects_undo
                    && let Some(live) = self.read().await?
                    && let Some(outcome) = Box::pin(manual_rollback::undone_by_hand(self, &live, None)).await?
                {
                    return Ok(outcome);
                }
                Box::pin(self.look_at_replaced()).await?;
                Box::pin(self.keep_fallback_template()).await?;
                // Those that wait for their turn and for room, thousands perhaps, have little of their own meanwhile.
                let room = self.turn_and_room().await?;
                if let Some(why) = self.suspension() {
                    return self.leave_alone(&why).await;
                }
                let written = match Box::pin(self.apply_manifest(room)).await? {
                    Ok(written) => written,
                    Err(outcome) => return Ok(outcome),
                };
                self.follow(written).await
            }
            RolloutStart::Resume(baseline) => {
                self.turn.through();
                let live = self.read().await?;
                self.step(StepKind::Resumed, "watching the rollout again").await?;
                if let Some(live) = live.as_ref().filter(|live| !self.is_ours(live))
                    && let Some(outcome) = Box::pin(manual_rollback::undone_by_hand(self, live, None)).await?
                {
                    return Ok(outcome);
                }
                self.judge_from(baseline, live).await
            }
            RolloutStart::RollBack { reason, written } => {
                self.turn.through();
                let live = self.read().await?;
                self.step(StepKind::Resumed, "going back again").await?;
                Box::pin(self.roll_back(FailedRollout { reason, observed: None, written }, live)).await
            }
            RolloutStart::Prune => Box::pin(prune::delete(self)).await,
        }
    }

    /// After the write: nothing to wait for, or a rollout to be judged.
    pub(super) async fn follow(&mut self, written: Value) -> Result<Outcome, Cancelled> {
        let is_held = Hold::on(&written).is_some();
        if !is_held {
            self.context.holds.forget(&self.planned.wanted.key);
        }
        if !self.is_judged() {
            Box::pin(self.wait_until_established(&written)).await?;
            self.turn.through();
            return match waits_for(&self.planned.wanted.key) {
                true if !is_held => Box::pin(self.wait_until_healthy(written)).await,
                _ => self.end_applied(&written).await,
            };
        }
        self.turn.through();
        let baseline = self.baseline(&written);
        self.judge_from(baseline, Some(Arc::new(written))).await
    }

    /// Ends the record of what nobody has to wait for. A commit whose manifest is held was not applied, though the object was made
    /// anew.
    async fn end_applied(&self, written: &Value) -> Result<Outcome, Cancelled> {
        let wanted = &self.planned.wanted;
        let held = Hold::on(written).filter(|_| self.apply.restores_held && wanted.trigger.is_commit());
        match held {
            Some(hold) => {
                let reason = held_reason(&hold, &wanted.commit.id, &wanted.trigger);
                self.end(Outcome::Held, Some(reason)).await
            }
            None => self.end(Outcome::Complete, None).await,
        }
    }

    /// Judges the rollout that a write began.
    pub(super) async fn judge_from(
        &mut self,
        mut baseline: Baseline,
        mut live: Option<Arc<Value>>,
    ) -> Result<Outcome, Cancelled> {
        let mut again: Option<Backoff> = None;
        loop {
            let judge = self.judge(baseline);
            let applied = live.as_deref().and_then(template).map(template_hash);
            let unsticking = WorkloadDriver::of(self).delete_stuck_pods(self);
            let own =
                live.as_deref().and_then(template).map(|own| self.planned.wanted.ignored_fields.template_hash(own));
            let mut judging = HealthMonitor::new(self, judge, own, Outcome::UnderWay);
            let ruled = tokio::select! {
                biased;
                ruled = judging.until_judged(live) => ruled?,
                never = unsticking => match never {},
            };
            let was_deleted = matches!(ruled, MonitorEnd::Gone);
            match ruled {
                MonitorEnd::Complete(live) => return Box::pin(self.complete(&live)).await,
                MonitorEnd::Failed { reason, observed, live } => {
                    self.context.revised(self.record, &live).await;
                    let failed = FailedRollout { reason, observed: Some(observed), written: None };
                    return Box::pin(self.roll_back(failed, Some(live))).await;
                }
                MonitorEnd::TakenOver(live) => {
                    if let Some(outcome) = manual_rollback::held_by_another(self, &live).await? {
                        return Ok(outcome);
                    }
                    if let Some(outcome) =
                        Box::pin(manual_rollback::undone_by_hand(self, &live, applied.as_deref())).await?
                    {
                        return Ok(outcome);
                    }
                }
                MonitorEnd::Suspended(why) => return self.leave_alone(&why).await,
                MonitorEnd::SetBack | MonitorEnd::Gone => {}
            }
            if let Some(outcome) = WorkloadDriver::of(self).begin_again(self).await? {
                return Ok(outcome);
            }
            // Somebody deleted the workload, or wrote another template: the manifest is applied again, and ever later where
            // they keep doing so.
            match &mut again {
                Some(waits) => self.unless_cancelled(tokio::time::sleep(waits.wait())).await?,
                None => again = Some(DISTURBED),
            }
            self.step(StepKind::Applying, "again: others have changed or deleted it").await?;
            Box::pin(self.take_over(&self.apply.body.read())).await?;
            if was_deleted {
                self.apply = Apply::of_manifest(&self.planned.wanted, &self.context.config.name);
            }
            let written = match Box::pin(self.retry_apply(&self.apply.body)).await? {
                Ok(written) => written,
                Err(error) => return self.end(Outcome::Rejected, Some(error.to_reason())).await,
            };
            baseline = Baseline::of(&self.planned.wanted.key, &written);
            self.context.applied(self.record, &baseline).await;
            live = Some(Arc::new(written));
        }
    }

    async fn complete(&mut self, live: &Value) -> Result<Outcome, Cancelled> {
        let wanted = &self.planned.wanted;
        if Workload::of(&wanted.key).is_some() {
            self.findings.told = Some(QueuedEvent::of(&wanted.key, live, &wanted.commit));
        }
        if is_as_applied(live, &wanted.ignored_fields.leave(self.apply.body.read(), Some(live))) {
            let (hash, ignored_fields) = (wanted.hash.clone(), wanted.ignored_fields.clone());
            self.findings.well = Some(InSync { digest: digest(live), hash, ignored_fields });
        }
        if !self.is_of_template() {
            return self.end(Outcome::Complete, None).await;
        }
        self.log_end(Outcome::Complete, None);
        self.context.complete(self.record, wanted, live).await;
        Ok(Outcome::Complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::requests::RequestPermit;

    /// The size of the future that a function of this kind makes.
    fn size<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn thousands_of_rollouts_that_wait_are_small() {
        // What one has besides its manifest and the object's text. Debug builds are the larger ones.
        let run = size(RolloutTask::run);
        let apply = size(|(work, room): (&'static mut RolloutTask, RequestPermit)| work.apply_manifest(room));
        let work = size_of::<RolloutTask>();
        assert!(
            run <= 3072 && apply <= 3072 && work <= 1536,
            "a task {run}, its apply {apply}, its facts {work} bytes"
        );
    }
}
