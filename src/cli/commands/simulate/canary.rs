//! The steps of a canary, as the daemon goes them: each has its locks, and its new pods are watched for its time.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

use super::change::same_pods;
use super::ended::SimulationEnd;
use super::recorder::{RecordedWatches, Recorder};
use super::scenario::{Failed, Scenario, Simulator};
use crate::cluster::{Mode, Written};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::canary::{
    CanaryKind, CanaryLock, CanaryMove, CanaryPods, CanarySteps, next_move, next_replaced, why_without_steps,
};
use belay_core::rollout::{Bake, Baseline, Judge, WaitingOn};

/// The least time between two looks at the pods of a step, and the most looks within one.
const LOOK: Duration = Duration::from_secs(5);
const LOOKS: u32 = 200;

/// The canary of a rollout.
struct Canary<'s> {
    kind: CanaryKind,
    steps: CanarySteps,
    /// The manifest.
    after: &'s Value,
    replicas: i64,
}

impl<'s> Canary<'s> {
    /// Returns the canary of a rollout; `None` if the daemon rolls it out without steps. `would_be` is the workload as the server would
    /// write it without them.
    fn of(key: &ObjectKey, before: &Value, would_be: &Value, after: &'s Value) -> Option<Canary<'s>> {
        let (steps, kind) = (CanarySteps::of(after), CanaryKind::of_key(key)?);
        if steps.count() == 0 || same_pods(before, would_be) {
            return None;
        }
        let replicas = after["spec"]["replicas"].as_i64().or_else(|| CanaryKind::wanted_pods(before)).unwrap_or(1);
        let first = CanaryLock::of_step(kind, &steps, 1, replicas);
        why_without_steps(&first, before).is_none().then_some(Canary { kind, steps, after, replicas })
    }
}

/// The end of a canary's steps.
struct CanaryPlayed {
    /// The workload right after the first write.
    first: Value,
    /// The end, if a step has failed.
    failed: Option<SimulationEnd>,
}

/// A step that is played.
struct StepPlay<'s> {
    simulator: &'s Simulator,
    watches: &'s mut RecordedWatches,
    recorder: &'s mut Recorder,
    after: &'s Value,
    lock: CanaryLock,
    judge: Judge,
    live: Value,
}

impl Simulator {
    /// Makes the change, by the steps of its canary if it has one, and watches until it is over. The workload is returned as it was
    /// right after the first write, with the fields of the manifest.
    pub(super) async fn roll_out(
        &self,
        scenario: &Scenario,
        before: Option<&Value>,
        watches: &mut RecordedWatches,
        recorder: &mut Recorder,
    ) -> Result<(Written, SimulationEnd), Failed> {
        let Some(before) = before.filter(|_| CanarySteps::of(&scenario.after).count() > 0) else {
            return self.roll_out_at_once(scenario, watches, recorder).await;
        };
        let mut manifest = self.cluster.apply(&self.key, &self.served, &scenario.after, Mode::DryRun).await?;
        let Some(canary) = Canary::of(&self.key, before, &manifest.object, &scenario.after) else {
            return self.roll_out_at_once(scenario, watches, recorder).await;
        };
        let CanaryPlayed { first, failed } = self.canary(&canary, watches, recorder).await?;
        manifest.object["metadata"]["resourceVersion"] = first["metadata"]["resourceVersion"].clone();
        if let Some(end) = failed {
            return Ok((manifest, end));
        }
        let whole = self.apply(&scenario.after).await?.object;
        recorder.canary(&whole, "the canary is over: all pods are replaced".to_owned());
        let judge = self.judge(&whole);
        let end = self.watch(watches, recorder, judge, whole).await?;
        Ok((manifest, end))
    }

    async fn roll_out_at_once(
        &self,
        scenario: &Scenario,
        watches: &mut RecordedWatches,
        recorder: &mut Recorder,
    ) -> Result<(Written, SimulationEnd), Failed> {
        let written = self.apply(&scenario.after).await?;
        let judge = self.judge(&written.object);
        let end = self.watch(watches, recorder, judge, written.object.clone()).await?;
        Ok((written, end))
    }

    /// Plays the steps before all pods are replaced. A step that waits for a person is promoted as soon as its pods are ready.
    async fn canary(
        &self,
        canary: &Canary<'_>,
        watches: &mut RecordedWatches,
        recorder: &mut Recorder,
    ) -> Result<CanaryPlayed, Failed> {
        let (mut first, mut failed, mut number) = (None, None, 1);
        while let Some(step) = canary.steps.step(number).filter(|_| failed.is_none()) {
            let lock = CanaryLock::of_step(canary.kind, &canary.steps, number, canary.replicas);
            let live = self.apply(&lock.onto(canary.after.clone())).await?.object;
            let watched = step.time.map_or("until belay promote".to_owned(), |time| format!("for {time}"));
            let pods = lock.new_pods();
            let many = if pods == 1 { "" } else { "s" };
            let told = format!("{}, {pods} new pod{many}, watched {watched}", lock.mark.words());
            recorder.canary(&live, told);
            first.get_or_insert_with(|| live.clone());
            let judge = self.judge(&live);
            let mut play = StepPlay { simulator: self, watches, recorder, after: canary.after, lock, judge, live };
            failed = play.run(step.time.map_or(Duration::ZERO, |time| time.0)).await?;
            number += 1;
        }
        Ok(CanaryPlayed { first: first.unwrap_or_default(), failed })
    }
}

impl StepPlay<'_> {
    /// Goes on until the pods of the step were ready for its time, and are ready at its end. Returns the end if they have failed.
    async fn run(&mut self, time: Duration) -> Result<Option<SimulationEnd>, Failed> {
        if let Some(failed) = self.until_ready().await? {
            return Ok(Some(failed));
        }
        match self.watched(time).await? {
            Some(failed) => Ok(Some(failed)),
            None => self.until_ready().await,
        }
    }

    /// Goes on until the new pods of the step are ready. Returns the end if they don't become so.
    async fn until_ready(&mut self) -> Result<Option<SimulationEnd>, Failed> {
        let Simulator { cluster, clock, key, .. } = self.simulator;
        loop {
            self.lock.replicas = CanaryKind::wanted_pods(&self.live).unwrap_or(self.lock.replicas);
            let pods = CanaryPods::of(&cluster.revision_pods(key, &self.live).await?);
            let is_held = self.lock.is_first_held_by(&self.live);
            let next = next_move(&self.lock, pods, is_held, self.live["spec"]["paused"] == true);
            if next == CanaryMove::Ready {
                return Ok(None);
            }
            if let Some(is_paused) = next.writes_paused() {
                self.lock.paused = is_paused;
                self.live = self.simulator.apply(&self.lock.onto(self.after.clone())).await?.object;
                self.judge.is_written_again(Baseline::of(key, &self.live));
                continue;
            }
            self.replace_on_nodes().await?;
            let now = clock.now();
            self.judge.observe_step(&self.live, self.after, (WaitingOn::Pods, String::new()), now);
            if let Some(suspicion) = self.judge.overdue(now) {
                let end = self.simulator.rule(&mut self.judge, suspicion, (&self.live, None), self.recorder).await?;
                return Ok(Some(end));
            }
            if self.recorder.is_too_long() {
                return Ok(Some(SimulationEnd::Unfinished { at: self.recorder.now() }));
            }
            self.pass(LOOK).await?;
        }
    }

    /// Watches the pods of the step for its time. Returns the end if they fail within it.
    async fn watched(&mut self, time: Duration) -> Result<Option<SimulationEnd>, Failed> {
        let Simulator { cluster, clock, key, .. } = self.simulator;
        let pods = cluster.observe(key, &self.live, None).await?.observation.pods;
        let length = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        let mut bake = Bake::begin(length, Some(&pods), clock.now());
        let look = LOOK.max(time / LOOKS);
        while clock.now() < bake.ends() || bake.is_unsure() {
            if self.recorder.is_too_long() {
                return Ok(Some(SimulationEnd::Unfinished { at: self.recorder.now() }));
            }
            let left = Duration::try_from(bake.ends().duration_since(clock.now())).unwrap_or_default();
            let over = tokio::time::Instant::now() + look.min(left.max(Duration::from_secs(1)));
            while tokio::time::Instant::now() < over {
                self.pass(over.saturating_duration_since(tokio::time::Instant::now())).await?;
            }
            let pods = cluster.observe(key, &self.live, Some(&bake)).await?.observation.pods;
            if bake.look(&pods).is_some() {
                let suspicion = self.lock.mark.failure();
                let seen = (&self.live, Some(&bake));
                let end = self.simulator.rule(&mut self.judge, suspicion, seen, self.recorder).await?;
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Takes the next event, or returns after `wait`.
    async fn pass(&mut self, wait: Duration) -> Result<(), Failed> {
        if let Some(live) = self.simulator.next(self.watches, self.recorder, wait).await? {
            self.live = live;
        }
        Ok(())
    }

    /// Deletes the old pods of the next nodes, where nobody else replaces them.
    async fn replace_on_nodes(&self) -> Result<(), Failed> {
        let Simulator { cluster, clock, key, .. } = self.simulator;
        if !self.lock.replaces_pods_of(&self.live) {
            return Ok(());
        }
        let pods = cluster.daemon_pods(key, &self.live).await?;
        for pod in next_replaced(&self.lock, &self.live, &pods, clock.now()) {
            cluster.delete_pod(pod).await?;
        }
        Ok(())
    }
}
