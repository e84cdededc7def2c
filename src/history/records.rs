//! The questions of people and of the daemon: records by commit, workload, author, time and outcome.

use std::collections::BTreeSet;

use jiff::Timestamp;

use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Outcome, RecordId};

/// The outcomes that are failures.
pub const FAILED: [Outcome; 4] = [Outcome::Failed, Outcome::RolledBack, Outcome::RollbackFailed, Outcome::Rejected];

/// A query of records: those that fit all conditions, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only records of this source.
    pub source: Option<String>,
    /// Only records of objects with this name.
    pub name: Option<String>,
    /// Only records of objects of this kind. Only together with a name or a commit is this found without reading all
    /// records.
    pub kind: Option<String>,
    /// Only records of objects in this namespace.
    pub namespace: Option<String>,
    /// Charged to commits that begin with these digits.
    pub commit: Option<String>,
    /// Only records of commits by people in whose name or address this stands, in upper or lower case.
    pub author: Option<String>,
    /// Taken up at this time or later.
    pub since: Option<Timestamp>,
    /// Taken up before this time.
    pub until: Option<Timestamp>,
    /// With one of these outcomes; with any where it is empty.
    pub outcomes: BTreeSet<Outcome>,
    /// Only changes of belay, or of a person in its place: neither a restart by hand nor an autoscaler's scaling.
    pub own: bool,
    /// Older than this record: for the next page.
    pub older_than: Option<RecordId>,
    /// The largest number of records; all if it is `None`.
    pub limit: Option<u32>,
}

impl Query {
    /// Returns the records of an object in a source, as far as they have its wanted state.
    #[must_use]
    pub fn of(source: &str, object: &ObjectKey) -> Query {
        Query {
            source: Some(source.to_owned()),
            name: Some(object.name.clone()),
            kind: Some(object.kind.clone()),
            namespace: object.namespace.clone(),
            own: true,
            ..Query::default()
        }
    }
}

/// The heads that a source has had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heads {
    /// The newest head whose plan was written down.
    pub recorded: Option<CommitId>,
    /// The newest head whose plan was carried out to its end.
    pub finished: Option<CommitId>,
}

/// The arrival of a commit at a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The source.
    pub source: String,
    /// The head that it came with; when that is another commit, it was skipped for it.
    pub head: CommitId,
    /// When its head was planned.
    pub at: Timestamp,
    /// The fetch that found the head, if that is known.
    pub fetch: Option<FetchTimes>,
}

/// The times of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchTimes {
    /// When it began.
    pub began: Timestamp,
    /// When it had ended.
    pub ended: Timestamp,
}

/// The commit that some digits mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// This one.
    One(CommitId),
    /// Several begin so; the first few, by id.
    Several(Vec<CommitId>),
    /// None that belay has seen.
    None,
}
