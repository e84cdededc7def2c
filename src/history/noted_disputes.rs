//! The disagreements of a source as they were known last, so that they last after a restart.

use std::time::Duration;

use jiff::Timestamp;

use belay_core::rollout::ForeignField;

/// A disagreement with somebody else about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedDispute {
    /// The fields, with who writes them.
    pub fields: Vec<ForeignField>,
    /// The number of corrections.
    pub times: u32,
    /// The time of the first correction.
    pub first: Timestamp,
    /// The time of the last one.
    pub last: Timestamp,
    /// The time between the last two.
    pub gap: Duration,
}
