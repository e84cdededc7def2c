//! Objects that somebody else has changed and that belay leaves so, as configured, for `belay status`.

use jiff::Timestamp;

use belay_core::manifest::ObjectKey;

/// An object that differs from Git by somebody else's hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drifted {
    /// The object.
    pub object: ObjectKey,
    /// The manager that wrote it.
    pub by: String,
    /// When it was noticed.
    pub since: Timestamp,
}
