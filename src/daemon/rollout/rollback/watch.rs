//! Watches the way back until the workload is there, within the time that a rollback has.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tracing::warn;

use super::failure::{DISTURBANCES, RollbackEnd, save_second_evidence};
use crate::backoff::Backoff;
use crate::daemon::publish::queued_events::about;
use crate::daemon::rollout::health_monitor::{HealthMonitor, MonitorEnd};
use crate::daemon::rollout::kinds::driver::WorkloadDriver;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use belay_core::manifest::{Compact, shortened};
use belay_core::rollout::rollback::{RollbackPlan, held_by_undo};
use belay_core::rollout::{
    Baseline, Hold, Outcome, Reason, StepKind, TemplateMarks, held_body, is_as_applied, template,
};

/// The waits before the way back is begun again that others have disturbed.
const DISTURBED: Backoff = Backoff::between(Duration::from_secs(1), Duration::from_mins(5));

/// Watches the way back, from the write that left the object like this, to its end. If somebody deletes it, it is
/// created again.
pub async fn watch_back(
    work: &mut RolloutTask,
    reason: Reason,
    mut baseline: Baseline,
    mut live: Arc<Value>,
) -> Result<RollbackEnd, Cancelled> {
    let back = TemplateMarks::on(&live);
    // While it is watched, nothing of it is kept but texts.
    let sent = Compact::of(&as_held(work, &live));
    let mut newest = about(&live);
    let mut waits = DISTURBED;
    for _ in 0..DISTURBANCES {
        let now = match judged(work, baseline, live).await? {
            MonitorEnd::Suspended(why) => return Ok(RollbackEnd::suspended(why)),
            MonitorEnd::Complete(live) => {
                work.forget_request(&live).await;
                mark_failed(work, &reason).await;
                return Ok(RollbackEnd::back(work, target(&back), reason, &live));
            }
            MonitorEnd::Failed { reason: why, observed, live } => {
                mark_failed(work, &reason).await;
                save_second_evidence(work, &why, observed.evidence).await;
                return Ok(RollbackEnd::failed_too(reason.and(format!("the way back failed too: {why}")), &live));
            }
            MonitorEnd::TakenOver(now) => {
                if let Some(RollbackPlan::WasUndone { reason, back_to, to }) = held_by_undo(&work.planned.wanted, &now)
                {
                    work.context.going_back(work.record, &reason, back_to.as_ref(), None, &to).await;
                    return Ok(RollbackEnd::undone(reason, &now));
                }
                if !is_still_back(work, &now, &sent.read()) {
                    mark_failed(work, &reason).await;
                    let why = "somebody else changed the pod template on the way back";
                    return Ok(RollbackEnd::failed_too(reason.and(why), &now));
                }
                Some(now)
            }
            MonitorEnd::Gone | MonitorEnd::SetBack => {
                if let Some(now) = work.read().await?
                    && let Some(claimed) = work.claimed_meanwhile(&now)
                {
                    return Ok(RollbackEnd::failed_too(reason.and(claimed), &now));
                }
                None
            }
        };
        live = match now {
            Some(now) => now,
            None => {
                work.unless_cancelled(tokio::time::sleep(waits.wait())).await?;
                work.step(StepKind::Applying, "again: it was deleted or set back on the way back").await?;
                match work.retry_apply(&sent).await? {
                    Ok(written) => Arc::new(written),
                    Err(error) => return Ok(RollbackEnd::refused(reason, &error.to_string(), &newest)),
                }
            }
        };
        newest = about(&live);
        baseline = Baseline::of(&work.planned.wanted.key, &live);
        work.context.went_back(work.record, &baseline).await;
    }
    Ok(RollbackEnd::failed_too(
        reason.and("others have changed or deleted it on the way back, again and again"),
        &newest,
    ))
}

/// Returns the target of a rollback for people, by the marks of the template that is live.
pub fn target(back: &TemplateMarks) -> &str {
    back.change_cause.as_deref().unwrap_or("its last good revision")
}

/// Judges the rollback from a write, or from the changes of others to it.
async fn judged(work: &mut RolloutTask, baseline: Baseline, live: Arc<Value>) -> Result<MonitorEnd, Cancelled> {
    let budget = work.context.config.rollback_budget.signed();
    let is_resumed = baseline.moved.is_some();
    let judge = work.judge(baseline).with_budget(budget);
    let applied = template(&live).map(|back| work.planned.wanted.ignored_fields.template_hash(back));
    let unsticking = WorkloadDriver::of(work).delete_stuck_pods(work);
    let text = Compact::of(&live);
    drop(live);
    let mut judging = HealthMonitor::new(work, judge, applied, Outcome::RollingBack);
    if is_resumed {
        judging.resume_bake(Some(&text)).await?;
    }
    tokio::select! {
        biased;
        ruled = judging.until_judged(Some(text)) => ruled,
        never = unsticking => match never {},
    }
}

/// Returns the object for a rollback, as the write left it.
fn as_held(work: &RolloutTask, live: &Value) -> Value {
    let (manifest, source) = (work.planned.wanted.manifest.value(), &work.context.config.name);
    match Hold::on(live) {
        Some(hold) => held_body(&manifest, source, &TemplateMarks::on(live), &hold, template(live)),
        None => live.clone(),
    }
}

/// Returns true when a change during the rollback leaves all that was sent: a restart does.
fn is_still_back(work: &RolloutTask, live: &Value, sent: &Value) -> bool {
    is_as_applied(live, &work.planned.wanted.ignored_fields.leave(sent.clone(), Some(live)))
}

/// Marks the failed revision, now that it is not the current one. A failure to mark it changes nothing else.
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

/// Returns a reason that fits behind a change-cause.
fn short(message: &str) -> String {
    shortened(message, 160).into_owned()
}
