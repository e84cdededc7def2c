//! A Deployment whose manifest asks for a canary: each step is one write with its locks, and the last write is the manifest
//! as it is. [`belay_core::rollout::canary`] says what the locks do.

use std::sync::Arc;

use serde_json::Value;
use tracing::{info, warn};

use crate::cluster::{ClusterError, Mode};
use crate::daemon::rollout::canary_progress::CanaryProgress;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use belay_core::manifest::Compact;
use belay_core::rollout::canary::{CanaryMark, CanaryPods, CanarySteps};
use belay_core::rollout::{Baseline, TemplateMarks, Workload, body, marks, revisions, same_template, template};

impl RolloutTask {
    /// Returns true when the manifest asks for a canary, or one may be under way.
    pub fn may_have_canary(&self) -> bool {
        let is_deployment = Workload::of(&self.planned.wanted.key) == Some(Workload::Deployment);
        is_deployment && !self.apply.creates && !self.apply.keeps_hold && !self.apply.restores_held
    }

    /// Begins the canary that the manifest asks for, or takes up the one that is under way.
    pub async fn begin_canary(&mut self) -> Result<(), Cancelled> {
        let steps = CanarySteps::of(&self.planned.wanted.manifest.value());
        if !self.apply.rolls_out {
            if let Some(live) = self.read().await? {
                self.resume_canary(&live);
            }
            return Ok(());
        }
        if steps.count() == 0 {
            return Ok(());
        }
        let Some(live) = self.read().await? else { return Ok(()) };
        let replicas = self.replicas(&live);
        if replicas == 0 || !Box::pin(self.has_old_pods_to_keep(&live)).await? {
            info!(object = %self.planned.wanted.key, "no canary: no pod of an earlier revision is to be kept, or it comes back");
            return Ok(());
        }
        let canary = CanaryProgress::at(steps, 1, replicas, self.apply.body.clone());
        self.apply.body = canary.body();
        self.canary = Some(Box::new(canary));
        self.tell_step(None).await
    }

    /// Takes up the canary that is under way on the live Deployment, if one is.
    pub fn resume_canary(&mut self, live: &Value) {
        let Some(mark) = CanaryMark::on(live).filter(|_| self.may_have_canary()) else { return };
        let (wanted, source) = (&self.planned.wanted, &self.context.config.name);
        let whole = Compact::of(&body(&wanted.value(), source, &TemplateMarks::on(live), None));
        let steps = CanarySteps::of(&wanted.manifest.value());
        let mut canary = CanaryProgress::at(steps, mark.step, self.replicas(live), whole);
        canary.lock.paused = live["spec"]["paused"] == true;
        if canary.step().is_none() {
            // It goes on to all pods; until then the locks stay as they are.
            canary.lock.pods = count(live, "/spec/strategy/rollingUpdate/maxSurge").max(1);
        }
        self.apply.body = canary.body();
        self.canary = Some(Box::new(canary));
        self.resume.continues_rollout = true;
    }

    /// Returns the number of pods that the Deployment is to have: its manifest's, else the one that an autoscaler sets.
    pub fn replicas(&self, live: &Value) -> i64 {
        let of = |object: &Value| object["spec"]["replicas"].as_i64();
        of(&self.planned.wanted.manifest.value()).or_else(|| of(live)).unwrap_or(1)
    }

    /// Returns true when there is a reason for steps: pods of another revision are available, and the new template neither has
    /// pods already nor was complete lately. It is as the server would make it, in a dry run.
    async fn has_old_pods_to_keep(&self, live: &Value) -> Result<bool, Cancelled> {
        if live["status"]["availableReplicas"].as_i64().unwrap_or_default() == 0 {
            return Ok(false);
        }
        let (context, key) = (&self.context, &self.planned.wanted.key);
        let tried =
            self.until_served(key, || context.cluster.apply(key, &self.served, &self.apply.body, Mode::DryRun)).await?;
        // The write itself is refused, too, and says why.
        let Ok(would_be) = tried else { return Ok(false) };
        if self.was_complete_lately(&would_be.object) {
            return Ok(false);
        }
        let present = template(&would_be.object).cloned().unwrap_or_default();
        let keepers = self.until_served(key, || context.cluster.revision_keepers(key, live)).await?.unwrap_or_default();
        let has_pods = keepers.iter().any(|keeper| is_of(keeper, &present) && count(keeper, "/spec/replicas") > 0);
        Ok(!has_pods)
    }

    /// Returns the pods of the canary, by the ReplicaSets; `None` if they can't be read now.
    pub async fn canary_pods(&self, live: &Value) -> Result<Option<CanaryPods>, Cancelled> {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        let ask = || async {
            let _room = context.requests.room().await;
            context.cluster.revision_keepers(key, live).await
        };
        let keepers = match self.until_served(key, ask).await? {
            Ok(keepers) => keepers,
            Err(error) => {
                warn!(object = %key, %error, "its ReplicaSets can't be read, and the canary goes no further");
                return Ok(None);
            }
        };
        let present = template(live).cloned().unwrap_or_default();
        let mut pods = CanaryPods::default();
        for keeper in &keepers {
            if is_of(keeper, &present) {
                pods.asked += count(keeper, "/spec/replicas");
                pods.present += count(keeper, "/status/replicas");
                pods.ready += count(keeper, "/status/readyReplicas");
                pods.available += count(keeper, "/status/availableReplicas");
            }
        }
        Ok(Some(pods))
    }

    /// Writes the locks of the present step again, with or without the second one.
    pub async fn write_lock(&mut self, is_paused: bool) -> Result<Result<Value, ClusterError>, Cancelled> {
        if let Some(canary) = &mut self.canary {
            canary.lock.paused = is_paused;
            self.apply.body = canary.body();
        }
        self.retry_apply(&self.apply.body).await
    }

    /// Goes on after a step: to the next one, or to all pods. `None` where no canary is under way.
    pub async fn go_on_with_canary(
        &mut self,
        live: &Arc<Value>,
    ) -> Result<Option<Result<Value, ClusterError>>, Cancelled> {
        let Some(canary) = self.canary.take() else { return Ok(None) };
        let next = canary.lock.mark.step.saturating_add(1);
        self.forget_request(live).await;
        if canary.steps.step(next).is_some() {
            let CanaryProgress { steps, whole, .. } = *canary;
            let canary = CanaryProgress::at(steps, next, self.replicas(live), whole);
            self.apply.body = canary.body();
            self.canary = Some(Box::new(canary));
            self.tell_step(Some(live)).await?;
        } else {
            self.apply.body = canary.whole;
            self.note_step(Some(live), "the canary is over: all pods are replaced").await?;
        }
        self.retry_apply(&self.apply.body).await.map(Some)
    }

    async fn tell_step(&self, live: Option<&Value>) -> Result<(), Cancelled> {
        let Some(canary) = &self.canary else { return Ok(()) };
        let pods = canary.lock.pods;
        let text = format!("{}: {pods} new pod{}", canary.words(), if pods == 1 { "" } else { "s" });
        info!(object = %self.planned.wanted.key, commit = self.planned.wanted.commit.id.short(), "{text}");
        self.note_step(live, &text).await
    }

    /// Records, before the write, that the canary begins, or goes on from the live Deployment.
    async fn note_step(&self, live: Option<&Value>, text: &str) -> Result<(), Cancelled> {
        let baseline = live.map(|live| Baseline::of(&self.planned.wanted.key, live));
        self.unless_cancelled(self.context.canary_goes_on(self.record, baseline, text)).await
    }

    /// Removes the request of a person that was followed. One that stays counts for no other step.
    pub async fn forget_request(&self, live: &Value) {
        if marks::annotation(live, marks::CANARY_REQUEST).is_none() {
            return;
        }
        let (key, uid) = (&self.planned.wanted.key, marks::uid(live));
        let none = [(marks::CANARY_REQUEST, None)];
        if let Err(error) = self.context.cluster.annotate(key, &self.served, Some(uid), &none).await {
            warn!(object = %key, %error, "failed to remove the request that was followed");
        }
    }
}

fn is_of(keeper: &Value, present: &Value) -> bool {
    revisions(std::slice::from_ref(keeper)).iter().any(|one| same_template(&one.template, present))
}

fn count(object: &Value, field: &str) -> i64 {
    object.pointer(field).and_then(Value::as_i64).unwrap_or_default()
}
