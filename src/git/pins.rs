//! Commits that must stay readable, whatever happens to the branches.

use std::collections::VecDeque;

use git2::{ErrorCode, Oid, Repository};

use super::error::{GitError, while_doing};
use super::mirror::{Mirror, commit_id, oid};
use crate::rollout::CommitId;

/// How many commits are looked at before the whole graph is loaded.
const SOON: usize = 256;
/// Former heads of branches that were rewritten.
const KEPT: &str = "refs/belay/kept/";
/// Commits that history names.
const PINS: &str = "refs/belay/pins/";

impl Mirror {
    /// Pins commits, so that nothing that cleans up the mirror takes them away: not a force-push, not a `git gc` by hand.
    /// Those that a branch of the mirror comes from need no pin. Returns those that the mirror does not have.
    ///
    /// # Errors
    ///
    /// When the mirror can't be read or written.
    pub fn pin(&self, commits: &[CommitId]) -> Result<Vec<CommitId>, GitError> {
        self.with(|mirror| {
            let _lock = self.lock()?;
            let mut missing = Vec::new();
            for commit in commits {
                let id = oid(commit)?;
                match mirror.find_commit(id) {
                    Err(error) if error.code() == ErrorCode::NotFound => missing.push(commit.clone()),
                    Err(error) => return Err(self.damaged(&error)),
                    Ok(_) if self.is_reachable(mirror, id)? => {}
                    Ok(_) => self.refer(mirror, PINS, id)?,
                }
            }
            Ok(missing)
        })
    }

    /// Takes the pins off commits that history has forgotten.
    ///
    /// # Errors
    ///
    /// When the mirror can't be written.
    pub fn unpin(&self, commits: &[CommitId]) -> Result<(), GitError> {
        self.with(|mirror| {
            let _lock = self.lock()?;
            for commit in commits {
                match mirror.find_reference(&format!("{PINS}{commit}")) {
                    Ok(mut pin) => pin.delete().map_err(while_doing(format!("unpin {}", commit.short())))?,
                    Err(error) if error.code() == ErrorCode::NotFound => {}
                    Err(error) => return Err(self.damaged(&error)),
                }
            }
            Ok(())
        })
    }

    /// The commits that are pinned, in the order of their ids.
    ///
    /// # Errors
    ///
    /// When the mirror can't be read.
    pub fn pinned(&self) -> Result<Vec<CommitId>, GitError> {
        self.with(|mirror| {
            let references = self.references(mirror)?;
            let pins = references.into_iter().filter(|(name, _)| name.starts_with(PINS));
            Ok(pins.map(|(_, id)| commit_id(id)).collect())
        })
    }

    /// Keeps the former head of a branch, and so everything that it comes from.
    pub(super) fn keep(&self, mirror: &Repository, head: Oid) -> Result<(), GitError> {
        self.refer(mirror, KEPT, head)
    }

    /// Whether a commit comes from another, where that is found out soon; if not, the answer is no.
    pub(super) fn comes_from_soon(&self, mirror: &Repository, later: Oid, earlier: Oid) -> bool {
        let mut queue = VecDeque::from([later]);
        for _ in 0..SOON {
            let Some(id) = queue.pop_front() else { return false };
            if id == earlier {
                return true;
            }
            if let Ok(commit) = mirror.find_commit(id) {
                queue.extend(commit.parent_ids());
            }
        }
        false
    }

    fn is_reachable(&self, mirror: &Repository, id: Oid) -> Result<bool, GitError> {
        let references = self.references(mirror)?;
        self.with_graph(|graph| {
            let limit = self.limits.history;
            let node = graph.load(mirror, id, limit, |error| self.damaged(error))?;
            for tip in references.values() {
                let Ok(commit) = mirror.find_object(*tip, None).and_then(|object| object.peel_to_commit()) else {
                    continue;
                };
                let tip = graph.load(mirror, commit.id(), limit, |error| self.damaged(error))?;
                if graph.comes_from(tip, node) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    fn refer(&self, mirror: &Repository, under: &str, id: Oid) -> Result<(), GitError> {
        let made = mirror.reference(&format!("{under}{id}"), id, true, "belay: kept");
        made.map(drop).map_err(while_doing(format!("keep {id} in the mirror")))
    }
}
