//! The differences between a new head and the commit that was planned last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::desired_state::DesiredState;
use crate::history::FetchTimes;
use belay_core::manifest::{Complaint, Manifest, ManifestHash, ObjectKey};
use belay_core::rollout::{Commit, CommitId};

/// The content of a new head.
#[derive(Debug)]
pub struct HeadChange {
    pub head: Arc<Commit>,
    /// The commit that was planned last when it was read: everything here is a change from that.
    pub since: Option<CommitId>,
    /// The content of the repository at the head; at the commit before, if the head is suspect.
    pub desired: Arc<DesiredState>,
    /// The commits that came with it, the head first. None where a branch was set back.
    pub commits: Vec<Commit>,
    /// The paths of files that differ from the commit that was planned last.
    pub paths: BTreeSet<String>,
    /// The manifests that differ from the commit that was planned last, each with the newest commit that changed it.
    pub changed: Vec<Charged>,
    /// Complaints about files that differ, each with the commit that caused it.
    pub complaints: Vec<(Complaint, Arc<Commit>)>,
    /// Objects that the commit planned last had and this one has not, each with the commit that took it away.
    pub removed: BTreeMap<ObjectKey, Charged>,
    /// Warnings about how it is followed, by the path of the file.
    pub warnings: BTreeMap<String, String>,
    /// The reason for which it is suspect, if it is. Then nothing of it was taken up.
    pub suspect: Option<SuspectHead>,
    /// The person who let it through outside of the windows of its source, if one did.
    pub let_through: Option<String>,
    /// The fetch that found it; `None` for one that was kept from before.
    pub fetch: Option<FetchTimes>,
}

impl HeadChange {
    /// Returns the commits to be noted with it: those that came, and if none did, as after a branch was set back, the
    /// head alone.
    pub fn came(&self) -> &[Commit] {
        if self.commits.is_empty() { std::slice::from_ref(&*self.head) } else { &self.commits }
    }
}

/// The kinds of heads that nobody meant to push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspectHead {
    /// It leaves no manifest if there were some.
    Emptied,
    /// It has neither a commit nor a file in common with the former head.
    Replaced,
}

/// A manifest, and the commit that is charged with it.
#[derive(Clone, Debug)]
pub struct Charged {
    pub manifest: Manifest,
    pub commit: Arc<Commit>,
}

/// The objects that a file held, with their hashes, by path.
pub type Known = BTreeMap<String, Vec<(ObjectKey, ManifestHash)>>;
