//! A StatefulSet does not replace a pod that never became ready, not even when its template goes back: it waits for it.
//! So belay deletes the unready pods of the failed revision while the way back is watched.
//! <https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#forced-rollback>

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tracing::{info, warn};

use super::context::Context;
use crate::cluster::{ClusterError, Served};
use crate::rollout::{Wanted, Workload, marks};

/// How often the pods are looked at.
const EVERY: Duration = Duration::from_secs(5);

/// Deletes the stuck pods of a failed revision, for as long as it is polled. Does nothing for other kinds.
pub(super) async fn failed_pods(context: Arc<Context>, wanted: Wanted, served: Served) -> Infallible {
    if Workload::of(&wanted.key) != Some(Workload::StatefulSet) {
        return std::future::pending().await;
    }
    loop {
        // Its controller must have seen the template that it went back to, or it would make the same pod again.
        tokio::time::sleep(EVERY).await;
        if let Err(error) = once(&context, &wanted, &served).await {
            warn!(object = %wanted.key, %error, "failed to look at the pods of the failed revision");
        }
    }
}

async fn once(context: &Context, wanted: &Wanted, served: &Served) -> Result<(), ClusterError> {
    let Some(live) = context.cluster.get(&wanted.key, served).await? else { return Ok(()) };
    let seen = live["status"]["observedGeneration"].as_i64().unwrap_or_default();
    if seen < marks::generation(&live) {
        return Ok(());
    }
    let failed = context.cluster.failed_revision(&wanted.key, &live, &wanted.commit.id).await?;
    // The revision that it is on its way to is never the failed one.
    let Some(failed) = failed.filter(|failed| live["status"]["updateRevision"] != failed.as_str()) else {
        return Ok(());
    };
    for pod in context.cluster.pods_of_revision(&wanted.key, &live, &failed).await? {
        if is_ready(&pod) || pod["metadata"].get("deletionTimestamp").is_some() {
            continue;
        }
        context.cluster.delete_pod(&pod).await?;
        info!(object = %wanted.key, pod = pod["metadata"]["name"].as_str(), "deleted a stuck pod of the failed revision");
    }
    Ok(())
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.clone().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
