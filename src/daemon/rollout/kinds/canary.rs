//! A workload whose manifest asks for a canary: each step is one write with its locks, and the last write is the manifest
//! as it is. [`belay_core::rollout::canary`] says what the locks do.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::cluster::{ClusterError, Mode};
use crate::daemon::rollout::canary_progress::CanaryProgress;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use belay_core::manifest::Compact;
use belay_core::rollout::canary::{CanaryKind, CanaryLock, CanaryMark, CanaryPods, CanarySteps, why_without_steps};
use belay_core::rollout::{
    Baseline, Reason, ReasonCode, TemplateMarks, Trigger, body, keeps_template, marks, same_template, template,
};

/// The longest time that the end of a rollout waits until its step is marked as one that has failed.
const MARKING: Duration = Duration::from_secs(10);

/// The answer to a try of the first step.
enum CanaryTry {
    /// The server would keep its locks.
    Fits,
    /// The template is one that comes back.
    Unneeded,
    /// It can't begin.
    Refused(Reason),
}

impl RolloutTask {
    /// Returns true when the manifest asks for a canary, or one may be under way.
    pub fn may_have_canary(&self) -> bool {
        let is_of_kind = CanaryKind::of_key(&self.planned.wanted.key).is_some();
        is_of_kind && !self.apply.creates && !self.apply.keeps_hold && !self.apply.restores_held
    }

    /// Returns true when the live workload may have the locks of a canary.
    pub fn may_be_locked(&self) -> bool {
        let (wanted, is_continued) = (&self.planned.wanted, self.resume.continues_rollout);
        CanaryKind::of_key(&wanted.key).is_some()
            && (is_continued || marks::annotation(&wanted.manifest.value(), marks::CANARY).is_some())
    }

    /// Begins the canary that the manifest asks for, or takes up the one that is under way. Returns why it can't, if the cluster
    /// does not keep its locks.
    pub async fn begin_canary(&mut self) -> Result<Option<Reason>, Cancelled> {
        let Some(kind) = CanaryKind::of_key(&self.planned.wanted.key) else { return Ok(None) };
        let steps = CanarySteps::of(&self.planned.wanted.manifest.value());
        if !self.apply.rolls_out {
            if let Some(live) = self.read().await? {
                self.resume_canary(&live);
            }
            return Ok(None);
        }
        if steps.count() == 0 {
            return Ok(None);
        }
        let Some(live) = self.read().await? else { return Ok(None) };
        let mut canary = CanaryProgress::at(kind, steps, 1, self.replicas(&live), self.apply.body.clone());
        // No pod stays at the version of a canary that this one replaces. A Deployment's controller removes them.
        if let Some(replaced) = CanaryLock::on(&live).filter(|_| kind != CanaryKind::Deployment) {
            canary.lock.pods = canary.lock.pods.max(replaced.new_pods());
        }
        if let Some(why) = why_without_steps(&canary.lock, &live) {
            info!(object = %self.planned.wanted.key, "no canary: {why}");
            return Ok(None);
        }
        match Box::pin(self.try_canary(&canary, &live)).await? {
            CanaryTry::Fits => {}
            CanaryTry::Unneeded => {
                info!(object = %self.planned.wanted.key, "no canary: its pod template comes back");
                return Ok(None);
            }
            CanaryTry::Refused(why) => return Ok(Some(why)),
        }
        self.apply.body = canary.body();
        self.canary = Some(Box::new(canary));
        self.tell_step(None).await?;
        Ok(None)
    }

    /// Returns the failure of the step at which a live workload was left; `None` if it was not, or somebody asks to try it again.
    pub fn failed_step(&self, live: &Value) -> Option<Reason> {
        let mark = CanaryMark::on(live).filter(|mark| mark.failed && self.planned.wanted.trigger != Trigger::Retry)?;
        Some(mark.failure())
    }

    /// Takes up the canary that is under way on the live workload, if one is.
    pub fn resume_canary(&mut self, live: &Value) {
        let Some(mut lock) = CanaryLock::on(live).filter(|_| self.may_have_canary()) else { return };
        if self.failed_step(live).is_some() {
            // It was left at this step. What is applied beside it, another number of pods too, makes no more new pods and begins no other
            // look at it.
            lock.replicas = lock.replicas.max(self.replicas(live));
            self.apply.body = Compact::of(&lock.onto(self.whole_body(live)));
            (self.apply.scales, self.resume.continues_rollout) = (false, false);
            return;
        }
        let whole = Compact::of(&self.whole_body(live));
        let steps = CanarySteps::of(&self.planned.wanted.manifest.value());
        let mut canary = CanaryProgress::at(lock.kind, steps, lock.mark.step, self.replicas(live), whole);
        canary.lock.paused = lock.paused;
        // Steps that ask for fewer pods by now take none away: under a lower surge, the controller would take old pods away for them. After
        // the last step it goes on to all pods; until then the locks stay as they are.
        if canary.step().is_none() {
            canary.lock.pods = lock.pods;
        } else {
            canary.lock.keep_pods_of(&lock);
        }
        self.apply.body = canary.body();
        self.canary = Some(Box::new(canary));
        self.resume.continues_rollout = true;
    }

    /// Returns the number of pods that the workload is to have: its manifest's, else the one that an autoscaler sets.
    pub fn replicas(&self, live: &Value) -> i64 {
        let own = self.planned.wanted.manifest.value()["spec"]["replicas"].as_i64();
        own.filter(|_| !self.planned.wanted.ignored_fields.leaves_replicas())
            .or_else(|| CanaryKind::wanted_pods(live))
            .unwrap_or(1)
    }

    /// Tries the first step: the object as the server would make it has the locks, and a template that neither has pods already
    /// nor was complete lately.
    async fn try_canary(&self, canary: &CanaryProgress, live: &Value) -> Result<CanaryTry, Cancelled> {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        let sent = Compact::of(&self.planned.wanted.ignored_fields.leave(canary.body().read(), Some(live)));
        let asked = || context.cluster.apply(key, &self.served, &sent, Mode::DryRun);
        let would_be = match self.until_served(key, asked).await? {
            Ok(written) => written.object,
            Err(error) => return Ok(CanaryTry::Refused(error.to_reason())),
        };
        if self.was_complete_lately(&would_be) {
            return Ok(CanaryTry::Unneeded);
        }
        let present = template(&would_be).cloned().unwrap_or_default();
        // A correction brings back what was good, and so does a commit that ends a canary.
        let was_good = || context.last_good(key).is_some_and(|good| same_template(&good.template, &present));
        let comes_back = matches!(self.planned.wanted.trigger, Trigger::Drift(_)) || CanaryMark::on(live).is_some();
        if comes_back && was_good() {
            return Ok(CanaryTry::Unneeded);
        }
        let keepers = match self.until_served(key, || context.cluster.revision_keepers(key, live)).await? {
            Ok(keepers) => keepers,
            Err(error) => return Ok(CanaryTry::Refused(error.to_reason())),
        };
        // Under the first lock, the pods of an earlier canary are not available.
        if keepers
            .iter()
            .any(|keeper| keeps_template(keeper, &present) && count(keeper, "/status/availableReplicas") > 0)
        {
            return Ok(CanaryTry::Unneeded);
        }
        if !canary.lock.is_first_held_by(&would_be) {
            let message = format!(
                "its canary can't begin: source.ignore, or a webhook of the cluster, changes its {}",
                canary.lock.kind.locked_fields()
            );
            return Ok(CanaryTry::Refused(Reason::new(ReasonCode::InvalidManifest, message)));
        }
        Ok(CanaryTry::Fits)
    }

    /// Returns the locks of the present step, where the live workload is to have as many pods as it is by now. `None` where no
    /// canary is under way.
    pub fn present_lock(&mut self, live: &Value) -> Option<CanaryLock> {
        let replicas = self.replicas(live);
        let lock = &mut self.canary.as_mut()?.lock;
        lock.replicas = replicas;
        Some(*lock)
    }

    /// Returns the new pods of the canary; `Err` if they can't be read.
    pub async fn canary_pods(&self, live: &Value) -> Result<Result<CanaryPods, ClusterError>, Cancelled> {
        let (context, key) = (&self.context, &self.planned.wanted.key);
        let ask = || async {
            let _room = context.requests.room().await;
            context.cluster.revision_pods(key, live).await
        };
        Ok(self.until_served(key, ask).await?.map(|revisions| CanaryPods::of(&revisions)))
    }

    /// Writes the locks of the present step again, with or without the second one.
    pub async fn write_lock(&mut self, is_paused: bool) -> Result<Result<Value, ClusterError>, Cancelled> {
        if let Some(canary) = &mut self.canary {
            canary.lock.paused = is_paused;
            self.apply.body = canary.body();
        }
        self.retry_apply(&self.apply.body).await
    }

    /// Marks the step of a canary that has failed, and that stays as it is: a request to go on with it, or back, is refused. The end of
    /// the rollout waits no longer than [`MARKING`] for that.
    pub async fn mark_failed_step(&self) {
        let mark = async {
            let mut wait = Backoff::between(Duration::from_secs(1), MARKING);
            loop {
                match self.mark_live_step().await {
                    Err(error) if error.is_the_worlds() || error.is_conflict() => tokio::time::sleep(wait.wait()).await,
                    marked => return marked,
                }
            }
        };
        let why = match timeout(MARKING, mark).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the API server did not take the mark within {} s", MARKING.as_secs()),
        };
        warn!(object = %self.planned.wanted.key, error = why, "failed to mark the step of the canary as one that has failed");
    }

    /// Writes the locks of the live workload as they are, with the mark. A workload that somebody changes at that moment is not written
    /// over.
    async fn mark_live_step(&self) -> Result<(), ClusterError> {
        let (cluster, key) = (&self.context.cluster, &self.planned.wanted.key);
        let Some(live) = cluster.get(key, &self.served).await? else { return Ok(()) };
        // The template of a rollout that is continued names the commit that began it.
        let is_judged = self.is_ours(&live) || self.resume.continues_rollout;
        let Some(mut lock) = CanaryLock::on(&live).filter(|_| is_judged) else { return Ok(()) };
        lock.mark.failed = true;
        let mut locked = lock.onto(self.whole_body(&live));
        locked["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        let sent = self.planned.wanted.ignored_fields.leave(locked, Some(&live));
        cluster.apply(key, &self.served, &Compact::of(&sent), Mode::Real).await.map(|_| ())
    }

    /// Returns the body that applies the manifest without locks.
    fn whole_body(&self, live: &Value) -> Value {
        body(&self.planned.wanted.value(), &self.context.config.name, &TemplateMarks::on(live), None)
    }

    /// Goes on after a step: to the next one, or to all pods. `None` where no canary is under way.
    pub async fn go_on_with_canary(
        &mut self,
        live: &Arc<Value>,
    ) -> Result<Option<Result<Value, ClusterError>>, Cancelled> {
        let Some(canary) = self.canary.take() else { return Ok(None) };
        let next = canary.lock.mark.step.saturating_add(1);
        if canary.steps.step(next).is_some() {
            let kind = canary.lock.kind;
            let CanaryProgress { steps, whole, lock, .. } = *canary;
            let mut canary = CanaryProgress::at(kind, steps, next, self.replicas(live), whole);
            canary.lock.keep_pods_of(&lock);
            self.apply.body = canary.body();
            self.canary = Some(Box::new(canary));
            self.tell_step(Some(live)).await?;
        } else {
            self.apply.body = canary.whole;
            self.note_step(Some(live), "the canary is over: all pods are replaced").await?;
        }
        let written = self.retry_apply(&self.apply.body).await?;
        if let Ok(written) = &written {
            self.forget_request(written).await;
        }
        Ok(Some(written))
    }

    async fn tell_step(&self, live: Option<&Value>) -> Result<(), Cancelled> {
        let Some(canary) = &self.canary else { return Ok(()) };
        let pods = canary.lock.new_pods();
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

fn count(object: &Value, field: &str) -> i64 {
    object.pointer(field).and_then(Value::as_i64).unwrap_or_default()
}
