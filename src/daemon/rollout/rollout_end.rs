//! The end of a rollout.

use crate::daemon::publish::dispute::Dispute;
use crate::daemon::publish::queued_events::QueuedEvent;
use belay_core::rollout::{IgnoredFields, Outcome};

/// The digest of a workload that was exactly as it was applied, and complete.
#[derive(Clone, Debug, PartialEq)]
pub struct InSync {
    /// The live object's digest.
    pub digest: u64,
    /// The hash of the manifest.
    pub hash: String,
    /// The fields of it that were left alone.
    pub ignored_fields: IgnoredFields,
}

/// The end of a rollout, and its other results for its source.
#[derive(Clone, Debug, PartialEq)]
pub struct RolloutEnd {
    pub end: End,
    pub findings: Findings,
}

/// The findings of a rollout by its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The Event about it.
    pub told: Option<QueuedEvent>,
    /// The digest of the object in sync.
    pub well: Option<InSync>,
    /// The fields that others kept changing meanwhile.
    pub disturbed: Option<Dispute>,
}

/// The end of a rollout, for the source that began it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Its record is final.
    Recorded(Outcome),
    /// It was cancelled; its record is open.
    Stopped,
    /// It panicked, which is belay's own fault; its record is open.
    Fault(String),
}
