//! A step of a canary of a DaemonSet: belay deletes the old pods of its nodes, one after the other, and the controller makes the
//! new ones.

use serde_json::Value;
use tracing::info;

use crate::cluster::ClusterError;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use belay_core::rollout::canary::{CanaryLock, next_replaced};

impl RolloutTask {
    /// Deletes the old pods of the nodes that are next, where nobody else replaces them.
    pub async fn replace_on_nodes(
        &self,
        live: &Value,
        lock: &CanaryLock,
    ) -> Result<Result<(), ClusterError>, Cancelled> {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        if !lock.replaces_pods_of(live) {
            return Ok(Ok(()));
        }
        let ask = async {
            let _room = context.requests.room().await;
            context.cluster.daemon_pods(key, live).await
        };
        // Without the right for it, a step is still to be aborted.
        let pods = match self.unless_cancelled(ask).await? {
            Ok(pods) => pods,
            Err(error) => return Ok(Err(error)),
        };
        for pod in next_replaced(lock, live, &pods, context.clock.now()) {
            if let Err(error) = self.unless_cancelled(context.cluster.delete_pod(pod)).await? {
                return Ok(Err(error));
            }
            let (pod, node) = (pod["metadata"]["name"].as_str(), pod["spec"]["nodeName"].as_str());
            info!(object = %key, pod, node, "deleted the old pod of a node of the canary");
        }
        Ok(Ok(()))
    }
}
