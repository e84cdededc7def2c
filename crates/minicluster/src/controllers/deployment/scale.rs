//! Scaling a Deployment, also in the middle of a rollout and while it is paused.

use std::sync::Arc;

use super::new_set::ReplicaSetCreation;
use super::revision::{self, DESIRED, MAX};
use super::rollback;
use super::rollout::Rollout;
use super::sets::{Direction, Sets, available, by_age, size, sort_for_shares};
use super::sizes::{self, ScalePlan, Share, proportional};
use crate::controllers::error::Error;
use crate::controllers::templated::{Deployment, ReplicaSet};

/// Returns true when the Deployment was scaled since its ReplicaSets were: one with pods was last scaled for another
/// size.
pub fn is_scaling(deployment: &Deployment, sets: &Sets) -> bool {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    sets.active().any(|set| revision::annotated(&set.metadata, DESIRED).is_some_and(|size| size != wanted))
}

impl Rollout<'_> {
    /// Scales without rolling out: no new ReplicaSet is made, and progress is not judged.
    pub async fn scale_all(&mut self) -> Result<(), Error> {
        self.find_new_set(ReplicaSetCreation::No).await?;
        self.share_out().await?;
        if self.is_paused() && rollback::wished(&self.deployment).is_none() {
            self.clean_up().await?;
        }
        self.write_counters().await
    }

    async fn share_out(&mut self) -> Result<(), Error> {
        let active: Vec<Arc<ReplicaSet>> = self.sets.active().cloned().collect();
        if active.len() <= 1 {
            let newest = || self.sets.old.iter().max_by(|one, other| by_age(one, other)).cloned();
            let target = active.into_iter().next().or_else(|| self.sets.new.clone()).or_else(newest);
            if let Some(set) = target {
                self.resize(&set, self.plan.size).await?;
            }
            return Ok(());
        }
        if self.sets.new.as_ref().is_some_and(|new| is_saturated(new, &self.plan)) {
            for set in self.sets.old.clone() {
                self.resize(&set, 0).await?;
            }
            return Ok(());
        }
        if self.plan.rolling.is_none() {
            return Ok(());
        }
        self.share_in_proportion(active).await
    }

    async fn share_in_proportion(&mut self, mut active: Vec<Arc<ReplicaSet>>) -> Result<(), Error> {
        let total = sizes::sum(active.iter().map(|set| size(set)));
        let allowed = if self.plan.size > 0 { self.plan.max_size() } else { 0 };
        sort_for_shares(&mut active, if allowed > total { Direction::Up } else { Direction::Down });
        let at_present = self.deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
        let share = |set: &Arc<ReplicaSet>| Share {
            size: size(set),
            max_size_then: revision::annotated(&set.metadata, MAX).filter(|max| *max != 0).unwrap_or(at_present),
        };
        let shares: Vec<Share> = active.iter().map(share).collect();
        for (set, to) in active.iter().zip(proportional(&self.plan, &shares)) {
            self.resize_and_annotate(set, to).await?;
        }
        Ok(())
    }
}

/// Returns true when the new ReplicaSet has all the wanted pods, and they are available.
fn is_saturated(new: &ReplicaSet, plan: &ScalePlan) -> bool {
    size(new) == plan.size
        && revision::annotated(&new.metadata, DESIRED) == Some(plan.size)
        && available(new) == plan.size
}
