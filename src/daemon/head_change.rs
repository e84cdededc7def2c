//! What a new head says, against what was planned last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::desired_state::DesiredState;
use belay_core::manifest::{Complaint, Manifest, ManifestHash, ObjectKey};
use belay_core::rollout::Commit;

/// What a new head says.
#[derive(Debug)]
pub(super) struct HeadChange {
    pub head: Arc<Commit>,
    /// What the repository holds at it; at the commit before, where it looks like an accident.
    pub desired: Arc<DesiredState>,
    /// The commits that came with it, the head first. None where a branch was set back.
    pub commits: Vec<Commit>,
    /// The paths of files that differ from the commit that was planned last.
    pub paths: BTreeSet<String>,
    /// The manifests that differ from the commit that was planned last, each with the newest commit that changed it.
    pub changed: Vec<Charged>,
    /// What is wrong with files that differ, with the commit that made it so.
    pub complaints: Vec<(Complaint, Arc<Commit>)>,
    /// Objects that the commit planned last had and this one has not, each with the commit that took it away.
    pub removed: BTreeMap<ObjectKey, Charged>,
    /// What is odd about how it is followed, by the path of the file.
    pub warnings: BTreeMap<String, String>,
    /// Whether it looks like an accident. Then nothing of it was taken up.
    pub suspect: Option<SuspectHead>,
}

impl HeadChange {
    /// The commits to be noted with it: those that came, and where none did, as after a branch was set back, the head alone.
    pub(super) fn came(&self) -> &[Commit] {
        if self.commits.is_empty() { std::slice::from_ref(&*self.head) } else { &self.commits }
    }
}

/// What a head may be that nobody meant to push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SuspectHead {
    /// It leaves no manifest where there were some.
    Emptied,
    /// It has neither a commit nor a file in common with what was there.
    Replaced,
}

/// A manifest, and the commit that is charged with it.
#[derive(Clone, Debug)]
pub(super) struct Charged {
    pub manifest: Manifest,
    pub commit: Arc<Commit>,
}

/// The objects that a file held, with their hashes, by path.
pub(super) type Known = BTreeMap<String, Vec<(ObjectKey, ManifestHash)>>;
