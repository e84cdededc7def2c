//! Where a rollout is taken up, and how it ended.

use super::telling::Told;
use belay_core::rollout::{Baseline, Outcome, Reason, Replicas};

/// What a workload was seen to be: exactly as it was applied, and complete.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Well {
    /// The live object's digest.
    pub digest: u64,
    /// The hash of the manifest.
    pub hash: String,
    /// What was sent of its replicas.
    pub replicas: Replicas,
}

/// Where a rollout is taken up.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// It begins.
    Fresh,
    /// Somebody else has changed the object: perhaps taken it back by hand, which is respected.
    Drifted,
    /// It was applied before a restart, and is watched since.
    UnderWay(Baseline),
    /// It had failed before a restart, and was on its way back: whether the write that goes back was made.
    GoingBack {
        /// Why it failed.
        reason: Reason,
        /// The baseline of the write that went back; `None` where it was not made, or not known to be.
        went: Option<Baseline>,
    },
    /// Its manifest has left the repository: it is deleted.
    Prune,
}

/// How a rollout ended, and what else its source is to know of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ended {
    pub end: End,
    /// What is to be told of it.
    pub told: Option<Told>,
    /// What it was last.
    pub well: Option<Well>,
}

/// How a rollout ended, for the source that began it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Its record is final.
    Recorded(Outcome),
    /// It was told to stop; its record is open.
    Stopped,
    /// It panicked, which is belay's own fault; its record is open.
    Fault(String),
}
