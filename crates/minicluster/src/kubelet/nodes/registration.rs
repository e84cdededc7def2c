//! Registration of a node, and renewal of its lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

use super::spec::{self, NodeSpec, SpecPlace};
use crate::Clock;
use crate::kubelet::requests::{Error, Requests};

/// The namespace of the leases.
const LEASES: &str = "kube-node-lease";
/// The taint that the API server puts on every new node until something says that it is ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Registers a node, or brings one of that name up to date.
///
/// # Errors
/// Fails with the API server's refusal.
pub async fn register(requests: &Requests, spec: &NodeSpec, place: &SpecPlace, clock: &Clock) -> Result<(), Error> {
    let now = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let object = spec::object(spec, place, &now).map_err(|error| Error::Refused(kube::Error::SerdeError(error)))?;
    let stored = match requests.create_node(&object).await {
        Err(error) if error.code() == Some(409) => {
            let labels = json!({"metadata": {"labels": object.metadata.labels}});
            let stored = requests.patch_node(&spec.name, &labels).await?;
            requests.patch_node_status(&spec.name, &spec::status(spec, place, &now)).await?;
            stored
        }
        stored => stored?,
    };
    if stored.status.as_ref().is_none_or(|status| status.conditions.is_none()) {
        requests.patch_node_status(&spec.name, &spec::status(spec, place, &now)).await?;
    }
    // If nothing else follows the nodes' conditions, nothing else would take this taint away.
    let taints = stored.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let (not_ready, left): (Vec<_>, Vec<_>) = taints.into_iter().partition(|taint| taint.key == NOT_READY);
    if !not_ready.is_empty() {
        requests.patch_node(&spec.name, &json!({"spec": {"taints": left}})).await?;
    }
    Ok(())
}

/// Renews a node's lease, which is made if there is none.
///
/// # Errors
/// Fails with the API server's refusal.
pub async fn heartbeat(requests: &Requests, node: &str, every: Duration, clock: &Clock) -> Result<(), Error> {
    let renewed = clock.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let patch = json!({"spec": {"renewTime": renewed}});
    match requests.patch_lease(node, &patch).await {
        Err(error) if error.code() == Some(404) => {}
        answer => return answer,
    }
    // A lease lasts four times as long as it takes to renew it, as 40 s and 10 s.
    let lasts = every.as_secs().saturating_mul(4).clamp(1, i32::MAX as u64);
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": node, "namespace": LEASES},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": lasts, "renewTime": renewed},
    }))
    .map_err(|error| Error::Refused(kube::Error::SerdeError(error)))?;
    match requests.create_lease(&lease).await {
        Err(error) if error.code() == Some(404) => {
            requests.create_namespace(LEASES).await?;
            requests.create_lease(&lease).await
        }
        answer => answer,
    }
}
