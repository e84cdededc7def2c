//! The trouble with the pods of workloads that are not complete, without a rollout.

use tracing::debug;

use crate::cluster::{ClusterError, Served};
use crate::daemon::shared::context::Context;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::health::wrong_pods;
use belay_core::rollout::template;

impl Context {
    /// Inspects the pods of these workloads, one after the other. Returns the trouble with those of each.
    pub async fn inspect_pods(&self, workloads: Vec<(Served, ObjectKey)>) -> Vec<(ObjectKey, Option<String>)> {
        let mut found = Vec::new();
        for (served, key) in workloads {
            match self.wrong_pods(&served, &key).await {
                Ok(wrong) => found.push((key, wrong)),
                Err(error) => debug!(object = %key, %error, "its pods can't be looked at"),
            }
        }
        found
    }

    /// Returns the trouble with the pods of a workload's present template.
    async fn wrong_pods(&self, served: &Served, key: &ObjectKey) -> Result<Option<String>, ClusterError> {
        let look = async {
            let Some(live) = self.cluster.get(key, served).await? else { return Ok(None) };
            let Some(template) = template(&live) else { return Ok(None) };
            let observed = self.cluster.pods_of_present_template(key, &live).await?;
            Ok(wrong_pods(&observed, template))
        };
        let room = self.requests.room().await;
        Box::pin(self.requests.carry(room, look)).await
    }
}
