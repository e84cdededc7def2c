//! The target of a failed workload's rollback: the revision that was complete last, else one that the cluster has, else
//! Git's, else the one that the rollout replaced.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tracing::warn;

use super::unhealthy::Unhealthy;
use crate::daemon::repository::source_repository::Repository;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use crate::daemon::shared::context::Context;
use crate::history::Query;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::rollback::FormerManifest;
use belay_core::rollout::{
    CommitId, Known, NoRollbackTarget, Outcome, Revision, RollbackTarget, TemplateMarks, Trigger, rollback_target,
    same_template, template,
};

/// The most commits that are passed over because they never were complete.
const PASSED_OVER: usize = 20;

/// Finds the rollback target of a workload.
pub async fn find_target(
    work: &RolloutTask,
    live: &Value,
) -> Result<Result<RollbackTarget, NoRollbackTarget>, Cancelled> {
    let context = &work.context;
    let wanted = &work.planned.wanted;
    let read = work.until_served(&wanted.key, || context.cluster.revisions(&wanted.key, live));
    let mut revisions: Vec<Revision> = read.await?.unwrap_or_default();
    let unwell = work.unwell();
    let (good, failed) = last_good(work);
    // A revision that was unhealthy when it was replaced is no target, like one that failed.
    let of_failed = |revision: &Revision| revision.marks.commit().is_some_and(|commit| failed.contains(&commit));
    let no_target = |revision: &Revision| !revision.failed && (unwell.has(&revision.marks) || of_failed(revision));
    let left_out = revisions.iter_mut().filter(|revision| no_target(revision));
    let left_out = left_out.map(|revision| revision.failed = true).count();
    let failing = template(live).cloned().unwrap_or_default();
    // The failed commit's own template is no target, whatever others have added to it.
    let own = |revision: &Revision| revision.marks.commit.as_deref() == Some(wanted.commit.id.as_str());
    revisions.retain(|revision| !own(revision) || same_template(&revision.template, &failing));
    let good = good.map(|good| another_daemons(work, &revisions, &failing).unwrap_or(good));
    let none = match rollback_target(&failing, good.as_ref(), &revisions, &[]) {
        Ok(found) => return Ok(Ok(found)),
        Err(_) if left_out > 0 => NoRollbackTarget::NoneWell,
        Err(none) => none,
    };
    if !was_there_before(work, live) {
        return Ok(Err(none));
    }
    let before: Vec<Known> = from_git(work, &unwell).await.into_iter().chain(work.fallback_template(live)).collect();
    if before.is_empty() {
        return Ok(Err(none));
    }
    Ok(rollback_target(&failing, None, &revisions, &before).map_err(|all| if left_out > 0 { none } else { all }))
}

/// Returns the revision that the failed one replaced, if another daemon has rolled it out: the history of this one knows
/// only what was good before.
fn another_daemons(work: &RolloutTask, revisions: &[Revision], failing: &Value) -> Option<Known> {
    let (context, key) = (&work.context, &work.planned.wanted.key);
    let others = revisions.iter().filter(|revision| !revision.failed && !same_template(&revision.template, failing));
    let Revision { template, marks, .. } = others.max_by_key(|revision| revision.number)?;
    let commit = marks.commit().filter(|commit| context.commit(commit).is_some())?;
    let is_unknown = !context.recorded(key, commit.as_str()).rolled_out
        && context.last_good(key).is_none_or(|good| !same_template(&good.template, template));
    is_unknown.then(|| Known { template: template.clone(), commit: Some(commit), marks: marks.clone() })
}

/// Returns the newest template that was seen complete, of another commit than the failed one. Where whole commits go back,
/// commits that never were complete with all of their objects are passed over; they are returned, too.
fn last_good(work: &RolloutTask) -> (Option<Known>, Vec<CommitId>) {
    let (context, wanted) = (&work.context, &work.planned.wanted);
    let mut beside = vec![wanted.commit.id.clone()];
    let mut good = context.last_good_beside(&wanted.key, &beside);
    while let Some(commit) = good.as_ref().and_then(|good| good.commit.clone()) {
        if beside.len() > PASSED_OVER || !context.was_never_complete(&commit, &wanted.commit.id) {
            break;
        }
        beside.push(commit);
        good = context.last_good_beside(&wanted.key, &beside);
    }
    (good, beside.split_off(1))
}

/// Returns true when a workload is older than this rollout. A workload that this very rollout created has no target,
/// even if Git had a manifest that was never in the cluster.
pub fn was_there_before(work: &RolloutTask, live: &Value) -> bool {
    let made: Option<Timestamp> = live["metadata"]["creationTimestamp"].as_str().and_then(|at| at.parse().ok());
    let began = work.context.history.record(work.record).ok().flatten().map(|record| record.started);
    // The API server cuts its times to whole seconds.
    made.zip(began).is_some_and(|(made, began)| began.duration_since(made) >= SignedDuration::from_secs(1))
}

/// Returns the newest version in Git, before the failed commit, that has neither failed itself nor given way before it
/// was seen complete, or before it was applied at all.
async fn from_git(work: &RolloutTask, unwell: &Unhealthy) -> Option<Known> {
    let wanted = &work.planned.wanted;
    let query = Query {
        outcomes: [Outcome::Failed, Outcome::RolledBack, Outcome::RollbackFailed, Outcome::Superseded].into(),
        ..Query::of(&work.context.config.name, &wanted.key)
    };
    let records = work.context.history.records(&query).unwrap_or_else(|error| {
        warn!(object = %wanted.key, %error, "failed to ask the history what has failed");
        Vec::new()
    });
    let no_targets = [unwell.clone(), records.into_iter().collect()];
    let (context, key, commit) = (Arc::clone(&work.context), wanted.key.clone(), wanted.commit.id.clone());
    let ask = move |repository: &Repository| {
        repository.good_before(&key, &commit, |former, _| {
            let hash = former.manifest.hash.to_string();
            no_targets.iter().any(|of| of.has_manifest(&former.commit.id, &hash))
                || rolled_nothing_out(&context, &key, &former.commit.id)
                || never_ran(&context, &key, former)
        })
    };
    let former = work.context.ask_git(ask).await?;
    let template = template(&former.manifest.value())?.clone();
    Some(Known { commit: Some(former.commit.id.clone()), marks: TemplateMarks::of(&former.commit), template })
}

/// Returns true when a commit changed an object and left its template as it was: an older version stands for that template.
fn rolled_nothing_out(context: &Context, key: &ObjectKey, commit: &CommitId) -> bool {
    let query = Query { commit: Some(commit.to_string()), ..Query::of(&context.config.name, key) };
    let records = context.history.records(&query).unwrap_or_default();
    !records.is_empty() && records.iter().all(|record| !record.rolls_out && record.outcome == Outcome::Complete)
}

/// Returns true when a version was never applied, as far as the history knows: all its records were skipped or rejected, or it
/// came with a newer one, which was planned in its place, when belay knew the object.
fn never_ran(context: &Context, key: &ObjectKey, former: &FormerManifest) -> bool {
    let (history, commit, hash) = (&context.history, &former.commit.id, Some(former.manifest.hash.to_string()));
    let records = history.records(&Query::of(&context.config.name, key)).unwrap_or_default();
    let of_it = records.iter().filter(|record| record.commit == *commit || record.manifest_hash == hash);
    let outcomes: Vec<Outcome> = of_it.map(|record| record.outcome).collect();
    if !outcomes.is_empty() {
        return outcomes.iter().all(|outcome| matches!(outcome, Outcome::Skipped | Outcome::Rejected));
    }
    let arrivals = history.arrivals(commit).unwrap_or_default();
    let Some(came) = arrivals.into_iter().find(|arrival| arrival.source == context.config.name) else { return false };
    let mut own = records.iter().filter(|record| record.trigger != Trigger::Rebuilt);
    own.any(|record| record.started < came.at)
}
