//! The pods of a workload at this moment, of all its revisions, as a page shows them.

use jiff::Timestamp;
use serde_json::Value;

use super::read::selector_text;
use super::{Cluster, ClusterError};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{PodSeen, Workload};

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivePod {
    /// The part that evidence has, too, without logs and messages: values of Secrets may be in them.
    pub seen: PodSeen,
    /// Its phase, `Pending`.
    pub phase: String,
    /// When it was created.
    pub created: Option<Timestamp>,
}

impl Cluster {
    /// Returns the pods of a workload, those with a fault first; none of kinds that select no pods.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn live_pods(&self, key: &ObjectKey, live: &Value) -> Result<Vec<LivePod>, ClusterError> {
        let selector = selector_text(&live["spec"]["selector"]);
        if Workload::of(key).is_none() || selector.is_empty() {
            return Ok(Vec::new());
        }
        let served = self.served("v1", "Pod").await?;
        let pods = self.list(&served, key.namespace.as_deref(), &selector).await?;
        let accounts = self.accounts(&pods, &mut Vec::new()).await;
        let mut told: Vec<_> = accounts.into_iter().zip(&pods).collect();
        told.sort_by(|(one, _), (other, _)| {
            other.fault.cmp(&one.fault).then_with(|| one.seen.name.cmp(&other.seen.name))
        });
        Ok(told.into_iter().map(|(account, pod)| LivePod::of(account.seen, pod)).collect())
    }
}

impl LivePod {
    fn of(mut seen: PodSeen, pod: &Value) -> LivePod {
        seen.message.clear();
        let created = pod["metadata"]["creationTimestamp"].as_str().and_then(|time| time.parse().ok());
        LivePod { seen, phase: pod["status"]["phase"].as_str().unwrap_or("Unknown").to_owned(), created }
    }
}
