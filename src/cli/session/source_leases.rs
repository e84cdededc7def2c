//! The Leases of sources: requests to their daemons are written there, and a daemon renews its Lease every few seconds. So
//! Kubernetes decides who may ask, from any machine.

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Mode, Part, Patch, Served};
use crate::daemon::lease_name;
use belay_core::rollout::marks;

/// The Leases of a cluster, as they were read.
pub(in crate::cli) struct SourceLeases<'a> {
    cluster: &'a Cluster,
    served: Served,
    leases: Vec<Value>,
}

impl SourceLeases<'_> {
    pub(in crate::cli) async fn read(cluster: &Cluster) -> anyhow::Result<SourceLeases<'_>> {
        let served = cluster.served("coordination.k8s.io/v1", "Lease").await?;
        let leases = cluster.list(&served, None, "").await.context("failed to find the Lease of the daemon")?;
        Ok(SourceLeases { cluster, served, leases })
    }

    /// Returns the sources that have a Lease.
    pub(in crate::cli) fn sources(&self) -> Vec<&str> {
        let names = self.leases.iter().filter_map(|lease| lease["metadata"]["name"].as_str());
        names.filter_map(|name| name.strip_prefix("belay-").filter(|source| lease_name(source) == name)).collect()
    }

    /// Writes a request on the Lease of a source.
    pub(in crate::cli) async fn annotate(
        &self,
        source: &str,
        annotation: &str,
        request: &impl Serialize,
        mode: Mode,
    ) -> anyhow::Result<()> {
        let name = lease_name(source);
        let lease = self.leases.iter().find(|lease| lease["metadata"]["name"] == name.as_str());
        let lease =
            lease.with_context(|| format!("no daemon follows the source {source}: there is no Lease {name}"))?;
        let annotations = json!({annotation: marks::written(request)});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        self.cluster.patch(&self.served.key_of(lease), &self.served, Part::Whole, &patch, mode).await?;
        Ok(())
    }
}
