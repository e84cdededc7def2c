//! A StatefulSet does not replace a pod that never became ready, not even when its template goes back, or on to a newer one:
//! it waits for it. So belay deletes the unready pods of revisions that never were complete while a rollout is watched, and
//! those that crash of revisions that were not well any more.
//! <https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#forced-rollback>

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::cluster::{ClusterError, Served};
use crate::daemon::rollout::rollout_task::RolloutTask;
use crate::daemon::shared::context::Context;
use crate::history::Query;
use belay_core::rollout::health::{Fault, PodAccount, is_ready};
use belay_core::rollout::{CommitId, Outcome, Revision, Wanted, marks, same_template, without_restart};

/// The period between two inspections of the pods.
const EVERY: Duration = Duration::from_secs(5);
/// The waits before a pod is deleted again that is still there, though the API server has answered that it is deleted.
const AGAIN: Backoff = Backoff::between(Duration::from_secs(5), Duration::from_mins(5));

/// The pods that were deleted, by their uids: when each may be deleted again.
type Deleted = BTreeMap<String, (Backoff, Instant)>;

/// Deletes the stuck pods, for as long as it is polled.
pub fn delete_again_and_again(work: &RolloutTask) -> BoxFuture<'static, Infallible> {
    let (context, wanted, served) = (Arc::clone(&work.context), work.planned.wanted.clone(), work.served.clone());
    let look_again_and_again = async move {
        let mut deleted = Deleted::new();
        loop {
            // Its controller must have seen the template that it has now, or it would make the same pod again.
            tokio::time::sleep(EVERY).await;
            // Those that are gone are not looked at again.
            deleted.retain(|_, (_, again)| *again + 2 * EVERY > Instant::now());
            if let Err(error) = once(&context, &wanted, &served, &mut deleted).await {
                warn!(object = %wanted.key, %error, "failed to look at the pods of revisions that were not complete");
            }
        }
    };
    look_again_and_again.boxed()
}

async fn once(context: &Context, wanted: &Wanted, served: &Served, deleted: &mut Deleted) -> Result<(), ClusterError> {
    let Some(live) = context.cluster.get(&wanted.key, served).await? else { return Ok(()) };
    if marks::annotation(&live, marks::SUSPEND).is_some() {
        return Ok(());
    }
    let status = &live["status"];
    let seen = status["observedGeneration"].as_i64().unwrap_or_default();
    let (updated, count) = (status["updatedReplicas"].as_i64(), status["replicas"].as_i64());
    if seen < marks::generation(&live) || updated == count {
        return Ok(());
    }
    for revision in context.cluster.revisions(&wanted.key, &live).await? {
        // The revision that it is on its way to is never meant.
        if status["updateRevision"] == revision.name.as_str() {
            continue;
        }
        let Some(known) = standing(context, wanted, &revision) else { continue };
        if known == RevisionStanding::Complete {
            continue;
        }
        let mut pods = context.cluster.pods_of_revision(&wanted.key, &live, &revision.name).await?;
        pods.retain(|pod| !is_ready(pod) && pod["metadata"].get("deletionTimestamp").is_none());
        let pods = match known {
            RevisionStanding::Unwell => context.cluster.pods_that(pods, has_crashed).await,
            RevisionStanding::Nothing => context.cluster.pods_that(pods, |pod| pod.fault.blames_the_commit()).await,
            RevisionStanding::Failed | RevisionStanding::Complete => pods,
        };
        for pod in &pods {
            delete(context, wanted, pod, deleted).await?;
        }
    }
    Ok(())
}

/// Deletes a pod, unless it was deleted a short time before.
async fn delete(context: &Context, wanted: &Wanted, pod: &Value, deleted: &mut Deleted) -> Result<(), ClusterError> {
    let now = Instant::now();
    let name = pod["metadata"]["name"].as_str();
    match deleted.get_mut(marks::uid(pod)) {
        Some((_, again)) if *again > now => return Ok(()),
        Some((waits, again)) => *again = now + waits.wait(),
        None => {
            let mut waits = AGAIN;
            let again = now + waits.wait();
            deleted.insert(marks::uid(pod).to_owned(), (waits, again));
        }
    }
    context.cluster.delete_pod(pod).await?;
    info!(object = %wanted.key, pod = name, "deleted a stuck pod of a revision that was not complete, or crashes");
    Ok(())
}

/// Returns true when a container of a pod has ended by itself: the pod holds nothing that its next start would not lose, too.
fn has_crashed(pod: &PodAccount) -> bool {
    pod.fault == Fault::Commit && pod.seen.exit_code.is_some()
}

/// The end of a commit's rollout, as far as the history knows.
#[derive(PartialEq, Eq)]
enum RevisionStanding {
    /// It was complete once: its pods may hold the data of a revision that was fine.
    Complete,
    /// It was complete once, and was not well when it was replaced.
    Unwell,
    /// It did not end well: its pods that are not ready never will be.
    Failed,
    /// Nothing, perhaps because the history was lost: a pod that does not start now may be starting slowly, but not one
    /// that can't start.
    Nothing,
}

/// Returns the standing of a revision; `None` for one that names no commit.
fn standing(context: &Context, wanted: &Wanted, revision: &Revision) -> Option<RevisionStanding> {
    let commit = revision.marks.commit()?;
    let query = Query { commit: Some(commit.to_string()), ..Query::of(&context.config.name, &wanted.key) };
    let records = context.history.records(&query).unwrap_or_else(|error| {
        warn!(object = %wanted.key, %error, "failed to ask the history how a revision ended");
        Vec::new()
    });
    let ended: Vec<Outcome> = records.iter().map(|record| record.outcome).collect();
    let was_complete = ended.contains(&Outcome::Complete);
    if was_complete && is_the_commits(context, wanted, &commit, revision) {
        let is_unwell = context.unwell(&wanted.key).has(&revision.marks);
        return Some(if is_unwell { RevisionStanding::Unwell } else { RevisionStanding::Complete });
    }
    let is_unknown = was_complete || ended.iter().all(|outcome| *outcome == Outcome::Unknown);
    Some(if is_unknown { RevisionStanding::Nothing } else { RevisionStanding::Failed })
}

/// Returns true unless a revision is known to have another template than its commit had when it was complete. The
/// revision of a change by others has the marks of the commit before it.
fn is_the_commits(context: &Context, wanted: &Wanted, commit: &CommitId, revision: &Revision) -> bool {
    let kept = context.history.template(&context.config.name, &wanted.key, commit).unwrap_or_else(|error| {
        warn!(object = %wanted.key, %error, "failed to ask the history for the template of a commit");
        None
    });
    let present = without_restart(&revision.template);
    kept.is_none_or(|kept| same_template(&without_restart(&kept), &present))
}
