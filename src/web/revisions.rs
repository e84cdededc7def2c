//! A live workload, its pods and those of each revision, asked of its cluster: a few questions at once, and not for long.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

use super::Room;
use crate::cluster::{ClusterError, LivePod};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{RevisionPods, Workload};

/// The number of questions at once.
const AT_ONCE: usize = 4;
/// The time for which a page waits for it.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the room for questions.
pub(super) fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(AT_ONCE))
}

/// A live workload and its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkloadPods {
    /// The pods of each revision, the newest first.
    pub revisions: Vec<RevisionPods>,
    /// The pods, those with a fault first.
    pub pods: Vec<LivePod>,
    /// The workload itself; null if it is gone.
    pub live: Value,
}

impl Room {
    /// Returns the pods of a workload; if they can't be read, the reason.
    pub(super) async fn workload_pods(&self, source: &str, key: &ObjectKey) -> Result<WorkloadPods, String> {
        let (api_version, has_revisions) = match Workload::of(key) {
            Some(Workload::Deployment | Workload::StatefulSet | Workload::DaemonSet) => ("apps/v1", true),
            Some(Workload::ReplicationController) => ("v1", false),
            Some(Workload::Job) => ("batch/v1", false),
            _ => return Ok(WorkloadPods::default()),
        };
        let sources = self.shown.sources();
        let Some(cluster) = sources.clusters.get(source) else { return Err("the cluster is not known".to_owned()) };
        let asked = async {
            let _room = self.asking.acquire().await;
            let served = cluster.served(api_version, &key.kind).await?;
            let Some(live) = cluster.get(key, &served).await? else { return Ok(WorkloadPods::default()) };
            let revisions = if has_revisions { cluster.revision_pods(key, &live).await? } else { Vec::new() };
            let pods = cluster.live_pods(key, &live).await?;
            Ok::<_, ClusterError>(WorkloadPods { revisions, pods, live })
        };
        match tokio::time::timeout(READ_TIMEOUT, asked).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the cluster did not answer within {READ_TIMEOUT:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::cluster::Cluster;
    use crate::daemon::Status;
    use crate::telemetry::Metrics;
    use crate::web::{Shown, ShownSources};

    #[tokio::test(start_paused = true)]
    async fn a_page_does_not_wait_for_a_cluster_that_does_not_answer() {
        let mute = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
        });
        let clock = Clock::tokio(jiff::Timestamp::UNIX_EPOCH);
        let cluster = Cluster::new(kube::Client::new(mute, "default"), clock.clone());
        let (_daemon, status) = tokio::sync::watch::channel(Status::default());
        let room = Room::new(Shown {
            status,
            metrics: Metrics::default(),
            state: std::path::PathBuf::new(),
            history: crate::history::HistoryLocation::in_folder(""),
            sources: ShownSources { clusters: [("shop".to_owned(), cluster)].into(), ..ShownSources::default() }
                .shown()
                .1,
            clock,
        });
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        };
        let began = tokio::time::Instant::now();
        let why = room.workload_pods("shop", &key).await.unwrap_err();
        assert!(why.contains("did not answer within 5s") && began.elapsed() < 2 * READ_TIMEOUT, "{why}");
    }
}
