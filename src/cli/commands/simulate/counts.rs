//! The numbers of pods, of the old version and of the new.

use schemars::JsonSchema;
use serde::Serialize;

/// The version of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Side {
    Old,
    New,
}

/// The numbers of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodCounts {
    /// The pods of the old version.
    pub old: SetSize,
    /// The pods of the new version.
    pub new: SetSize,
    /// Pods that are being deleted and are not gone.
    pub stopping: u64,
}

/// The number of pods of one version, those that stop left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct SetSize {
    /// All of them.
    pub pods: u64,
    /// Those that are ready.
    pub ready: u64,
    /// Those that are available.
    pub available: u64,
}

impl PodCounts {
    /// Returns all pods but those that stop.
    pub(super) fn pods(&self) -> u64 {
        self.old.pods + self.new.pods
    }

    pub(super) fn available(&self) -> u64 {
        self.old.available + self.new.available
    }

    /// Returns the pods of one version.
    pub(super) fn side(&mut self, side: Side) -> &mut SetSize {
        match side {
            Side::Old => &mut self.old,
            Side::New => &mut self.new,
        }
    }
}
