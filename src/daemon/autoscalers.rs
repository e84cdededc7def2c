//! The HorizontalPodAutoscalers of the cluster, wherever they come from: what they scale, belay does not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tracing::debug;

use super::source::Source;
use crate::cluster::{Cluster, ClusterError, Seen};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Wanted, scaled_by};

/// How long a plan waits until the autoscalers of the cluster are known.
const SYNC_TIMEOUT: Duration = Duration::from_secs(5);

/// The kind that they are asked for in.
pub(super) const API_VERSION: &str = "autoscaling/v2";
/// What they are called.
pub(super) const KIND: &str = "HorizontalPodAutoscaler";

/// What the cluster's autoscalers scale. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Autoscalers {
    targets: Arc<Mutex<BTreeMap<ObjectKey, ObjectKey>>>,
    known: watch::Sender<bool>,
}

impl Default for Autoscalers {
    fn default() -> Autoscalers {
        Autoscalers { targets: Arc::default(), known: watch::Sender::new(false) }
    }
}

impl Autoscalers {
    /// Whether one of them scales this object.
    pub(super) fn scale(&self, key: &ObjectKey) -> bool {
        self.targets().values().any(|target| target == key)
    }

    /// The one that scales this object.
    pub(super) fn of(&self, key: &ObjectKey) -> Option<ObjectKey> {
        self.targets().iter().find(|(_, target)| *target == key).map(|(autoscaler, _)| autoscaler.clone())
    }

    /// Leaves the replicas of what they scale to them.
    pub(super) fn take_their_part(&self, wanted: &mut [Wanted]) {
        let targets = self.targets();
        let is_scaled = |wanted: &&mut Wanted| targets.values().any(|target| *target == wanted.key);
        for wanted in wanted.iter_mut().filter(is_scaled) {
            wanted.left_alone = std::mem::take(&mut wanted.left_alone).and_replicas();
        }
    }

    /// Reads them once, without a daemon: those of the cluster, as far as belay may see them, and those among these manifests.
    ///
    /// # Errors
    /// Where the API server does not answer.
    pub(super) async fn read(cluster: &Cluster, wanted: &[Wanted]) -> Result<Autoscalers, ClusterError> {
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
    pub(super) async fn known(&self) {
        let mut known = self.known.subscribe();
        // The sender lives as long as this does.
        let _ = tokio::time::timeout(SYNC_TIMEOUT, known.wait_for(|known| *known)).await;
    }

    fn targets(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, ObjectKey>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source {
    /// Hears of the cluster's autoscalers. An object that is scaled from now on, or no longer, is looked at.
    pub(super) fn saw_autoscaler(&mut self, seen: Seen) {
        let autoscalers = self.context.autoscalers.clone();
        let touched = match seen {
            Seen::Live(key, object) => match scaled_by(&key, &object) {
                Some(target) => {
                    let before = autoscalers.targets().insert(key, target.clone());
                    if before.as_ref() == Some(&target) { Vec::new() } else { vec![Some(target), before] }
                }
                None => vec![autoscalers.targets().remove(&key)],
            },
            Seen::Gone(key) => vec![autoscalers.targets().remove(&key)],
            Seen::Synced(_) => {
                autoscalers.known.send_replace(true);
                Vec::new()
            }
            Seen::Denied(_, None) | Seen::Trouble(_, None) => Vec::new(),
            Seen::Trouble(_, Some(message)) | Seen::Denied(_, Some(message)) => {
                // Without them replicas are as the manifests say; the watch goes on trying.
                debug!(message, "the autoscalers of the cluster are not known");
                autoscalers.known.send_replace(true);
                Vec::new()
            }
        };
        for key in touched.into_iter().flatten() {
            if self.planning.planned.is_some()
                && self.desired().has(&key)
                && !self.rollouts.under_way.contains_key(&key)
            {
                self.drift.recheck_after(key, Duration::ZERO);
            }
        }
    }
}
