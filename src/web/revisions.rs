//! The pods of each revision of a workload, asked of its cluster: a few questions at once, and not for long.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::Room;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{RevisionPods, Workload};

/// How many may be asked at once.
const AT_ONCE: usize = 4;
/// How long a page waits for it.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The room for questions.
pub(super) fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(AT_ONCE))
}

impl Room {
    /// The pods of each revision, the newest first; where they can't be told, why.
    pub(super) async fn revisions(&self, source: &str, key: &ObjectKey) -> Result<Vec<RevisionPods>, String> {
        let api_version = match Workload::of(key) {
            Some(Workload::Deployment | Workload::StatefulSet | Workload::DaemonSet) => "apps/v1",
            _ => return Ok(Vec::new()),
        };
        let Some(cluster) = self.shown.clusters.get(source) else { return Err("the cluster is not known".to_owned()) };
        let asked = async {
            let _room = self.asking.acquire().await;
            let served = cluster.served(api_version, &key.kind).await?;
            match cluster.get(key, &served).await? {
                Some(live) => cluster.revision_pods(key, &live).await,
                None => Ok(Vec::new()),
            }
        };
        match tokio::time::timeout(READ_TIMEOUT, asked).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the cluster did not answer within {READ_TIMEOUT:?}")),
        }
    }
}
