//! The ReplicaSets of a Deployment: the new one and the old ones. Pure.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use super::revision;
use crate::controllers::error::Error;
use crate::controllers::template::CanonicalTemplate;
use crate::controllers::templated::{Deployment, ReplicaSet};

/// A Deployment's ReplicaSets.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    /// The one with the Deployment's template.
    pub new: Option<Arc<ReplicaSet>>,
    /// All others, oldest first.
    pub old: Vec<Arc<ReplicaSet>>,
}

impl Sets {
    /// Tells the new one from the others: the oldest whose template means the same as the Deployment's.
    ///
    /// # Errors
    /// The Deployment's template can't be read.
    pub fn of(deployment: &Deployment, mut claimed: Vec<Arc<ReplicaSet>>) -> Result<Sets, Error> {
        claimed.sort_by(|one, other| by_age(one, other));
        let wanted = deployment.spec.template.canonical()?;
        let new = claimed.iter().position(|set| has_template(set, wanted));
        let new = new.map(|index| claimed.remove(index));
        Ok(Sets { new, old: claimed })
    }

    /// Returns all of them, the old ones first.
    pub fn all(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().chain(&self.new).map(AsRef::as_ref)
    }

    /// Returns those of size more than nothing, the old ones first.
    pub fn active(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new).filter(|set| size(set) > 0)
    }

    /// Returns the greatest number of an old revision.
    pub fn greatest_old_revision(&self) -> i64 {
        revision::greatest(self.old.iter().map(|set| &set.metadata))
    }

    /// Puts a ReplicaSet in the place of its former self.
    pub fn update(&mut self, set: &Arc<ReplicaSet>) {
        let is_same = |other: &&mut Arc<ReplicaSet>| other.metadata.uid == set.metadata.uid;
        if let Some(place) = self.old.iter_mut().chain(&mut self.new).find(is_same) {
            *place = set.clone();
        }
    }
}

/// Returns true when a ReplicaSet's template means this.
pub fn has_template(set: &ReplicaSet, wanted: &CanonicalTemplate) -> bool {
    set.spec.template.as_ref().is_some_and(|template| template.canonical().is_ok_and(|canonical| canonical == wanted))
}

/// Returns how many pods a ReplicaSet shall have.
pub fn size(set: &ReplicaSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

/// Returns how many of its pods are available.
pub fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// Orders older ones first.
pub fn by_age(one: &ReplicaSet, other: &ReplicaSet) -> Ordering {
    let age = |set: &ReplicaSet| set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    age(one).cmp(&age(other)).then_with(|| one.metadata.name.cmp(&other.metadata.name))
}

/// Orders lower revisions first, then older ones.
pub fn by_revision(one: &ReplicaSet, other: &ReplicaSet) -> Ordering {
    let number = |set: &ReplicaSet| revision::number(&set.metadata).unwrap_or(0);
    number(one).cmp(&number(other)).then_with(|| by_age(one, other))
}

/// The direction in which a Deployment changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// There are to be more pods.
    Up,
    /// There are to be fewer.
    Down,
}

/// Sorts active ReplicaSets in the order in which they get their shares: the largest first; among equals the newest
/// first when growing, the oldest when shrinking.
pub fn sort_for_shares(sets: &mut [Arc<ReplicaSet>], direction: Direction) {
    sets.sort_by(|one, other| {
        let age = by_age(one, other);
        let age = if direction == Direction::Up { age.reverse() } else { age };
        Reverse(size(one)).cmp(&Reverse(size(other))).then(age)
    });
}
