//! The HorizontalPodAutoscalers of the cluster, of all origins: they scale their targets, and belay does not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::cluster::{Cluster, ClusterError};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Wanted, scaled_by};

/// The longest time that a plan waits until the autoscalers of the cluster are known.
const SYNC_TIMEOUT: Duration = Duration::from_secs(5);

/// The kind that they are asked for in.
pub const API_VERSION: &str = "autoscaling/v2";
/// The kind of an autoscaler.
pub const KIND: &str = "HorizontalPodAutoscaler";

/// The targets of the cluster's autoscalers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Autoscalers {
    targets: Arc<Mutex<BTreeMap<ObjectKey, ObjectKey>>>,
    pub known: watch::Sender<bool>,
}

impl Default for Autoscalers {
    fn default() -> Autoscalers {
        Autoscalers { targets: Arc::default(), known: watch::Sender::new(false) }
    }
}

impl Autoscalers {
    /// Returns true when an autoscaler scales this object.
    pub fn scale(&self, key: &ObjectKey) -> bool {
        self.targets().values().any(|target| target == key)
    }

    /// Returns the one that scales this object.
    pub fn of(&self, key: &ObjectKey) -> Option<ObjectKey> {
        self.targets().iter().find(|(_, target)| *target == key).map(|(autoscaler, _)| autoscaler.clone())
    }

    /// Leaves the replicas of the autoscalers' targets to them.
    pub fn take_their_part(&self, wanted: &mut [Wanted]) {
        let targets = self.targets();
        let is_scaled = |wanted: &&mut Wanted| targets.values().any(|target| *target == wanted.key);
        for wanted in wanted.iter_mut().filter(is_scaled) {
            wanted.ignored_fields = std::mem::take(&mut wanted.ignored_fields).and_replicas();
        }
    }

    /// Reads them once, without a daemon: those of the cluster, as far as belay may see them, and those among these manifests.
    ///
    /// # Errors
    /// Fails when the API server does not answer.
    pub async fn read(cluster: &Cluster, wanted: &[Wanted]) -> Result<Autoscalers, ClusterError> {
        let autoscalers = Autoscalers::default();
        let pairs = wanted.iter().filter_map(|wanted| {
            let target = scaled_by(&wanted.key, &wanted.manifest.value())?;
            Some((wanted.key.clone(), target))
        });
        autoscalers.targets().extend(pairs);
        let mut namespaces: Vec<Option<&str>> = wanted.iter().map(|wanted| wanted.key.namespace.as_deref()).collect();
        namespaces.dedup();
        let one = if let [one] = namespaces.as_slice() { *one } else { None };
        let listed = match cluster.served(API_VERSION, KIND).await {
            Ok(served) => cluster.list(&served, one, "").await.map(|all| (served, all)),
            Err(error) => Err(error),
        };
        match listed {
            Ok((served, all)) => {
                let pairs = all.iter().filter_map(|one| {
                    let key = served.key_of(one);
                    Some((key.clone(), scaled_by(&key, one)?))
                });
                autoscalers.targets().extend(pairs);
                Ok(autoscalers)
            }
            Err(away @ ClusterError::Away { .. }) => Err(away),
            // Without them replicas are as the manifests say.
            Err(_) => Ok(autoscalers),
        }
    }

    /// Waits until they are known; not for long, for belay may not be allowed to see them.
    pub async fn known(&self) {
        let mut known = self.known.subscribe();
        // The sender lives as long as this does.
        let _ = tokio::time::timeout(SYNC_TIMEOUT, known.wait_for(|known| *known)).await;
    }

    pub fn targets(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, ObjectKey>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
