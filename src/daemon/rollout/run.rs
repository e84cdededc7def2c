//! One rollout: one manifest of one commit, from the plan to its record.
//!
//! Apply, watch, judge; complete, or roll back by the same apply, watch and judge. Every step is recorded before and
//! after it is taken, so that a daemon that is killed anywhere takes it up again where it was.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;

use super::established::waits_for;
use super::health_monitor::{HealthMonitor, MonitorEnd};
use super::prune;
use super::rollout_end::InSync;
use super::rollout_task::{Cancelled, End, RolloutEnd, RolloutStart, RolloutTask};
use crate::cluster::ClusterError;
use crate::daemon::publish::dispute::{AT_ONCE, Dispute, WAITS};
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::queued_events::QueuedEvent;
use crate::daemon::rollout::kinds::driver::WorkloadDriver;
use crate::daemon::rollout::rollback::failure::{FailedRollout, HOLD_NOT_KEPT, RollbackEnd};
use crate::daemon::rollout::rollback::manual_rollback;
use crate::daemon::shared::live::{digest, newest_other_manager};
use crate::daemon::shared::panics::text_of;
use belay_core::manifest::Compact;
use belay_core::rollout::{
    Apply, Baseline, CommitId, ForeignField, Hold, Outcome, Reach, Reason, ReasonCode, StepKind, Surplus,
    UNKNOWN_MANAGER, Workload, claimed_twice, foreign_fields, held_reason, is_as_applied, marks, template,
    template_hash,
};

impl RolloutTask {
    /// Carries the rollout through. A panic in it is its own end, and nobody else's.
    pub async fn run(mut self: Box<RolloutTask>) -> RolloutEnd {
        // Not through a function of its own: that would keep its state twice, and there are thousands.
        let (driver, start) = (WorkloadDriver::of(&self), std::mem::take(&mut self.resume.start));
        let ended = AssertUnwindSafe(driver.carry_through(&mut self, start)).catch_unwind().await;
        let end = match ended {
            Ok(Ok(outcome)) => {
                Box::pin(self.end_job(outcome)).await;
                Box::pin(self.delete_jobs_of_analyses(&BTreeSet::new())).await;
                Box::pin(self.delete_hooks_that_are_over(outcome)).await;
                End::Recorded(outcome)
            }
            Ok(Err(Cancelled)) => Box::pin(self.end_of_patience()).await,
            Err(panic) => End::Fault(text_of(&*panic)),
        };
        let key = self.planned.wanted.key.clone();
        self.context.status.change(|source| {
            let (was_under_way, trouble) =
                (source.under_way.remove(&key), source.obstacles.trouble.remove(&Obstacle::Object(key.clone())));
            was_under_way.is_some() || trouble.is_some()
        });
        RolloutEnd { end, findings: self.findings }
    }

    /// Ends a rollout that was cancelled, or that was given up because its object is not served.
    async fn end_of_patience(&mut self) -> End {
        let Some((outcome, reason)) = self.patience.end() else { return End::Stopped };
        match self.end(outcome, Some(reason)).await {
            Ok(outcome) => End::Recorded(outcome),
            Err(Cancelled) => End::Stopped,
        }
    }

    /// Rolls out an object whose pods a controller replaces, or one without pods. Each way to begin is boxed by itself: an
    /// asynchronous function would keep room for the largest, and thousands wait.
    pub fn roll_out(&mut self, start: RolloutStart) -> BoxFuture<'_, Result<Outcome, Cancelled>> {
        match start {
            RolloutStart::Apply => Box::pin(self.apply_and_follow()),
            RolloutStart::Resume(baseline) => Box::pin(self.watch_again(baseline)),
            RolloutStart::RollBack { reason, written } => Box::pin(self.roll_back_again(reason, written)),
            RolloutStart::Prune => Box::pin(prune::delete(self)),
        }
    }

    /// Applies the manifest, and follows it.
    async fn apply_and_follow(&mut self) -> Result<Outcome, Cancelled> {
        Box::pin(self.unless_cancelled(self.delete_jobs_of_analyses(&BTreeSet::new()))).await?;
        if self.apply.respects_undo
            && let Some(live) = self.read().await?
            && let Some(outcome) = Box::pin(manual_rollback::undone_by_hand(self, &live, None)).await?
        {
            return Ok(outcome);
        }
        Box::pin(self.look_at_replaced()).await?;
        Box::pin(self.keep_fallback_template()).await?;
        if self.may_have_canary() {
            self.unless_cancelled(self.turn.comes()).await?;
            if let Some(why) = Box::pin(self.begin_canary()).await? {
                self.turn.through();
                return Box::pin(self.end(Outcome::Rejected, Some(why))).await;
            }
        }
        // Those that wait for their turn and for room, thousands perhaps, have little of their own meanwhile.
        let room = self.turn_and_room().await?;
        if let Some(why) = self.suspension() {
            return Box::pin(self.leave_alone(&why)).await;
        }
        match Box::pin(self.apply_manifest(room)).await? {
            Ok(written) => Box::pin(self.follow(written)).await,
            Err(outcome) => Ok(outcome),
        }
    }

    /// Watches a rollout again that was under way when belay ended.
    async fn watch_again(&mut self, baseline: Baseline) -> Result<Outcome, Cancelled> {
        self.turn.through();
        let live = self.read().await?;
        let text = live.as_deref().map(Compact::of);
        if let Some(live) = &live
            && let Some(reason) = self.failed_step(live)
        {
            return RollbackEnd::stays(self, reason, live).conclude(self).await;
        }
        live.iter().for_each(|live| self.resume_canary(live));
        Box::pin(self.delete_jobs_of_former_analyses()).await?;
        let others = live.filter(|live| !self.is_ours(live));
        self.step(StepKind::Resumed, "watching the rollout again").await?;
        if let Some(live) = others
            && let Some(outcome) = Box::pin(manual_rollback::undone_by_hand(self, &live, None)).await?
        {
            return Ok(outcome);
        }
        Box::pin(self.judge_from(baseline, text)).await
    }

    /// Goes on with a rollback that was under way when belay ended.
    async fn roll_back_again(&mut self, reason: Reason, written: Option<Baseline>) -> Result<Outcome, Cancelled> {
        self.turn.through();
        let live = self.read().await?;
        self.step(StepKind::Resumed, "going back again").await?;
        Box::pin(self.roll_back(FailedRollout { reason, observed: None, written }, live)).await
    }

    /// Follows a write: there is nothing to wait for, or a rollout to be judged.
    pub async fn follow(&mut self, live: Compact) -> Result<Outcome, Cancelled> {
        let written = live.read();
        let (key, hold) = (&self.planned.wanted.key, Hold::on(&written));
        if hold.is_none() && self.apply.keeps_hold {
            // Its manifest is held all the same.
            self.turn.through();
            let reason = Reason::new(ReasonCode::Failed, HOLD_NOT_KEPT);
            return Box::pin(self.end(Outcome::Failed, Some(reason))).await;
        }
        if hold.is_none() {
            self.context.holds.forget(key);
        }
        if self.is_judged() {
            self.turn.through();
            let baseline = self.baseline(&written);
            drop(written);
            return self.judge_from(baseline, Some(live)).await;
        }
        let waits = waits_for(key, &written) && hold.is_none();
        drop(written);
        if waits {
            self.turn.through();
            return Box::pin(self.wait_until_healthy(live)).await;
        }
        Box::pin(self.wait_until_established(live)).await?;
        self.turn.through();
        self.end_applied(hold).await
    }

    /// Ends the record of an object that nobody has to wait for. A manifest that is held was not applied, though the
    /// object was created again.
    async fn end_applied(&self, hold: Option<Hold>) -> Result<Outcome, Cancelled> {
        let wanted = &self.planned.wanted;
        match hold.filter(|_| self.apply.keeps_hold) {
            Some(hold) => {
                let reason = held_reason(&hold, &wanted.commit.id, &wanted.trigger);
                self.end(Outcome::Held, Some(reason)).await
            }
            None => self.end(Outcome::Complete, None).await,
        }
    }

    /// Judges the rollout that a write began.
    pub async fn judge_from(
        &mut self,
        mut baseline: Baseline,
        mut judged: Option<Compact>,
    ) -> Result<Outcome, Cancelled> {
        let began = Instant::now();
        loop {
            let is_resumed = baseline.moved.is_some();
            let judge = self.judge(baseline);
            let (applied, own) = judged.as_ref().map(|live| self.template_hashes(live)).unwrap_or_default();
            let unsticking = WorkloadDriver::of(self).delete_stuck_pods(self);
            let mut judging = HealthMonitor::new(self, judge, own, Outcome::UnderWay);
            if is_resumed {
                Box::pin(judging.resume_bake(judged.as_ref())).await?;
            }
            let ruled = tokio::select! {
                biased;
                ruled = judging.until_judged(judged.take()) => ruled?,
                never = unsticking => match never {},
            };
            let was_seen = judging.has_seen_it();
            let was_deleted = matches!(ruled, MonitorEnd::Gone);
            match ruled {
                MonitorEnd::Complete(live) => match Box::pin(self.go_on_with_canary(&live)).await? {
                    None => return Box::pin(self.complete(live)).await,
                    Some(Ok(written)) => {
                        baseline = self.baseline(&written);
                        self.context.applied(self.record, self.apply.rolls_out, &baseline).await;
                        judged = Some(Compact::of(&written));
                        continue;
                    }
                    Some(Err(error)) => return Box::pin(self.roll_back_refused(&error, Some(live))).await,
                },
                MonitorEnd::Failed { reason, observed, live } => {
                    self.context.revised(self.record, &live).await;
                    let reason = self.with_the_templates_commit(reason, &live);
                    let failed = FailedRollout { reason, observed: Some(observed), written: None };
                    return Box::pin(self.roll_back(failed, Some(live))).await;
                }
                MonitorEnd::TakenOver(live) => {
                    if let Some(outcome) = Box::pin(self.end_if_taken_over(&live, applied.as_deref())).await? {
                        return Ok(outcome);
                    }
                }
                MonitorEnd::Suspended(why) => return self.leave_alone(&why).await,
                MonitorEnd::SetBack => {}
                MonitorEnd::Gone => {
                    if let Some(outcome) = Box::pin(self.end_if_gone(was_seen)).await? {
                        return Ok(outcome);
                    }
                }
            }
            if let Some(outcome) = WorkloadDriver::of(self).begin_again(self).await? {
                return Ok(outcome);
            }
            let written = match Box::pin(self.apply_again(was_deleted, began.elapsed())).await? {
                Ok(written) => written,
                Err(outcome) => return Ok(outcome),
            };
            baseline = Baseline::of(&self.planned.wanted.key, &written);
            self.context.applied(self.record, self.apply.rolls_out, &baseline).await;
            judged = Some(Compact::of(&written));
        }
    }

    /// Returns the end of a rollout whose pod template somebody else has written, if that ends it.
    async fn end_if_taken_over(
        &mut self,
        live: &Arc<Value>,
        applied: Option<&str>,
    ) -> Result<Option<Outcome>, Cancelled> {
        if let Some(claimed) = self.claimed_meanwhile(live) {
            return self.end(Outcome::Rejected, Some(claimed)).await.map(Some);
        }
        self.note_disturbance(live);
        if let Some(outcome) = manual_rollback::held_by_another(self, live).await? {
            return Ok(Some(outcome));
        }
        manual_rollback::undone_by_hand(self, live, applied).await
    }

    /// Returns the end of a rollout whose object is gone, if that ends it.
    async fn end_if_gone(&mut self, was_seen: bool) -> Result<Option<Outcome>, Cancelled> {
        if let Some(outcome) = self.end_of_job_that_went(was_seen).await? {
            return Ok(Some(outcome));
        }
        // An object with the label of another source is gone for the watch of this one.
        if let Some(claimed) = self.read().await?.and_then(|live| self.claimed_meanwhile(&live)) {
            return self.end(Outcome::Rejected, Some(claimed)).await.map(Some);
        }
        self.note_disturbance(&Value::Null);
        Ok(None)
    }

    /// Applies the manifest again, as somebody has deleted the workload or written another template: ever later where they keep
    /// doing so. `Err` with the outcome where the server refuses it.
    async fn apply_again(&mut self, was_deleted: bool, lasted: Duration) -> Result<Result<Value, Outcome>, Cancelled> {
        self.wait_after_disturbance(lasted).await?;
        self.step(StepKind::Applying, "again: others have changed or deleted it").await?;
        Box::pin(self.take_over(&self.apply.body.read(), Reach::Manifest)).await?;
        if was_deleted {
            self.canary = None;
            self.apply = Apply::of_manifest(&self.planned.wanted, &self.context.config.name);
        }
        let error = match Box::pin(self.retry_apply(&self.apply.body)).await? {
            Ok(written) => return Ok(Ok(written)),
            Err(error) => error,
        };
        if self.canary.is_none() {
            return self.end(Outcome::Rejected, Some(error.to_reason())).await.map(Err);
        }
        // Its locks are not left behind.
        let live = self.read().await?;
        Box::pin(self.roll_back_refused(&error, live)).await.map(Err)
    }

    /// Takes a canary back of which the server refuses a write.
    async fn roll_back_refused(
        &mut self,
        error: &ClusterError,
        live: Option<Arc<Value>>,
    ) -> Result<Outcome, Cancelled> {
        let failed = FailedRollout { reason: error.to_reason(), observed: None, written: None };
        self.roll_back(failed, live).await
    }

    /// Returns the hash of an object's pod template, and the same without the fields that are left alone.
    fn template_hashes(&self, live: &Compact) -> (Option<String>, Option<String>) {
        let live = live.read();
        let Some(template) = template(&live) else { return (None, None) };
        (Some(template_hash(template)), Some(self.planned.wanted.ignored_fields.template_hash(template)))
    }

    /// Returns the reason to leave an object that another source of this daemon has applied meanwhile.
    pub fn claimed_meanwhile(&self, live: &Value) -> Option<Reason> {
        let key = &self.planned.wanted.key;
        self.context.taken_by_another_source(key, live).map(|owner| claimed_twice(key, &owner))
    }

    /// Returns a failure with the commit that the pod template is of, if the rollout goes on under a newer one that
    /// changed only something beside it: a deadline, a label.
    fn with_the_templates_commit(&self, reason: Reason, live: &Value) -> Reason {
        let by = marks::annotation(live, marks::COMMIT).and_then(|by| by.parse::<CommitId>().ok());
        match by.filter(|by| self.resume.continues_rollout && *by != self.planned.wanted.commit.id) {
            Some(by) => {
                let message = format!("{}; the pod template is of commit {}", reason.message, by.short());
                Reason { message, ..reason }
            }
            None => reason,
        }
    }

    /// Counts that others have changed or deleted the object while it is rolled out.
    fn note_disturbance(&mut self, live: &Value) {
        let mut fields = foreign_fields(live, &self.apply.body.read(), &self.planned.wanted.ignored_fields);
        if fields.is_empty() {
            let manager = newest_other_manager(live).unwrap_or_else(|| UNKNOWN_MANAGER.to_owned());
            let path = if live.is_null() { "" } else { "spec.template" }.to_owned();
            fields.push(ForeignField { path, manager });
        }
        let times = self.findings.disturbed.as_ref().map_or(0, |known| known.times).saturating_add(1);
        let dispute = Dispute { fields, times, lasted: Duration::ZERO, wait: Duration::ZERO };
        self.findings.disturbed = Some(dispute);
    }

    /// Waits before the manifest is applied again: not after the first times, then ever longer, which is said.
    async fn wait_after_disturbance(&mut self, lasted: Duration) -> Result<(), Cancelled> {
        let Some(dispute) = &mut self.findings.disturbed else { return Ok(()) };
        let past = self.resume.corrected;
        dispute.lasted = past.map_or(lasted, |past| past.first.elapsed());
        let times = past.map_or(0, |past| past.times).saturating_add(dispute.times);
        let Some(number) = times.checked_sub(AT_ONCE) else { return Ok(()) };
        dispute.wait = WAITS.wait_number(number);
        let wait = dispute.wait;
        self.context.disagree(&self.planned.wanted.key, Some(&Dispute { times, ..dispute.clone() }));
        self.publish_wait(wait);
        self.unless_cancelled(tokio::time::sleep(wait)).await
    }

    /// Publishes that it is applied again later. No deadline counts until then, and what was seen of pods last is not of this
    /// manifest's any more.
    fn publish_wait(&self, wait: Duration) {
        let message = format!("waits {} s before it is applied again: somebody else keeps changing it", wait.as_secs());
        self.context.status.change(|source| {
            let Some(way) = source.under_way.get_mut(&self.planned.wanted.key) else { return false };
            (way.until, way.wrong, way.in_the_way, way.message) = (None, None, None, message);
            true
        });
    }

    async fn complete(&mut self, live: Arc<Value>) -> Result<Outcome, Cancelled> {
        self.forget_request(&live).await;
        self.note_completion(&live);
        if let Some(hold) = Hold::on(&live).filter(|_| self.apply.keeps_hold) {
            drop(live);
            return self.end_applied(Some(hold)).await;
        }
        if !self.is_of_template() {
            drop(live);
            return self.end(Outcome::Complete, None).await;
        }
        self.log_end(Outcome::Complete, None);
        let recorded = self.context.complete(self.record, &self.planned.wanted, &live);
        // Thousands may be complete at the same moment, and wait for the history.
        drop(live);
        recorded.await;
        Ok(Outcome::Complete)
    }

    /// Notes what the loop is to know of a complete object.
    fn note_completion(&mut self, live: &Value) {
        let wanted = &self.planned.wanted;
        if Workload::of(&wanted.key).is_some() {
            self.findings.told = Some(QueuedEvent::of(&wanted.key, live, &wanted.commit));
        }
        let (body, ignored) = (self.apply.body.read(), &wanted.ignored_fields);
        let has_surplus = Surplus::of(live, &body, ignored, Reach::Manifest, None).is_some();
        if !has_surplus && is_as_applied(live, &ignored.leave(body, Some(live))) {
            let (hash, ignored_fields) = (wanted.hash.clone(), wanted.ignored_fields.clone());
            self.findings.well = Some(InSync { digest: digest(live), hash, ignored_fields });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::shared::requests::RequestPermit;

    /// Returns the size of the future that a function of this kind makes.
    fn size<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn thousands_of_rollouts_that_wait_are_small() {
        // The parts that a task has besides its manifest and the object's text. Debug builds are the larger ones.
        let run = size(RolloutTask::run);
        let apply = size(|(work, room): (&'static mut RolloutTask, RequestPermit)| work.apply_manifest(room));
        let work = size_of::<RolloutTask>();
        assert!(
            run <= 3072 && apply <= 3072 && work <= 1536,
            "a task {run}, its apply {apply}, its facts {work} bytes"
        );
    }
}
