//! The timeline of a source: one head at a time, the newest first, with its outcome.

use std::collections::BTreeMap;

use jiff::Timestamp;

use belay_core::rollout::{CommitId, Outcome};

/// A head that a source turned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineEntry {
    /// Its number: larger for a later one.
    pub number: i64,
    /// The source.
    pub source: String,
    /// The head.
    pub head: CommitId,
    /// When it was planned.
    pub begun: Timestamp,
    /// When all of it was through for the first time; `None` while it is not.
    pub ended: Option<Timestamp>,
    /// The outcomes of the manifests, by the commits that are charged with them: each object once, by its last outcome,
    /// even if a newer head was there by then. The head's is there also if nothing changed.
    pub commits: BTreeMap<CommitId, BTreeMap<Outcome, u64>>,
    /// True when the head brought back manifests of earlier commits, which count in their lines.
    pub brings_back: bool,
    /// True when records of the head itself are no longer kept.
    pub forgotten: bool,
}

impl TimelineEntry {
    /// Adds objects with an outcome that are charged to a commit.
    pub(in crate::history) fn count(&mut self, commit: CommitId, outcome: Outcome, objects: u64) {
        *self.commits.entry(commit).or_default().entry(outcome).or_default() += objects;
    }
}
