//! The steps of a rollback: the hold, what goes back with the workload, the write, and the watch until it is there.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;
use tracing::{info, warn};

use super::failure::{both, evidence_so_far, rollback_failed};
use super::health_monitor::{Judging, Ruled};
use super::rollout_task::{Cancelled, RolloutTask};
use super::{dependent_config, manual_rollback, stuck_pods};
use crate::cluster::{Backoff, EventKind, Mode};
use crate::config::OnFailure;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{
    Baseline, Hold, Outcome, Reason, RollbackTarget, StepKind, TemplateMarks, Wish, Workload, before_apply, body,
    template, template_hash, wish, with_template,
};

/// Whether a failure is answered by going back: the object's own word, else the source's, and the kind.
pub(super) fn may_go_back(work: &RolloutTask, live: &Value) -> Result<(), &'static str> {
    if !Workload::of(&work.planned.wanted.key).is_some_and(Workload::can_go_back) {
        return Err("a workload of this kind is not taken back");
    }
    if !work.is_of_template() {
        return Err("only the number of pods was changed: there is no template to go back to");
    }
    match (wish(&work.planned.wanted.manifest.value(), live), work.context.config.on_failure) {
        (Some(Wish::Report), _) | (None, OnFailure::Report) => Err("it is only reported, as configured"),
        _ => Ok(()),
    }
}

/// The hold of a manifest that failed, on the workload that goes back to what was found.
pub(super) fn hold(work: &RolloutTask, reason: &Reason, found: &RollbackTarget) -> Hold {
    let wanted = &work.planned.wanted;
    Hold {
        manifest: wanted.hash.clone(),
        config: wanted.config.clone(),
        template: template_hash(&found.template),
        left_alone: Vec::new(),
        commit: wanted.commit.id.clone(),
        reason: reason.message.clone(),
        since: work.context.clock.now(),
        with: Vec::new(),
        by: None,
    }
    .together_with(dependent_config::culprit(work))
}

/// What has gone back with a workload already.
pub(super) struct Announced {
    /// Whether something had to stay.
    stayed: bool,
    gone: Vec<ObjectKey>,
}

/// Says that it goes back, and takes back what goes with it.
pub(super) async fn announce(
    work: &mut RolloutTask,
    reason: &Reason,
    found: &RollbackTarget,
    live: &Arc<Value>,
) -> Result<Announced, Cancelled> {
    let (context, key) = (Arc::clone(&work.context), work.planned.wanted.key.clone());
    let company = dependent_config::company(work).await?;
    let mut to = describe(found);
    company.stays.iter().for_each(|stays| to.push_str(&format!("; {stays}")));
    context.going_back(work.record, reason, found.commit.as_ref(), found.revision, &to).await;
    info!(object = %key, commit = work.planned.wanted.commit.id.short(), to, "going back");
    let message = format!("{}: {reason}; going back to {to}", work.planned.wanted.commit.change_cause());
    context.tell(&key, live, EventKind::Warning, "RollingBack", message);
    let announced = Announced { stayed: !company.stays.is_empty(), gone: company.keys() };
    dependent_config::take_company_back(work, company, reason).await?;
    Ok(announced)
}

/// Writes the template that was found, and the hold, and proves that it is back.
pub(super) async fn write_back(
    work: &mut RolloutTask,
    reason: Reason,
    found: &RollbackTarget,
    hold: &Hold,
    live: &Arc<Value>,
    announced: Announced,
) -> Result<Outcome, Cancelled> {
    let sent = sent_back(work, found, hold);
    reclaim(work, live, &sent).await?;
    let written = match work.insist_on_apply(&sent).await? {
        Ok(written) => written,
        Err(error) => return refused_on_the_way(work, live, reason, &error.to_string()).await,
    };
    let baseline = Baseline::of(&work.planned.wanted.key, &written);
    work.context.went_back(work.record, &baseline).await;
    if announced.stayed {
        // Another one that needed it may have failed at the same moment. Each looks again when its own hold is written, so
        // that the last of them sees all.
        let left = dependent_config::company(work).await?.besides(&announced.gone);
        dependent_config::take_company_back(work, left, &reason).await?;
    }
    let marks = TemplateMarks::on(&written);
    watch_back(work, reason, baseline, &marks, Arc::new(written)).await
}

/// Makes belay's own what others own of the object from before, so that nothing of it is mixed with what is sent.
pub(super) async fn reclaim(work: &RolloutTask, live: &Value, sent: &Value) -> Result<(), Cancelled> {
    if before_apply(live, sent).is_some() { work.take_over(sent).await } else { Ok(()) }
}

/// What is sent to go back.
pub(super) fn sent_back(work: &RolloutTask, found: &RollbackTarget, hold: &Hold) -> Value {
    let wanted = &work.planned.wanted;
    let sent = body(&wanted.manifest.value(), &work.context.config.name, &found.marks, Some(hold));
    with_template(sent, &found.template)
}

/// What the server makes of a template. `Err` with its words where it refuses it.
pub(super) async fn try_template(
    work: &RolloutTask,
    found: &RollbackTarget,
    hold: &Hold,
    live: &Value,
) -> Result<Result<Value, String>, Cancelled> {
    let (context, key) = (&work.context, &work.planned.wanted.key);
    let sent = work.planned.wanted.left_alone.leave(sent_back(work, found, hold), Some(live));
    let ask = || context.cluster.apply(key, &work.served, &sent, Mode::DryRun);
    let tried = work.unless_cancelled(Backoff::insist(context.in_the_way(key), ask)).await?;
    Ok(match tried {
        Ok(would_be) => Ok(template(&would_be.object).cloned().unwrap_or_default()),
        Err(error) => Err(error.to_string()),
    })
}

pub(super) async fn refused_on_the_way(
    work: &mut RolloutTask,
    live: &Value,
    reason: Reason,
    error: &str,
) -> Result<Outcome, Cancelled> {
    rollback_failed(work, live, reason.and(format!("the way back was refused: {error}"))).await
}

/// Watches the way back to its end, within its own budget.
pub(super) async fn watch_back(
    work: &mut RolloutTask,
    reason: Reason,
    baseline: Baseline,
    back: &TemplateMarks,
    live: Arc<Value>,
) -> Result<Outcome, Cancelled> {
    let key = work.planned.wanted.key.clone();
    let context = Arc::clone(&work.context);
    let budget = SignedDuration::try_from(context.config.rollback_budget.0).unwrap_or(SignedDuration::MAX);
    let judge = work.judge(baseline).with_budget(budget);
    let applied = template(&live).map(|back| work.planned.wanted.left_alone.template_hash(back));
    let unsticking = stuck_pods::failed_pods(work);
    let mut judging = Judging::new(work, judge, applied, Outcome::RollingBack);
    let ruled = tokio::select! {
        biased;
        ruled = judging.until_ruled(Some(live)) => ruled?,
        never = unsticking => match never {},
    };
    if let Ruled::TakenOver(live) = &ruled
        && let Some(hold) = manual_rollback::by_hand(work, live)
    {
        return manual_rollback::taken_back(work, live, &hold).await;
    }
    mark_failed(work, &reason).await;
    match ruled {
        Ruled::Complete(live) => {
            let to = back.change_cause.as_deref().unwrap_or("its last good revision");
            let message = format!("back on {to}; {} is held: {reason}", work.planned.wanted.commit.change_cause());
            context.tell(&key, &live, EventKind::Warning, "RolledBack", message);
            work.end(Outcome::RolledBack, Some(reason)).await
        }
        Ruled::Failed { reason: why, scene, live } => {
            let both = both(evidence_so_far(work), scene.evidence);
            context.save_evidence(work.record, &why, &both).await;
            rollback_failed(work, &live, reason.and(format!("the way back failed too: {why}"))).await
        }
        Ruled::TakenOver(live) => {
            rollback_failed(work, &live, reason.and("somebody else changed the pod template on the way back")).await
        }
        Ruled::Gone => {
            let message = format!("{}; somebody deleted it on the way back", reason.message);
            work.end(Outcome::RollbackFailed, Some(Reason { code: reason.code, message })).await
        }
    }
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

fn describe(found: &RollbackTarget) -> String {
    match (&found.marks.change_cause, found.revision) {
        (Some(cause), Some(revision)) => format!("revision {revision} ({cause})"),
        (Some(cause), None) => cause.clone(),
        (None, Some(revision)) => format!("revision {revision}"),
        (None, None) => "an earlier template".to_owned(),
    }
}
