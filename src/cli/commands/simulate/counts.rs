//! How many pods there are, of the old version and of the new.

use schemars::JsonSchema;
use serde::Serialize;

/// Which version a pod is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Side {
    Old,
    New,
}

/// How many pods there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodCounts {
    /// Of the old version.
    pub old: SetSize,
    /// Of the new version.
    pub new: SetSize,
    /// Pods that were told to stop and are not gone.
    pub stopping: u64,
}

/// How many pods there are of one version, those that stop left out.
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
    /// All pods but those that stop.
    pub(super) fn pods(&self) -> u64 {
        self.old.pods + self.new.pods
    }

    pub(super) fn available(&self) -> u64 {
        self.old.available + self.new.available
    }

    /// The pods of one version.
    pub(super) fn side(&mut self, side: Side) -> &mut SetSize {
        match side {
            Side::Old => &mut self.old,
            Side::New => &mut self.new,
        }
    }
}
