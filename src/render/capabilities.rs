//! The capabilities of the cluster that a chart is rendered for.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// The time after which the cluster is asked again.
const RENEWED: Duration = Duration::from_mins(10);

/// The content of `.Capabilities` in a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// `v1.36.3`; empty if it is not known.
    pub kube_version: String,
    /// `apps/v1`, `apps/v1/Deployment`.
    pub api_versions: Vec<String>,
}

impl Capabilities {
    /// Returns Helm's arguments for them.
    pub(super) fn arguments(&self) -> impl Iterator<Item = OsString> {
        let version = (!self.kube_version.is_empty()).then(|| format!("--kube-version={}", self.kube_version));
        let apis = (!self.api_versions.is_empty()).then(|| format!("--api-versions={}", self.api_versions.join(",")));
        version.into_iter().chain(apis).map(OsString::from)
    }
}

/// A renderer's knowledge of its cluster.
#[derive(Clone, Debug, Default)]
pub(super) enum KnownCapabilities {
    /// It renders for no cluster: Helm uses its defaults.
    #[default]
    Unasked,
    /// Charts wait until it is known.
    Awaited,
    /// And when they were asked for.
    Known(Arc<Capabilities>, Instant),
}

impl KnownCapabilities {
    pub(super) fn known(&self) -> Option<Arc<Capabilities>> {
        match self {
            KnownCapabilities::Known(capabilities, _) => Some(Arc::clone(capabilities)),
            KnownCapabilities::Unasked | KnownCapabilities::Awaited => None,
        }
    }

    pub(super) fn are_awaited(&self) -> bool {
        matches!(self, KnownCapabilities::Awaited)
    }

    pub(super) fn are_old(&self) -> bool {
        matches!(self, KnownCapabilities::Known(_, asked) if asked.elapsed() > RENEWED)
    }
}
