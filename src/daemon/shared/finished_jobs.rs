//! The Jobs that were complete, and the hooks that were deleted then, as the Lease of their source remembers them. It is asked
//! where the history was lost: what is gone leaves nothing else in the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use tokio::sync::Mutex;
use tracing::warn;

use crate::cluster::{Cluster, ClusterError};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::marks;

/// The most Jobs that are remembered: the annotations of an object may take 256 KiB.
const MAX_JOBS: usize = 500;

/// By object, the hash of the manifest that a Job was complete for.
type Finished = BTreeMap<String, String>;

/// The Jobs of one source that were complete.
pub struct FinishedJobs {
    /// The namespace and the name of the source's Lease.
    lease: (String, String),
    /// Those that were read after the history was lost.
    recalled: std::sync::Mutex<Finished>,
    /// Held by the one who writes.
    writing: Mutex<()>,
}

impl FinishedJobs {
    /// Returns those of the source with this Lease; none of them is known yet.
    pub fn new(namespace: &str, name: String) -> FinishedJobs {
        let lease = (namespace.to_owned(), name);
        FinishedJobs { lease, recalled: std::sync::Mutex::default(), writing: Mutex::default() }
    }

    /// Returns the hash of the manifest that a Job was complete for before the history was lost.
    pub fn recalled(&self, key: &ObjectKey) -> Option<String> {
        self.recalled.lock().unwrap_or_else(PoisonError::into_inner).get(&key.to_string()).cloned()
    }

    /// Notes in the Lease that a Job was complete; `jobs` are those that the repository has, with its hooks. Without a
    /// Lease, or if that fails, it is known from the history alone.
    pub async fn remember(&self, cluster: &Cluster, jobs: &BTreeSet<String>, key: &ObjectKey, hash: &str) {
        let _turn = self.writing.lock().await;
        let noted = async {
            let Some(mut finished) = self.read(cluster).await? else { return Ok(()) };
            finished.retain(|name, _| jobs.contains(name));
            while finished.len() >= MAX_JOBS {
                finished.pop_first();
            }
            finished.insert(key.to_string(), hash.to_owned());
            let (namespace, name) = &self.lease;
            cluster.annotate_lease(namespace, name, marks::FINISHED_JOBS, &marks::written(&finished)).await
        };
        if let Err::<(), ClusterError>(error) = noted.await {
            warn!(object = %key, %error, "failed to note in the Lease that the job was complete");
        }
    }

    /// Reads which Jobs were complete before the history was lost.
    pub async fn recall(&self, cluster: &Cluster) {
        match self.read(cluster).await {
            Ok(finished) => {
                *self.recalled.lock().unwrap_or_else(PoisonError::into_inner) = finished.unwrap_or_default();
            }
            Err(error) => {
                warn!(%error, "failed to read from the Lease which jobs were complete: those that are gone may run again")
            }
        }
    }

    /// Returns the Jobs that the Lease names; `None` if there is no Lease.
    async fn read(&self, cluster: &Cluster) -> Result<Option<Finished>, ClusterError> {
        let (namespace, name) = &self.lease;
        let lease = cluster.lease_object(namespace, name).await?;
        Ok(lease.map(|lease| marks::read(&lease, marks::FINISHED_JOBS).unwrap_or_default()))
    }
}
