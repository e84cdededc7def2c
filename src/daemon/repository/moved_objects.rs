//! Objects that were moved to another file before they were taken away: the commit that moved them is not charged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::head_reading::{HeadReading, LINKS};
use crate::git::GitError;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Commit, CommitId};

/// The most commits after which the files are searched for the objects that they seem to have taken away.
const SEARCHED: usize = 100;

impl HeadReading<'_> {
    /// Returns the commits that took these objects away, from those that took them out of their files.
    pub fn past_moves(
        &mut self,
        mut charged: BTreeMap<ObjectKey, Arc<Commit>>,
    ) -> Result<BTreeMap<ObjectKey, Arc<Commit>>, GitError> {
        let mut took_away = BTreeMap::new();
        for _ in 0..SEARCHED {
            let Some(id) = charged.values().next().map(|commit| commit.id.clone()) else { break };
            let (taken_out, others): (BTreeMap<_, _>, _) = charged.into_iter().partition(|(_, by)| by.id == id);
            let moved = self.taken_out_later(&id, &taken_out.keys().cloned().collect())?;
            took_away.extend(taken_out.into_iter().filter(|(key, _)| !moved.contains_key(key)));
            charged = others;
            charged.extend(moved);
        }
        took_away.extend(charged);
        Ok(took_away)
    }

    /// Returns those of the objects that are in a file after this commit, with the commits that took them out of it.
    fn taken_out_later(
        &mut self,
        after: &CommitId,
        keys: &BTreeSet<ObjectKey>,
    ) -> Result<BTreeMap<ObjectKey, Arc<Commit>>, GitError> {
        let (repository, head) = (self.repository, self.head);
        let mut moved = BTreeMap::new();
        if after == head {
            return Ok(moved);
        }
        let changes = match repository.changes(Some(after), head) {
            Ok(changes) => changes.changes,
            // The folder was away, or something else, for a while.
            Err(GitError::NoFolder { .. } | GitError::NotAFolder { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        for change in changes.iter().filter(|change| change.is_manifest && !change.is_rendered()) {
            let Some(file) = self.side(&change.path, change.before.as_ref())? else { continue };
            let found = file.manifests.iter().filter(|manifest| keys.contains(&manifest.key));
            let now: BTreeMap<ObjectKey, _> = found.map(|manifest| (manifest.key.clone(), None)).collect();
            if now.is_empty() {
                continue;
            }
            let path = std::slice::from_ref(&change.path);
            let chains = repository.mirror.attribution(Some(after), head, &repository.folder, path, LINKS)?;
            moved.extend(self.charge(&change.path, now, chains.get(&change.path))?);
        }
        Ok(moved)
    }
}
