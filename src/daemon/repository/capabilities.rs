//! Charts are rendered for the cluster that is followed: they wait until its version and its kinds are known.

use tracing::{info, warn};

use super::source_repository::Repository;
use crate::cluster::{Backoff, ClusterError, Discovered};
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::shared::context::Context;
use crate::git::GitError;
use crate::render::Capabilities;
use belay_core::rollout::CommitId;

impl Repository {
    /// Returns true when a commit has a chart and the cluster's capabilities are not known yet.
    pub fn waits_for_capabilities(&self, at: &CommitId) -> Result<bool, GitError> {
        Ok(self.units.renderer.awaits_capabilities() && self.plan_at(at)?.has_charts())
    }
}

impl Context {
    /// Asks the cluster for its capabilities, until it answers. If belay may not ask, charts are rendered with the
    /// capabilities that Helm assumes.
    pub async fn ask_for_capabilities(&self) {
        let say = |error: &ClusterError| self.status.trouble(&Obstacle::Cluster, Some(error.to_string()));
        let ask = || async {
            match self.cluster.discover().await {
                Err(denied @ ClusterError::Denied { .. }) => Ok(Err(denied)),
                told => told.map(Ok),
            }
        };
        let discovered = Backoff::retry(say, ask).await.and_then(|told| told);
        self.status.trouble(&Obstacle::Cluster, None);
        let discovered = discovered.unwrap_or_else(|error| {
            warn!(%error, "charts are rendered for the version and the kinds that helm assumes");
            Discovered::default()
        });
        self.repository.units.set_capabilities(capabilities(discovered));
    }

    /// Asks it again after a while: it may have been upgraded, and definitions come and go.
    pub async fn renew_capabilities(&self) {
        if !self.repository.units.renderer.are_capabilities_old() {
            return;
        }
        match self.cluster.discover().await {
            Ok(discovered) => self.repository.units.set_capabilities(capabilities(discovered)),
            Err(error) => info!(%error, "failed to ask the cluster again what it can do; charts stay as they are"),
        }
    }
}

/// Returns the capabilities of a cluster that a chart sees.
pub(crate) fn capabilities(discovered: Discovered) -> Capabilities {
    Capabilities { kube_version: discovered.version, api_versions: discovered.api_versions }
}
