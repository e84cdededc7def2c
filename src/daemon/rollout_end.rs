//! How a rollout ended.

use super::dispute::Dispute;
use super::queued_events::QueuedEvent;
use belay_core::rollout::{IgnoredFields, Outcome};

/// What a workload was seen to be: exactly as it was applied, and complete.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InSync {
    /// The live object's digest.
    pub digest: u64,
    /// The hash of the manifest.
    pub hash: String,
    /// What was left alone of it.
    pub ignored_fields: IgnoredFields,
}

/// How a rollout ended, and what else its source is to know of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RolloutEnd {
    pub end: End,
    pub findings: Findings,
}

/// What a rollout has found out by its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Findings {
    /// What is to be told of it.
    pub told: Option<QueuedEvent>,
    /// What the object is known to be.
    pub well: Option<InSync>,
    /// What others kept changing meanwhile.
    pub disturbed: Option<Dispute>,
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
