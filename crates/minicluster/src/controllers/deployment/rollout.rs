//! A Deployment under way: the working copy that one reconciliation changes and writes.

use std::sync::Arc;

use super::sets::{Sets, size};
use super::sizes::ScalePlan;
use super::status::{self, counted, of_rollout};
use super::{Deployments, cleanup, revision};
use crate::controllers::error::Error;
use crate::controllers::events::EventType;
use crate::controllers::key::{Key, name_of, version_of};
use crate::controllers::requests::Written;
use crate::controllers::templated::{Deployment, ReplicaSet};

/// A Deployment and its ReplicaSets during one reconciliation.
pub struct Rollout<'a> {
    pub controller: &'a Deployments,
    /// The Deployment, with the status as last written.
    pub deployment: Deployment,
    pub plan: ScalePlan,
    pub sets: Sets,
    /// True when the Deployment was written in this reconciliation.
    wrote: bool,
}

impl<'a> Rollout<'a> {
    /// Begins a reconciliation.
    pub fn new(controller: &'a Deployments, deployment: Deployment, sets: Sets) -> Rollout<'a> {
        let plan = ScalePlan::of(&deployment);
        Rollout { controller, deployment, plan, sets, wrote: false }
    }

    /// Returns true when the Deployment is paused.
    pub fn is_paused(&self) -> bool {
        self.deployment.spec.paused == Some(true)
    }

    /// Writes the status, and the annotations with it.
    ///
    /// One reconciliation writes the Deployment once: its event brings it back. On a real cluster, a second write would
    /// be refused, because it starts from the state before the first.
    pub async fn write_status(&mut self) -> Result<(), Error> {
        self.write_once()?;
        let written: Written = self.controller.context.requests.replace_status(&self.deployment).await?;
        self.note_write(&written);
        Ok(())
    }

    /// Writes the Deployment itself, once in a reconciliation like its status.
    pub async fn write_deployment(&mut self) -> Result<(), Error> {
        self.write_once()?;
        let written: Written = self.controller.context.requests.replace(&self.deployment).await?;
        self.note_write(&written);
        Ok(())
    }

    fn write_once(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.wrote, true) { Err(Error::ComesBack) } else { Ok(()) }
    }

    fn note_write(&self, written: &Written) {
        let key = Key::of(&self.deployment.metadata);
        self.controller.expectations.wrote_owner(&key, version_of(&written.metadata));
    }

    /// Notes that a ReplicaSet was made or changed: the next reconciliation waits until it shows.
    pub fn note_set(&self, set: &ReplicaSet) {
        let key = Key::of(&self.deployment.metadata);
        self.controller.expectations.wrote(&key, version_of(&set.metadata));
    }

    /// Brings the counters up to date, without judging how the rollout gets on.
    pub async fn write_counters(&mut self) -> Result<(), Error> {
        let status = counted(&self.deployment, &self.sets, self.controller.context.now().0);
        if self.deployment.status.as_ref() == Some(&status) {
            return Ok(());
        }
        self.deployment.status = Some(status);
        self.write_status().await
    }

    /// Brings the status up to date, and reconciles again when the deadline may have passed.
    pub async fn write_progress(&mut self) -> Result<(), Error> {
        let status = of_rollout(&self.deployment, &self.sets, self.controller.context.now().0);
        if self.deployment.status.as_ref() == Some(&status) {
            self.controller.look_at_deadline(self, &status);
            return Ok(());
        }
        self.deployment.status = Some(status);
        self.write_status().await
    }

    /// Deletes revisions beyond the history's limit, if the rollout was complete when this reconciliation began.
    pub async fn clean_up_if_complete(&self) -> Result<(), Error> {
        let status = self.deployment.status.clone().unwrap_or_default();
        if status::is_complete(&self.deployment, &status) { self.clean_up().await } else { Ok(()) }
    }

    /// Deletes revisions beyond the history's limit.
    pub async fn clean_up(&self) -> Result<(), Error> {
        for set in cleanup::dispensable(&self.deployment, &self.sets) {
            let requests = &self.controller.context.requests;
            match requests.delete::<ReplicaSet>(&Key::of(&set.metadata), &kube::api::DeleteParams::default()).await {
                Ok(()) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives a ReplicaSet a size, unless it has it. Returns whether it was changed.
    pub async fn resize(&mut self, set: &Arc<ReplicaSet>, to: i32) -> Result<bool, Error> {
        if size(set) == to {
            return Ok(false);
        }
        self.resize_and_annotate(set, to).await
    }

    /// Gives a ReplicaSet a size, and notes the Deployment's size on it. Returns whether its size was changed.
    pub async fn resize_and_annotate(&mut self, set: &Arc<ReplicaSet>, to: i32) -> Result<bool, Error> {
        let from = size(set);
        if from == to && !revision::sizes_differ(&set.metadata, &self.plan) {
            return Ok(false);
        }
        let mut changed = ReplicaSet::clone(set);
        changed.spec.replicas = Some(to);
        revision::set_sizes(&mut changed.metadata, &self.plan);
        let written: ReplicaSet = self.controller.context.requests.replace(&changed).await?;
        self.note_set(&written);
        self.sets.update(&Arc::new(written));
        if from != to {
            let way = if from < to { "up" } else { "down" };
            let name = name_of(&set.metadata);
            self.say(
                EventType::Normal,
                "ScalingReplicaSet",
                format!("Scaled {way} replica set {name} from {from} to {to}"),
            );
        }
        Ok(from != to)
    }

    /// Tells people something about the Deployment.
    pub fn say(&self, gravity: EventType, reason: &'static str, message: String) {
        self.controller.recorder.say(&self.deployment, gravity, reason, message);
    }
}
