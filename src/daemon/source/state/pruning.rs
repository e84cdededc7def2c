//! The objects that may have to be deleted, as far as they are known: those that a new head took away, and those that are left
//! from before.

use std::collections::{BTreeMap, BTreeSet};

use super::known::State;
use crate::daemon::planning::prune_candidates::{Candidate, Candidates};
use crate::daemon::repository::head_change::{Charged, HeadChange};
use belay_core::manifest::{Manifest, ObjectKey};
use belay_core::rollout::{CommitId, Record, allowed_by_trailer};

/// The reason for which nothing is deleted for now.
pub enum NoPruning {
    /// Pruning is off, and so many objects that left the repository stay.
    Off(usize),
    /// The repository has not answered yet, or is to be read again.
    Unknown,
    /// Files can't be read, and an object may have moved there; the message, if a new head took objects away.
    Unreadable(Option<String>),
}

impl State {
    /// Returns the objects that a new head has taken away, and those that are left from before. `api_version` returns the
    /// version with which the cluster serves the kind of an object.
    pub fn prune_candidates(
        &self,
        news: Option<&HeadChange>,
        api_version: impl Fn(&ObjectKey) -> Option<String>,
    ) -> Result<Candidates, NoPruning> {
        let removed = news.map(|news| &news.removed).into_iter().flatten();
        let mut objects: BTreeMap<ObjectKey, Candidate> =
            removed.map(|(key, charged)| (key.clone(), Candidate::taken_away(charged))).collect();
        if !self.settings.prune {
            return Err(NoPruning::Off(objects.len()));
        }
        // A repository that is to be read again mentions nothing.
        let at = self.desired.at.clone().filter(|_| !self.fetch.is_away()).ok_or(NoPruning::Unknown)?;
        let new: BTreeSet<ObjectKey> = objects.keys().cloned().collect();
        let unreadable: Vec<String> = self.desired.unreadable().map(ToString::to_string).collect();
        if !unreadable.is_empty() {
            // An object that was only in such a file is not known to have left; it is an orphan until the file is
            // mended.
            let names = unreadable.join(", ");
            let message =
                || format!("nothing is deleted while {names} can't be read: what has left may have moved there");
            return Err(NoPruning::Unreadable((!objects.is_empty()).then(message)));
        }
        let orphans = self.orphans().filter(|key| !new.contains(key));
        objects.extend(orphans.filter_map(|key| Some((key.clone(), self.orphan(key.clone(), api_version(key)?)))));
        let trailer = news.and_then(|news| allowed_by_trailer(&news.commits));
        // The head that was planned last, or, before the first plan, the one that was read.
        let head = self.planning.planned().cloned().unwrap_or(at);
        // No commit waits for a search through all kinds.
        let search = if news.is_some() { None } else { self.search() };
        Ok(Candidates { objects, new, trailer, head, search })
    }

    /// Returns live objects of this source that the repository does not mention.
    fn orphans(&self) -> impl Iterator<Item = &ObjectKey> {
        let live = self.live.iter().map(|(key, _)| key);
        live.filter(|key| !self.desired.mentions(key) && !self.rollouts.is_under_way(key))
    }

    fn orphan(&self, key: ObjectKey, api_version: String) -> Candidate {
        let by = self.rollouts.resumed(&key).map(|record| record.commit.clone());
        Candidate { manifest: Manifest::of_nothing_but(key, api_version), by }
    }

    /// Returns the objects that were being deleted, for the search among all kinds; `None` if it was done.
    fn search(&self) -> Option<BTreeMap<ObjectKey, CommitId>> {
        let gone = self.rollouts.all_resumed().iter().filter(|(key, _)| !self.desired.mentions(key));
        (!self.prune_search.is_complete())
            .then(|| gone.map(|(key, record)| (key.clone(), record.commit.clone())).collect())
    }

    /// Returns true when a record that was open at the start is of a deletion that goes on: the new head did not take
    /// the object away just now, and had no manifest of it before either. While a file can't be read nothing is
    /// deleted: a seemingly missing object may be in it.
    pub fn is_being_deleted(&self, key: &ObjectKey, record: &Record, removed: &BTreeMap<ObjectKey, Charged>) -> bool {
        let desired = &self.desired;
        let gone = !removed.contains_key(key) && !desired.mentions(key) && desired.unreadable().next().is_none();
        self.settings.prune && gone && !record.rolls_out
    }
}
