//! Shifting pods from the old ReplicaSets to the new one: step by step, or all at once.

use std::sync::Arc;

use super::new_set::ReplicaSetCreation;
use super::rollout::Rollout;
use super::sets::{available, size};
use super::sizes::{self, Set, room_for_removal, without_dispensable, without_unavailable};
use crate::controllers::error::Error;
use crate::controllers::key::uid_of;
use crate::controllers::templated::ReplicaSet;

impl Rollout<'_> {
    /// Takes one step of a rolling update: the new ReplicaSet grows, or else the old ones shrink.
    pub async fn roll(&mut self) -> Result<(), Error> {
        self.find_new_set(ReplicaSetCreation::Yes).await?;
        if self.grow_new().await? || self.shrink_old().await {
            return self.write_progress().await;
        }
        self.clean_up_if_complete().await?;
        self.write_progress().await
    }

    /// Takes one step of recreating: the old pods go, all of them, and then the new ones come.
    pub async fn recreate(&mut self) -> Result<(), Error> {
        self.find_new_set(ReplicaSetCreation::No).await?;
        let mut shrunk = false;
        for set in self.sets.old.clone() {
            shrunk |= self.resize(&set, 0).await?;
        }
        if shrunk || self.has_old_pods() {
            return self.write_progress().await;
        }
        if self.sets.new.is_none() {
            self.find_new_set(ReplicaSetCreation::Yes).await?;
        }
        if let Some(new) = self.sets.new.clone() {
            self.resize(&new, self.plan.size).await?;
        }
        self.clean_up_if_complete().await?;
        self.write_progress().await
    }

    async fn grow_new(&mut self) -> Result<bool, Error> {
        let Some(new) = self.sets.new.clone() else { return Ok(false) };
        let (present, wanted) = (size(&new), self.plan.size);
        let total = sizes::sum(self.sets.all().map(size));
        let to = if present >= wanted { wanted } else { self.plan.new_size(total, present) };
        self.resize(&new, to).await
    }

    /// Returns whether something was scaled down. A failure counts as not: the next reconciliation tries again.
    async fn shrink_old(&mut self) -> bool {
        match self.try_to_shrink_old().await {
            Ok(shrunk) => shrunk,
            Err(error) => {
                tracing::debug!(%error, "the old replica sets will be scaled down at the next look");
                false
            }
        }
    }

    async fn try_to_shrink_old(&mut self) -> Result<bool, Error> {
        let Some(new) = self.sets.new.clone() else { return Ok(false) };
        let (new, plan) = (as_set(&new), self.plan);
        let active = self.active_old();
        let sets: Vec<Set> = active.iter().map(as_set).collect();
        let room = room_for_removal(&plan, &sets, new);
        if sets.is_empty() || room <= 0 {
            return Ok(false);
        }
        let mut shrunk = false;
        let (sizes, is_stale) = without_unavailable(&sets, room);
        for (set, to) in active.iter().zip(sizes) {
            shrunk |= self.resize(set, to).await?;
        }
        if is_stale {
            return Ok(false);
        }
        let active = self.active_old();
        let sets: Vec<Set> = active.iter().map(as_set).collect();
        for (set, to) in active.iter().zip(without_dispensable(&plan, &sets, new)) {
            shrunk |= self.resize(set, to).await?;
        }
        Ok(shrunk)
    }

    fn active_old(&self) -> Vec<Arc<ReplicaSet>> {
        self.sets.old.iter().filter(|set| size(set) > 0).cloned().collect()
    }

    /// Returns true when a pod of an old ReplicaSet is still there; those that have ended do not count.
    fn has_old_pods(&self) -> bool {
        let status_says = |set: &Arc<ReplicaSet>| set.status.as_ref().is_some_and(|status| status.replicas > 0);
        let pods = &self.controller.pods;
        let is_there = |set: &Arc<ReplicaSet>| {
            let pods = pods.controlled_by(uid_of(&set.metadata));
            pods.iter().any(|pod| !pod.is_finished())
        };
        self.sets.old.iter().any(|set| status_says(set) || is_there(set))
    }
}

fn as_set(set: &Arc<ReplicaSet>) -> Set {
    Set { size: size(set), available: available(set) }
}
