//! The subjects and authors of the commits that a page names.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Room;
use super::super::problem::Problem;
use crate::history::query::answers::CommitInfo;
use belay_core::rollout::CommitId;

/// The known facts about commits.
pub(super) type KnownCommits = BTreeMap<CommitId, CommitInfo>;

/// Reads the known facts about these commits.
pub(super) async fn known_commits(room: &Room, wanted: BTreeSet<CommitId>) -> Result<KnownCommits, Problem> {
    let read = room.history.ask(move |history| {
        let told = |commit: CommitId| Ok(history.told(&commit)?.map(|told| (commit, told)));
        wanted.into_iter().filter_map(|commit| told(commit).transpose()).collect::<Result<KnownCommits, _>>()
    });
    read.await
}
