//! A disagreement with somebody else about an object, and how long belay waits before it puts the object right again.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use belay_core::rollout::ForeignField;

/// The number of corrections of one field that are made at once.
pub const AT_ONCE: u32 = 3;
/// The waits before a correction after that.
pub const WAITS: Backoff = Backoff::between(Duration::from_secs(5), Duration::from_mins(10));

/// The corrections of an object until now, while a disagreement about it lasts or may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastCorrections {
    /// The number of corrections.
    pub times: u32,
    /// The time of the first one.
    pub first: Instant,
}

/// A disagreement about an object, to be reported.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispute {
    /// The fields, with who writes them.
    pub fields: Vec<ForeignField>,
    /// The number of corrections that belay has made.
    pub times: u32,
    /// The time for which it has lasted.
    pub lasted: Duration,
    /// The time until belay corrects them again.
    pub wait: Duration,
}
