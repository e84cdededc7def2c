//! The notices of lasting conditions: sources that are blocked, and holds. The daemon decides when one has lasted long
//! enough.

use std::collections::BTreeMap;

use jiff::Timestamp;

use belay_core::rollout::CommitId;

/// A lasting trouble of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lasting {
    /// The source.
    pub source: String,
    /// The time of its beginning.
    pub since: Timestamp,
    /// Its kind.
    pub what: LastingKind,
}

/// The kind of a lasting trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastingKind {
    /// The source is blocked, and why.
    Blocked(String),
    /// It no longer is.
    Unblocked,
    /// The manifest of this commit is held.
    Held(CommitId),
    /// Somebody else and belay disagree about an object; with the explanation.
    Disagreement(String, String),
}

/// The last notes of lasting trouble.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotedLasting {
    /// The sources that were blocked.
    pub blocked: BTreeMap<String, Timestamp>,
    /// When a hold was noted last, by source and commit.
    pub held: BTreeMap<(String, CommitId), Timestamp>,
    /// When a disagreement was noted last, by source and object.
    pub disagreements: BTreeMap<(String, String), Timestamp>,
}
