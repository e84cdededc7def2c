//! The bounds of the memory.

use jiff::SignedDuration;

/// The bounds of the memory. Records that are beyond either bound are forgotten.
///
/// Never forgotten are records that have not ended, the newest record of each object, and the newest complete rollout of
/// each workload, to which it can go back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The longest time; for ever if it is `None`.
    pub age: Option<SignedDuration>,
    /// The largest number of records; all if it is `None`.
    pub records: Option<u32>,
}
