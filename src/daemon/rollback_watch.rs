//! Watches the way back until the workload is there, within the time that a rollback has.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;
use tracing::warn;

use super::driver::WorkloadDriver;
use super::failure::{RollbackEnd, save_second_evidence};
use super::health_monitor::{HealthMonitor, MonitorEnd};
use super::rollout_task::{Cancelled, RolloutTask};
use belay_core::rollout::rollback::{RollbackPlan, held_by_undo};
use belay_core::rollout::{Baseline, Outcome, Reason, StepKind, TemplateMarks, template};

/// Watches the way back, from the write that has these marks, to its end.
pub(super) async fn watch_back(
    work: &mut RolloutTask,
    reason: Reason,
    baseline: Baseline,
    back: &TemplateMarks,
    live: Arc<Value>,
) -> Result<RollbackEnd, Cancelled> {
    let budget = SignedDuration::try_from(work.context.config.rollback_budget.0).unwrap_or(SignedDuration::MAX);
    let judge = work.judge(baseline).with_budget(budget);
    let applied = template(&live).map(|back| work.planned.wanted.ignored_fields.template_hash(back));
    let unsticking = WorkloadDriver::of(work).delete_stuck_pods(work);
    let mut judging = HealthMonitor::new(work, judge, applied, Outcome::RollingBack);
    let ruled = tokio::select! {
        biased;
        ruled = judging.until_judged(Some(live)) => ruled?,
        never = unsticking => match never {},
    };
    if let MonitorEnd::TakenOver(live) = &ruled
        && let Some(RollbackPlan::WasUndone { reason, back_to, to }) = held_by_undo(&work.planned.wanted, live)
    {
        work.context.going_back(work.record, &reason, back_to.as_ref(), None, &to).await;
        return Ok(RollbackEnd::undone(reason, Arc::clone(live)));
    }
    mark_failed(work, &reason).await;
    Ok(match ruled {
        MonitorEnd::Complete(live) => {
            let to = back.change_cause.as_deref().unwrap_or("its last good revision");
            RollbackEnd::back(work, to, reason, live)
        }
        MonitorEnd::Failed { reason: why, observed, live } => {
            save_second_evidence(work, &why, observed.evidence).await;
            RollbackEnd::failed_too(reason.and(format!("the way back failed too: {why}")), live)
        }
        MonitorEnd::TakenOver(live) => {
            RollbackEnd::failed_too(reason.and("somebody else changed the pod template on the way back"), live)
        }
        MonitorEnd::Gone => {
            RollbackEnd::untold(Outcome::RollbackFailed, reason.and("somebody deleted it on the way back"))
        }
    })
}

/// Marks the failed revision, now that it is not the current one. That it can't be marked changes nothing else.
async fn mark_failed(work: &RolloutTask, reason: &Reason) {
    let wanted = &work.planned.wanted;
    let context = &work.context;
    let marked = async {
        let Some(live) = context.cluster.get(&wanted.key, &work.served).await? else { return Ok(()) };
        context.cluster.mark_failed(&wanted.key, &live, &wanted.commit.id, &short(&reason.message)).await
    };
    match marked.await {
        Ok(()) => context.step(work.record, StepKind::Marked, "").await,
        Err(error) => warn!(object = %wanted.key, %error, "failed to mark the failed revision"),
    }
}

/// A reason that fits behind a change-cause.
fn short(message: &str) -> String {
    const LIMIT: usize = 160;
    if message.chars().count() <= LIMIT {
        message.to_owned()
    } else {
        message.chars().take(LIMIT - 1).chain(['…']).collect()
    }
}
