//! A StatefulSet does not replace a pod that never became ready, not even when its template goes back, or on to a newer one:
//! it waits for it. So belay deletes the unready pods of revisions that never were complete while a rollout is watched.
//! <https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#forced-rollback>

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use tracing::{info, warn};

use super::context::Context;
use super::roll_out::Work;
use crate::cluster::{ClusterError, Served};
use crate::history::Query;
use crate::rollout::{Outcome, Wanted, Workload, marks};

/// How often the pods are looked at.
const EVERY: Duration = Duration::from_secs(5);

/// Deletes the stuck pods of revisions that never were complete, for as long as it is polled. Does nothing for other kinds.
pub(super) fn failed_pods(work: &Work) -> BoxFuture<'static, Infallible> {
    let wanted = &work.planned.wanted;
    if Workload::of(&wanted.key) != Some(Workload::StatefulSet) {
        return std::future::pending().boxed();
    }
    let (context, wanted, served) = (Arc::clone(&work.context), wanted.clone(), work.served.clone());
    let look_again_and_again = async move {
        loop {
            // Its controller must have seen the template that it has now, or it would make the same pod again.
            tokio::time::sleep(EVERY).await;
            if let Err(error) = once(&context, &wanted, &served).await {
                warn!(object = %wanted.key, %error, "failed to look at the pods of revisions that were not complete");
            }
        }
    };
    look_again_and_again.boxed()
}

async fn once(context: &Context, wanted: &Wanted, served: &Served) -> Result<(), ClusterError> {
    let Some(live) = context.cluster.get(&wanted.key, served).await? else { return Ok(()) };
    let status = &live["status"];
    let seen = status["observedGeneration"].as_i64().unwrap_or_default();
    let (updated, count) = (status["updatedReplicas"].as_i64(), status["replicas"].as_i64());
    if seen < marks::generation(&live) || updated == count {
        return Ok(());
    }
    for revision in context.cluster.revisions(&wanted.key, &live).await? {
        // The revision that it is on its way to is never meant.
        let present = status["updateRevision"] == revision.name.as_str();
        if present || !revision.marks.commit.is_some_and(|commit| was_never_complete(context, wanted, &commit)) {
            continue;
        }
        for pod in context.cluster.pods_of_revision(&wanted.key, &live, &revision.name).await? {
            if is_ready(&pod) || pod["metadata"].get("deletionTimestamp").is_some() {
                continue;
            }
            context.cluster.delete_pod(&pod).await?;
            let pod = pod["metadata"]["name"].as_str();
            info!(object = %wanted.key, pod, "deleted a stuck pod of a revision that never was complete");
        }
    }
    Ok(())
}

/// Whether the history knows that a commit's rollout of this workload did not end well. What it does not know of may hold
/// the data of a revision that was fine.
fn was_never_complete(context: &Context, wanted: &Wanted, commit: &str) -> bool {
    let query = Query { commit: Some(commit.to_owned()), ..Query::of(&context.config.name, &wanted.key) };
    let records = context.history.records(&query).unwrap_or_else(|error| {
        warn!(object = %wanted.key, %error, "failed to ask the history how a revision ended");
        Vec::new()
    });
    !records.is_empty() && records.iter().all(|record| record.outcome != Outcome::Complete)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.clone().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
