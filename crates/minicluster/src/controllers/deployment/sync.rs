//! One reconciliation of one Deployment.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DeploymentStatus;

use super::conditions::{self, PROGRESSING, reason, reason_of};
use super::new_set::ReplicaSetCreation;
use super::rollout::Rollout;
use super::scale::is_scaling;
use super::sets::Sets;
use super::{Deployments, rollback, status};
use crate::controllers::error::Error;
use crate::controllers::events::EventType;
use crate::controllers::key::{Key, is_terminating};
use crate::controllers::owner::controller_reference;
use crate::controllers::ownership::{Claimed, Claimer};
use crate::controllers::selector::Selector;
use crate::controllers::templated::{Deployment, ReplicaSet};
use crate::controllers::work_queue::WorkQueue;
use crate::controllers::worker::Reconciler;

/// When a write does not show, reconcile again after this time, in case it never will.
const EXPECTING: Duration = Duration::from_secs(30);
/// After so many failures in a row a Deployment is not tried again until something about it changes.
const TRIES: u32 = 15;

impl Reconciler for Deployments {
    type Key = Key;

    fn name(&self) -> &'static str {
        "deployment-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    fn tries(&self) -> Option<u32> {
        Some(TRIES)
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(cached) = self.deployments.get(key) else {
            self.expectations.forget(key);
            return Ok(());
        };
        let is_seen = self.expectations.is_owner_seen(key, &self.deployments);
        if !is_seen || !self.expectations.are_met(key, &self.replica_sets) {
            self.queue.add_after(key.clone(), EXPECTING);
            return Ok(());
        }
        let deployment = Deployment::clone(&cached);
        let selector = Selector::read(&deployment.spec.selector)?;
        if selector.is_everything() {
            return self.refuse_everything(deployment).await;
        }
        let claimed = self.claim(&deployment, &selector).await?;
        if let Some(version) = claimed.wrote {
            self.expectations.wrote(key, version);
            return Err(Error::ComesBack);
        }
        let sets = Sets::of(&deployment, claimed.objects)?;
        let mut rollout = Rollout::new(self, deployment, sets);
        if is_terminating(&rollout.deployment.metadata) {
            rollout.find_new_set(ReplicaSetCreation::No).await?;
            return rollout.write_counters().await;
        }
        note_pause(&mut rollout).await?;
        if rollout.is_paused() {
            return rollout.scale_all().await;
        }
        if let Some(revision) = rollback::wished(&rollout.deployment) {
            return rollout.roll_back(revision).await;
        }
        if is_scaling(&rollout.deployment, &rollout.sets) {
            return rollout.scale_all().await;
        }
        if rollout.plan.rolling.is_some() { rollout.roll().await } else { rollout.recreate().await }
    }
}

impl Deployments {
    /// Refuses a selector that takes everything, which must be a mistake.
    async fn refuse_everything(&self, mut deployment: Deployment) -> Result<(), Error> {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        self.recorder.say(&deployment, EventType::Warning, "SelectingAll", message);
        let generation = deployment.metadata.generation;
        let status = deployment.status.get_or_insert_default();
        if status.observed_generation < generation {
            status.observed_generation = generation;
            let mut rollout = Rollout::new(self, deployment, Sets::default());
            rollout.write_status().await?;
        }
        Ok(())
    }

    async fn claim(&self, deployment: &Deployment, selector: &Selector) -> Result<Claimed<ReplicaSet>, Error> {
        let metadata = &deployment.metadata;
        let claimer = Claimer {
            requests: &self.context.requests,
            owner: metadata,
            selector,
            reference: controller_reference::<Deployment>(metadata),
            finalizer: None,
        };
        claimer.claim::<Deployment, ReplicaSet, ReplicaSet>(self.replica_sets.candidates(metadata)).await
    }

    /// Looks again when the progress deadline may have passed, even if nothing happens until then.
    pub(super) fn look_at_deadline(&self, rollout: &Rollout<'_>, after: &DeploymentStatus) {
        let key = Key::of(&rollout.deployment.metadata);
        let now = self.context.clock.now();
        let Some(wait) = status::deadline_check(&rollout.deployment, after, now) else { return };
        match Duration::try_from(wait) {
            Ok(Duration::ZERO) | Err(_) => {
                self.queue.add_after_failure(key);
            }
            Ok(wait) => self.queue.add_after(key, wait),
        }
    }
}

/// Tells of being paused and resumed, which stops and restarts the progress timer.
async fn note_pause(rollout: &mut Rollout<'_>) -> Result<(), Error> {
    if status::deadline(&rollout.deployment).is_none() {
        return Ok(());
    }
    let paused = rollout.is_paused();
    let present = rollout.deployment.status.as_ref();
    let present = present.and_then(|status| conditions::find(&status.conditions, PROGRESSING)).map(reason_of);
    let (reason, message) = match (paused, present) {
        (_, Some(reason::TIMED_OUT)) | (true, Some(reason::PAUSED)) => return Ok(()),
        (true, _) => (reason::PAUSED, "Deployment is paused"),
        (false, Some(reason::PAUSED)) => (reason::RESUMED, "Deployment is resumed"),
        (false, _) => return Ok(()),
    };
    let now = rollout.controller.context.now().0;
    let condition = conditions::condition(PROGRESSING, "Unknown", reason, message.to_owned(), now);
    let status = rollout.deployment.status.get_or_insert_default();
    conditions::set(&mut status.conditions, condition);
    rollout.write_status().await
}
