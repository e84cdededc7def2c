//! The spine: one manifest of one commit, from the plan to its record.
//!
//! Apply, watch, judge; complete, or take back by the same apply, watch and judge. Every step is recorded before and after
//! it is taken, so that a daemon that is killed anywhere takes it up again where it was.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::apply_wave::Turn;
use super::context::Context;
use super::established::waits_for;
use super::event_queue::QueuedEvent;
use super::health_monitor::{Cancelled, Judging, Ruled};
use super::live::digest;
use super::panics::text_of;
use super::resume_point::resumed_apply;
pub(super) use super::resume_point::{End, InSync, ResumePoint, RolloutEnd};
use super::take_back::{self, TakeBack};
use super::{manual_rollback, prune, replication_controller, stuck_pods};
use crate::cluster::{Backoff, Served};
use belay_core::manifest::Compact;
use belay_core::rollout::{
    Apply, Baseline, Hold, Outcome, Planned, Reason, RecordId, StepKind, Workload, is_as_applied, marks, template,
    template_hash,
};

/// The object as the watch sees it: `None` until it has, or when it is gone.
pub(super) type LiveObject = watch::Receiver<Option<Compact>>;

/// The wait before a rollout that others have disturbed for the second time is begun again; it doubles.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest.
const AGAIN_LONGEST: Duration = Duration::from_mins(5);

/// One rollout to be carried through.
pub(super) struct RolloutTask {
    pub context: Arc<Context>,
    pub planned: Planned,
    pub apply: Apply,
    pub served: Served,
    pub record: RecordId,
    pub turn: Turn,
    pub cancel: CancellationToken,
    pub live: LiveObject,
    /// Says that it is to be given up, and why.
    pub give_up: watch::Receiver<Option<Reason>>,
    pub resume: Resume,
    pub findings: Findings,
}

/// From where a rollout is carried through, and what it takes the place of.
#[derive(Default)]
pub(super) struct Resume {
    pub stage: ResumePoint,
    /// Whether it takes the place of a rollout that was under way, with the same pod template: that one goes on as this.
    pub carries_on: bool,
    /// Whether what it takes the place of may not be well any more.
    pub doubtful: bool,
}

/// What a rollout has found out by its end.
#[derive(Default)]
pub(super) struct Findings {
    /// What is to be told of it.
    pub told: Option<QueuedEvent>,
    /// What the object is known to be.
    pub well: Option<InSync>,
}

impl RolloutTask {
    /// Carries the rollout through. A panic in it is its own end, and nobody else's.
    pub(super) async fn run(mut self: Box<RolloutTask>) -> RolloutEnd {
        // Not through a function of its own: that would keep the story twice, and there are thousands.
        let end = match AssertUnwindSafe(self.story()).catch_unwind().await {
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
        RolloutEnd { end, told: self.findings.told, well: self.findings.well }
    }

    async fn story(&mut self) -> Result<Outcome, Cancelled> {
        let stage = std::mem::replace(&mut self.resume.stage, ResumePoint::Fresh);
        if Workload::of(&self.planned.wanted.key) == Some(Workload::ReplicationController)
            && stage != ResumePoint::Prune
        {
            return Box::pin(replication_controller::story(self, stage)).await;
        }
        match stage {
            ResumePoint::Fresh | ResumePoint::Drifted => {
                if stage == ResumePoint::Drifted
                    && let Some(live) = self.read().await?
                    && let Some(outcome) = Box::pin(manual_rollback::undone_by_hand(self, &live, None)).await?
                {
                    return Ok(outcome);
                }
                Box::pin(self.look_at_replaced(&stage)).await?;
                Box::pin(self.keep_replaced(&stage)).await?;
                // Those that wait for their turn and for room, thousands perhaps, have little of their own meanwhile.
                let room = self.turn_and_room().await?;
                let written = match Box::pin(self.apply_manifest(room)).await? {
                    Ok(written) => written,
                    Err(outcome) => return Ok(outcome),
                };
                self.follow(written).await
            }
            ResumePoint::UnderWay(baseline) => {
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
            ResumePoint::GoingBack { reason, went } => {
                self.turn.through();
                let live = self.read().await?;
                self.step(StepKind::Resumed, "going back again").await?;
                self.take_back(TakeBack { reason, scene: None, went }, live).await
            }
            ResumePoint::Prune => Box::pin(prune::delete(self)).await,
        }
    }

    /// After the write: nothing to wait for, or a rollout to be judged.
    pub(super) async fn follow(&mut self, written: Value) -> Result<Outcome, Cancelled> {
        if !self.is_judged() {
            Box::pin(self.wait_until_established(&written)).await?;
            self.turn.through();
            return match waits_for(&self.planned.wanted.key) {
                true if Hold::on(&written).is_none() => Box::pin(self.wait_until_healthy(written)).await,
                _ => self.end(Outcome::Complete, None).await,
            };
        }
        self.turn.through();
        let baseline = self.baseline(&written);
        self.judge_from(baseline, Some(Arc::new(written))).await
    }

    /// Whether there is a rollout to be judged.
    pub(super) fn is_judged(&self) -> bool {
        self.is_of_template() || self.apply.scales
    }

    /// Whether it is about a pod template, so that there may be an earlier one to go back to.
    pub(super) fn is_of_template(&self) -> bool {
        self.apply.rolls_out || self.resume.carries_on
    }

    /// From where the rollout that a write began is judged. What goes on may have failed already: that is its own failure.
    pub(super) fn baseline(&self, written: &Value) -> Baseline {
        let baseline = Baseline::of(&self.planned.wanted.key, written);
        let baseline = Baseline { only_size: self.apply.scales && !self.is_of_template(), ..baseline };
        if self.resume.carries_on && !self.apply.rolls_out {
            Baseline { old_failure: None, ..baseline }
        } else {
            baseline
        }
    }

    /// Judges the rollout that a write began.
    pub(super) async fn judge_from(
        &mut self,
        mut baseline: Baseline,
        mut live: Option<Arc<Value>>,
    ) -> Result<Outcome, Cancelled> {
        let mut again: Option<Duration> = None;
        loop {
            let judge = self.judge(baseline);
            let applied = live.as_deref().and_then(template).map(template_hash);
            let unsticking = stuck_pods::failed_pods(self);
            let own = live.as_deref().and_then(template).map(|own| self.planned.wanted.left_alone.template_hash(own));
            let mut judging = Judging::new(self, judge, own, Outcome::UnderWay);
            let ruled = tokio::select! {
                biased;
                ruled = judging.until_ruled(live) => ruled?,
                never = unsticking => match never {},
            };
            let was_deleted = matches!(ruled, Ruled::Gone);
            match ruled {
                Ruled::Complete(live) => return Box::pin(self.complete(&live)).await,
                Ruled::Failed { reason, scene, live } => {
                    self.context.revised(self.record, &live).await;
                    let back = TakeBack { reason, scene: Some(scene), went: None };
                    return self.take_back(back, Some(live)).await;
                }
                Ruled::TakenOver(live) => {
                    if let Some(outcome) = manual_rollback::held_by_another(self, &live).await? {
                        return Ok(outcome);
                    }
                    if let Some(outcome) =
                        Box::pin(manual_rollback::undone_by_hand(self, &live, applied.as_deref())).await?
                    {
                        return Ok(outcome);
                    }
                }
                Ruled::Gone => {}
            }
            if Workload::of(&self.planned.wanted.key) == Some(Workload::ReplicationController) {
                return Box::pin(replication_controller::again(self)).await;
            }
            // Somebody deleted the workload, or wrote another template: the manifest is applied again, and ever later where
            // they keep doing so.
            if let Some(wait) = again {
                self.unless_cancelled(tokio::time::sleep(wait)).await?;
            }
            again = Some(again.map_or(AGAIN, |wait| (wait * 2).min(AGAIN_LONGEST)));
            self.step(StepKind::Applying, "again: others have changed or deleted it").await?;
            Box::pin(self.take_over(&self.apply.body.read())).await?;
            if was_deleted {
                self.apply = resumed_apply(&self.planned.wanted, &self.context.config.name);
            }
            let written = match Box::pin(self.insist_on_apply(&self.apply.body)).await? {
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
        if is_as_applied(live, &wanted.left_alone.leave(self.apply.body.read(), Some(live))) {
            let (hash, left_alone) = (wanted.hash.clone(), wanted.left_alone.clone());
            self.findings.well = Some(InSync { digest: digest(live), hash, left_alone });
        }
        if !self.is_of_template() {
            return self.end(Outcome::Complete, None).await;
        }
        self.log_end(Outcome::Complete, None);
        self.context.complete(self.record, wanted, live).await;
        Ok(Outcome::Complete)
    }

    pub(super) async fn take_back(&mut self, back: TakeBack, live: Option<Arc<Value>>) -> Result<Outcome, Cancelled> {
        Box::pin(take_back::take_back(self, back, live)).await
    }

    /// Whether the live pod template is the one that this rollout's commit made, by its mark.
    fn is_ours(&self, live: &Value) -> bool {
        marks::annotation(live, marks::COMMIT) == Some(self.planned.wanted.commit.id.as_str())
    }

    /// The live object, read anew.
    pub(super) async fn read(&self) -> Result<Option<Arc<Value>>, Cancelled> {
        let key = &self.planned.wanted.key;
        let context = &self.context;
        let read = Backoff::insist(context.in_the_way(key), || context.cluster.get(key, &self.served));
        let live = self.unless_cancelled(read).await?.unwrap_or_default();
        Ok(live.map(Arc::new))
    }

    /// Writes a step into the record.
    pub(super) async fn step(&self, kind: StepKind, detail: &str) -> Result<(), Cancelled> {
        self.unless_cancelled(self.context.step(self.record, kind, detail)).await
    }

    /// Ends the record.
    pub(super) async fn end(&self, outcome: Outcome, reason: Option<Reason>) -> Result<Outcome, Cancelled> {
        self.log_end(outcome, reason.as_ref());
        self.context.end(self.record, outcome, reason.as_ref()).await;
        Ok(outcome)
    }

    fn log_end(&self, outcome: Outcome, reason: Option<&Reason>) {
        let wanted = &self.planned.wanted;
        let reason = reason.map(ToString::to_string);
        info!(object = %wanted.key, commit = wanted.commit.id.short(), %outcome, reason, "ended");
    }

    /// Does something that may be broken off at any moment.
    pub(super) async fn unless_cancelled<T>(&self, future: impl Future<Output = T>) -> Result<T, Cancelled> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Cancelled),
            done = future => Ok(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::requests::Room;

    /// The size of the future that a function of this kind makes.
    fn size<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn thousands_of_rollouts_that_wait_are_small() {
        // What one has besides its manifest and the object's text. Debug builds are the larger ones.
        let run = size(RolloutTask::run);
        let apply = size(|(work, room): (&'static mut RolloutTask, Room)| work.apply_manifest(room));
        let work = size_of::<RolloutTask>();
        assert!(
            run <= 3072 && apply <= 3072 && work <= 1536,
            "a task {run}, its apply {apply}, its facts {work} bytes"
        );
    }
}
