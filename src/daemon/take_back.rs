//! The way back: evidence kept, the last good template applied with the hold, watched until it is there, the failed
//! revision marked. It is the same apply, watch and judge as the way out.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;
use tracing::{info, warn};

use super::judging::{Cancelled, Judging, Ruled};
use super::roll_out::Work;
use crate::cluster::{Backoff, EventKind, Scene};
use crate::config::OnFailure;
use crate::rollout::{
    Baseline, Hold, Judge, NoWayBack, Outcome, Reason, Revision, StepKind, TemplateMarks, WayBack, Workload, body,
    marks, same_template, template, template_hash, way_back, with_template,
};

/// A failed rollout that is to be taken back.
pub(super) struct TakeBack {
    /// Why it failed.
    pub reason: Reason,
    /// What was to be seen; `None` where it was saved before a restart.
    pub scene: Option<Scene>,
    /// The baseline of the write that went back, where it was made before a restart.
    pub went: Option<Baseline>,
}

/// Takes a failed rollout back, as far as its source and its kind allow.
pub(super) async fn take_back(work: &mut Work, back: TakeBack, live: Option<Arc<Value>>) -> Result<Outcome, Cancelled> {
    let key = work.planned.wanted.key.clone();
    let Some(live) = live else {
        let reason = Reason { message: format!("{}; it was deleted meanwhile", back.reason.message), ..back.reason };
        return work.end(Outcome::Failed, Some(reason)).await;
    };
    if let Some(scene) = &back.scene {
        work.context.save_evidence(work.record, &back.reason, &scene.evidence).await;
    }
    if let Some(hold) =
        Hold::on(&live).filter(|hold| hold.keeps(&work.planned.wanted.hash, work.planned.wanted.config.as_deref()))
    {
        // The write was made before a restart: only its end is missing.
        let baseline = back.went.unwrap_or_else(|| Baseline::of(&key, &live));
        let marks = TemplateMarks::on(&live);
        info!(object = %key, since = %hold.since, "going back, as before the restart");
        return watch_back(work, back.reason, baseline, &marks, live).await;
    }
    if let Err(why) = may_go_back(work, &live) {
        let reason = Reason { message: format!("{}; {why}", back.reason.message), ..back.reason };
        return fail(work, &live, reason).await;
    }
    let found = match find_way(work, &live).await? {
        Ok(found) => found,
        Err(none) => {
            let reason = Reason { message: format!("{}; {none}", back.reason.message), ..back.reason };
            return fail(work, &live, reason).await;
        }
    };
    go_back(work, back.reason, found, &live).await
}

/// Whether a failure is answered by going back: the object's own word, else the source's, and the kind.
fn may_go_back(work: &Work, live: &Value) -> Result<(), &'static str> {
    if !Workload::of(&work.planned.wanted.key).is_some_and(Workload::can_go_back) {
        return Err("a workload of this kind is not taken back");
    }
    let own = marks::annotation(work.planned.wanted.manifest.value(), marks::ON_FAILURE)
        .or_else(|| marks::annotation(live, marks::ON_FAILURE));
    match (own, work.context.config.on_failure) {
        (Some("report"), _) | (None, OnFailure::Report) => Err("it is only reported, as configured"),
        _ => Ok(()),
    }
}

async fn fail(work: &mut Work, live: &Value, reason: Reason) -> Result<Outcome, Cancelled> {
    let key = work.planned.wanted.key.clone();
    let message = format!("{}: {reason}", work.planned.wanted.commit.change_cause());
    work.context.tell(&key, live, EventKind::Warning, "RolloutFailed", message).await;
    work.end(Outcome::Failed, Some(reason)).await
}

/// Where to go back to.
async fn find_way(work: &Work, live: &Value) -> Result<Result<WayBack, NoWayBack>, Cancelled> {
    let context = &work.context;
    let wanted = &work.planned.wanted;
    let read = Backoff::insist(context.in_the_way(&wanted.key), || context.cluster.revisions(&wanted.key, live));
    let revisions: Vec<Revision> = work.unless_cancelled(read).await?.unwrap_or_default();
    let good = context.last_good(&wanted.key);
    let failing = template(live).cloned().unwrap_or_default();
    Ok(way_back(&failing, good.as_ref(), &revisions, None))
}

async fn go_back(work: &mut Work, reason: Reason, found: WayBack, live: &Arc<Value>) -> Result<Outcome, Cancelled> {
    let wanted = work.planned.wanted.clone();
    let context = Arc::clone(&work.context);
    let hold = Hold {
        manifest: wanted.hash.clone(),
        config: wanted.config.clone(),
        template: template_hash(&found.template),
        commit: wanted.commit.id.clone(),
        reason: reason.message.clone(),
        since: context.clock.now(),
    };
    let sent = body(wanted.manifest.value(), &context.config.name, &found.marks, Some(&hold), wanted.replicas);
    let sent = with_template(sent, &found.template);
    let to = describe(&found);
    context.going_back(work.record, &reason, found.commit.as_ref(), found.revision, &to).await;
    info!(object = %wanted.key, commit = wanted.commit.id.short(), to, "going back");
    let message = format!("{}: {reason}; going back to {to}", wanted.commit.change_cause());
    context.tell(&wanted.key, live, EventKind::Warning, "RollingBack", message).await;
    let written = match work.insist_on_apply(&sent).await? {
        Ok(written) => written,
        Err(error) => {
            let reason =
                Reason { code: reason.code, message: format!("{}; the way back was refused: {error}", reason.message) };
            return rollback_failed(work, live, reason).await;
        }
    };
    let baseline = Baseline::of(&wanted.key, &written);
    context.went_back(work.record, &baseline).await;
    let marks = TemplateMarks::on(&written);
    watch_back(work, reason, baseline, &marks, Arc::new(written)).await
}

/// Watches the way back to its end, within its own budget.
async fn watch_back(
    work: &mut Work,
    reason: Reason,
    baseline: Baseline,
    back: &TemplateMarks,
    live: Arc<Value>,
) -> Result<Outcome, Cancelled> {
    let key = work.planned.wanted.key.clone();
    let context = Arc::clone(&work.context);
    let budget = SignedDuration::try_from(context.config.rollback_budget.0).unwrap_or(SignedDuration::MAX);
    let judge = Judge::new(key.clone(), baseline, context.clock.now()).with_budget(budget);
    let applied = template(&live).cloned();
    let mut judging = Judging { work, judge, applied, outcome: Outcome::RollingBack };
    let ruled = judging.until_ruled(Some(live)).await?;
    mark_failed(work, &reason).await;
    match ruled {
        Ruled::Complete(live) => {
            let to = back.change_cause.as_deref().unwrap_or("its last good revision");
            let message = format!("back on {to}; {} is held: {reason}", work.planned.wanted.commit.change_cause());
            context.tell(&key, &live, EventKind::Warning, "RolledBack", message).await;
            work.end(Outcome::RolledBack, Some(reason)).await
        }
        Ruled::Failed { reason: why, scene, live } => {
            context.save_evidence(work.record, &why, &scene.evidence).await;
            let message = format!("{}; the way back failed too: {why}", reason.message);
            rollback_failed(work, &live, Reason { code: reason.code, message }).await
        }
        Ruled::TakenOver(live) => {
            let message = format!("{}; somebody else changed the pod template on the way back", reason.message);
            rollback_failed(work, &live, Reason { code: reason.code, message }).await
        }
        Ruled::Gone => {
            let message = format!("{}; somebody deleted it on the way back", reason.message);
            work.end(Outcome::RollbackFailed, Some(Reason { code: reason.code, message })).await
        }
    }
}

async fn rollback_failed(work: &mut Work, live: &Value, reason: Reason) -> Result<Outcome, Cancelled> {
    let key = work.planned.wanted.key.clone();
    warn!(object = %key, %reason, "the rollback failed");
    work.context.tell(&key, live, EventKind::Warning, "RollbackFailed", reason.message.clone()).await;
    work.end(Outcome::RollbackFailed, Some(reason)).await
}

/// Marks the failed revision, now that it is not the current one. That it can't be marked changes nothing else.
async fn mark_failed(work: &Work, reason: &Reason) {
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

fn describe(found: &WayBack) -> String {
    match (&found.marks.change_cause, found.revision) {
        (Some(cause), Some(revision)) => format!("revision {revision} ({cause})"),
        (Some(cause), None) => cause.clone(),
        (None, Some(revision)) => format!("revision {revision}"),
        (None, None) => "an earlier template".to_owned(),
    }
}

/// Respects an undo by hand: a template that somebody else wrote and that is one of the workload's own earlier revisions.
/// The manifest is held like a failed one. `None` where the template is no earlier one: that is drift.
pub(super) async fn undone_by_hand(work: &mut Work, live: &Arc<Value>) -> Result<Option<Outcome>, Cancelled> {
    let wanted = work.planned.wanted.clone();
    let context = Arc::clone(&work.context);
    let Some(present) = template(live) else { return Ok(None) };
    let read = Backoff::insist(context.in_the_way(&wanted.key), || context.cluster.revisions(&wanted.key, live));
    let revisions = work.unless_cancelled(read).await?.unwrap_or_default();
    let ours = revisions.iter().find(|revision| revision.marks.commit.as_deref() == Some(wanted.commit.id.as_str()));
    let earlier = |revision: &&Revision| ours.is_none_or(|ours| revision.is_earlier_than(ours));
    let Some(revision) = revisions.iter().find(|one| same_template(&one.template, present)).filter(earlier) else {
        return Ok(None);
    };
    let by = super::live::newest_other_manager(live).unwrap_or_else(|| "somebody".to_owned());
    let reason = Reason {
        code: "UndoneByHand".to_owned(),
        message: format!("taken back by hand ({by}) to revision {}", revision.number),
    };
    let hold = Hold {
        manifest: wanted.hash.clone(),
        config: wanted.config.clone(),
        template: template_hash(&revision.template),
        commit: wanted.commit.id.clone(),
        reason: reason.message.clone(),
        since: context.clock.now(),
    };
    let sent = body(wanted.manifest.value(), &context.config.name, &revision.marks, Some(&hold), wanted.replicas);
    let sent = with_template(sent, &revision.template);
    context.going_back(work.record, &reason, None, Some(revision.number), "as somebody did by hand").await;
    match work.insist_on_apply(&sent).await? {
        Ok(written) => {
            context.tell(&wanted.key, &written, EventKind::Warning, "UndoneByHand", reason.message.clone()).await;
            work.end(Outcome::RolledBack, Some(reason)).await.map(Some)
        }
        Err(error) => {
            let message = format!("{}; the hold was refused: {error}", reason.message);
            rollback_failed(work, live, Reason { code: reason.code, message }).await.map(Some)
        }
    }
}
