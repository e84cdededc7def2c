//! Commits that must stay readable, whatever happens to the branches.

use std::collections::{BTreeSet, HashSet, VecDeque};

use git2::{ErrorCode, Oid, Repository};

use super::{Mirror, commit_id, oid};
use crate::git::error::{GitError, while_doing};
use belay_core::rollout::CommitId;

/// The number of commits that are searched before the whole graph is loaded.
const SOON: usize = 256;
/// Former heads of branches that were rewritten.
const KEPT: &str = "refs/belay/kept/";
/// Commits that history names.
const PINS: &str = "refs/belay/pins/";

impl Mirror {
    /// Pins commits, so that nothing that cleans up the mirror takes them away: not a force-push, not a `git gc` by hand.
    /// Those that a branch, or another pinned commit, comes from need no pin of their own. Returns those that the mirror
    /// does not have.
    ///
    /// # Errors
    ///
    /// When the mirror can't be read or written.
    pub fn pin(&self, commits: &BTreeSet<CommitId>) -> Result<Vec<CommitId>, GitError> {
        self.with(|mirror| {
            let _lock = self.lock()?;
            let (pins, missing) = self.needed(mirror, commits, |_| true)?;
            pins.into_iter().try_for_each(|pin| self.refer(mirror, PINS, pin))?;
            Ok(missing)
        })
    }

    /// Pins these commits and no others, and releases the former heads that were kept when a branch was rewritten: for
    /// the time after history has forgotten some. Objects to which nothing leads any more are collected, if that is
    /// worth it. Returns those that the mirror does not have.
    ///
    /// # Errors
    ///
    /// When the mirror can't be read or written.
    pub fn pin_only(&self, commits: &BTreeSet<CommitId>) -> Result<Vec<CommitId>, GitError> {
        let missing = self.unpin_others(commits)?;
        let collected = self.with(|mirror| {
            let _lock = self.lock()?;
            self.collect_garbage(mirror)
        });
        // Handles keep packs open that are gone.
        self.close_handles();
        let gone = collected?;
        if gone > 0 {
            tracing::info!(objects = gone, "collected the garbage of the mirror");
        }
        Ok(missing)
    }

    /// Returns the same, without collecting anything.
    ///
    /// # Errors
    ///
    /// When the mirror can't be read or written.
    pub fn unpin_others(&self, commits: &BTreeSet<CommitId>) -> Result<Vec<CommitId>, GitError> {
        self.with(|mirror| {
            let _lock = self.lock()?;
            let ours = |name: &str| name.starts_with(PINS) || name.starts_with(KEPT);
            let (pins, missing) = self.needed(mirror, commits, |name| !ours(name))?;
            let mut wanted = BTreeSet::new();
            for pin in pins {
                self.refer(mirror, PINS, pin)?;
                wanted.insert(format!("{PINS}{pin}"));
            }
            for name in self.references(mirror)?.into_keys().filter(|name| ours(name) && !wanted.contains(name)) {
                let gone = mirror.find_reference(&name).and_then(|mut reference| reference.delete());
                gone.map_err(while_doing(format!("delete {name} in the mirror")))?;
            }
            Ok(missing)
        })
    }

    /// Returns the commits that are pinned, in the order of their ids.
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
    pub(in crate::git) fn keep(&self, mirror: &Repository, head: Oid) -> Result<(), GitError> {
        self.refer(mirror, KEPT, head)
    }

    /// Returns true when a commit comes from another, if that is found out soon; if not, the answer is no.
    pub(in crate::git) fn comes_from_soon(&self, mirror: &Repository, later: Oid, earlier: Oid) -> bool {
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

    /// Returns the commits that need a pin, given the references that stay by `counts`; and the missing ones.
    fn needed(
        &self,
        mirror: &Repository,
        commits: &BTreeSet<CommitId>,
        counts: impl Fn(&str) -> bool,
    ) -> Result<(Vec<Oid>, Vec<CommitId>), GitError> {
        let references = self.references(mirror)?;
        let tips = references.iter().filter(|(name, _)| counts(name)).map(|(_, id)| *id);
        self.with_graph(|graph| {
            let mut load = |id| graph.load(mirror, id, self.limits.history, |error| self.damaged(error));
            let mut from = Vec::new();
            for tip in tips {
                if let Ok(commit) = mirror.find_object(tip, None).and_then(|object| object.peel_to_commit()) {
                    from.push(load(commit.id())?);
                }
            }
            let (mut open, mut missing) = (Vec::new(), Vec::new());
            for commit in commits {
                match mirror.find_commit(oid(commit)?) {
                    Ok(found) => open.push(load(found.id())?),
                    Err(error) if error.code() == ErrorCode::NotFound => missing.push(commit.clone()),
                    Err(error) => return Err(self.damaged(&error)),
                }
            }
            let mut reached = HashSet::new();
            graph.spread(from, &mut reached);
            // Later ones first: their ancestors need no pin any more.
            open.sort_by_key(|node| std::cmp::Reverse(graph.generation(*node)));
            let mut pins = Vec::new();
            for node in open {
                if !reached.contains(&node) {
                    pins.push(graph.id(node));
                    graph.spread([node], &mut reached);
                }
            }
            Ok((pins, missing))
        })
    }

    fn refer(&self, mirror: &Repository, under: &str, id: Oid) -> Result<(), GitError> {
        let made = mirror.reference(&format!("{under}{id}"), id, true, "belay: kept");
        made.map(drop).map_err(while_doing(format!("keep {id} in the mirror")))
    }
}
