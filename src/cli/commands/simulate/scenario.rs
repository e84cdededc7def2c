//! Plays a rollout on the embedded cluster: virtual time on a runtime of its own, so that ten minutes take milliseconds
//! and the same seed gives the same scenario.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::Instant;

use super::ended::{SimulationEnd, failed_condition};
use super::recorder::{LONGEST, RecordedWatches, Recorder};
use super::recording::Recording;
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError, Mode, Served, ServerRefusal, Written};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Bake, Baseline, IgnoredFields, Judge, Judgement, Reach, Reason, Verdict, before_apply};
use minicluster::{MiniCluster, NodeSpec, Part};

/// The moment at which the scenario begins, in seconds since 1970: the output counts from the change.
const START_SECONDS: i64 = 946_684_800;
/// The time for which everything is left alone before the change.
const CALM: Duration = Duration::from_secs(5);
/// Nodes have nobody to renew leases for.
const HEARTBEAT: Duration = Duration::from_secs(24 * 3600);
/// The time for which crashes are watched beyond the first.
const AFTERMATH: Duration = Duration::from_secs(30);

/// The scenario to simulate.
pub(super) struct Scenario {
    pub seed: u64,
    pub nodes: Vec<NodeSpec>,
    /// The objects that exist before, in order.
    pub provided: Vec<(ObjectKey, Value)>,
    pub key: ObjectKey,
    pub before: Option<Value>,
    pub after: Value,
    /// The time for which crashes are watched after the end.
    pub watch_on: Option<Duration>,
}

/// The reason for which there was no scenario.
#[derive(Debug)]
pub(super) enum Failed {
    /// The API server refuses the workload.
    Refused(ServerRefusal),
    /// Something else.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Failed {
        Failed::Other(error)
    }
}

impl From<ClusterError> for Failed {
    fn from(error: ClusterError) -> Failed {
        match error {
            ClusterError::Refused(refusal) => Failed::Refused(refusal),
            other => Failed::Other(other.into()),
        }
    }
}

impl Scenario {
    /// Plays it. Not to be called from an async task: it has a runtime of its own.
    pub(super) fn run(self) -> Result<Recording, Failed> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.context("failed to start the simulation")?;
        runtime.block_on(Box::pin(self.scenario()))
    }

    async fn scenario(self) -> Result<Recording, Failed> {
        let dawn = Timestamp::from_second(START_SECONDS).unwrap_or_default();
        let clock = Clock::tokio(dawn);
        // Nothing here reads volumes or roles; without them, generated names stay as they are.
        let builder = MiniCluster::builder().without(Part::Volumes).without(Part::Roles);
        let builder = builder.seed(self.seed).clock(clock.clone()).heartbeat(HEARTBEAT);
        let started = builder.node_specs(self.nodes.clone()).start().await;
        let running = started.context("failed to start the embedded cluster")?;
        let cluster = Cluster::new(running.client_as("simulate"), clock.clone());
        for (key, object) in &self.provided {
            provide(&cluster, key, object).await?;
        }
        let version = self.after["apiVersion"].as_str().unwrap_or_default();
        let served = cluster.served(version, &self.key.kind).await.map_err(anyhow::Error::from)?;
        let simulator = Simulator { clock, cluster, client: running.client(), key: self.key.clone(), served };
        let recording = simulator.run(&self).await;
        running.stop().await;
        recording
    }
}

/// Creates the objects that the workload refers to.
async fn provide(cluster: &Cluster, key: &ObjectKey, object: &Value) -> anyhow::Result<()> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    match cluster.served(version, &key.kind).await {
        Ok(served) => match cluster.apply(key, &served, object, Mode::Real).await {
            Ok(_) => Ok(()),
            Err(error) => Err(anyhow!("the embedded cluster refuses {key}: {error}")),
        },
        // A kind that is unknown here has nothing to do with pods.
        Err(ClusterError::Missing { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The embedded cluster and the workload on it.
pub(super) struct Simulator {
    pub(super) clock: Clock,
    pub(super) cluster: Cluster,
    client: Client,
    pub(super) key: ObjectKey,
    pub(super) served: Served,
}

impl Simulator {
    async fn run(&self, scenario: &Scenario) -> Result<Recording, Failed> {
        let before = match &scenario.before {
            Some(before) => Some(self.roll_out_before(before).await?),
            None => None,
        };
        // On the second, as times in objects are.
        let past = Duration::from_nanos(u64::try_from(self.clock.now().subsec_nanosecond()).unwrap_or(0));
        tokio::time::sleep(CALM + Duration::from_secs(1).saturating_sub(past)).await;
        let mut watches = self.watches();
        let mut recorder = Recorder::default();
        recorder.first(&mut watches).await?;
        let start = self.clock.now();
        recorder.start = Some(Instant::now());
        let (Written { object: after, warnings, .. }, end) =
            self.roll_out(scenario, before.as_ref(), &mut watches, &mut recorder).await?;
        let back = match &end {
            SimulationEnd::Failed { .. } if before.is_some() => {
                self.take_back(scenario, &mut watches, &mut recorder).await?
            }
            _ => None,
        };
        if let (SimulationEnd::Complete { .. }, Some(more)) = (&end, scenario.watch_on) {
            self.aftermath(&mut watches, &mut recorder, more.saturating_add(AFTERMATH)).await?;
        }
        let length = recorder.now();
        let mut seen = recorder.seen;
        seen.sort_by_key(|seen| seen.revision);
        Ok(Recording { key: self.key.clone(), before, after, start, seen, end, back, length, warnings })
    }

    /// Brings the workload to where it was before the change.
    async fn roll_out_before(&self, before: &Value) -> Result<Value, Failed> {
        let mut watches = self.watches();
        let mut recorder = Recorder { start: Some(Instant::now()), ..Recorder::default() };
        let written = self.apply(before).await?.object;
        let judge = self.judge(&written);
        match self.watch(&mut watches, &mut recorder, judge, written).await? {
            SimulationEnd::Complete { .. } => {}
            SimulationEnd::Failed { reason, .. } | SimulationEnd::Stuck { reason, .. } => {
                return Err(Failed::Other(anyhow!(
                    "there is nothing to roll out from: the version before does not get ready either: {reason}"
                )));
            }
            SimulationEnd::Unfinished { .. } => {
                return Err(Failed::Other(anyhow!("the version before does not get ready within a week")));
            }
        }
        let live = self.cluster.get(&self.key, &self.served).await?;
        Ok(live.context("the workload is gone")?)
    }

    pub(super) async fn apply(&self, object: &Value) -> Result<Written, ClusterError> {
        let live = self.cluster.get(&self.key, &self.served).await?;
        if let Some(patch) =
            live.and_then(|live| before_apply(&live, object, &IgnoredFields::default(), Reach::Manifest))
        {
            self.cluster.json_patch(&self.key, &self.served, &patch, Mode::Real).await?;
        }
        self.cluster.apply(&self.key, &self.served, object, Mode::Real).await
    }

    pub(super) fn judge(&self, written: &Value) -> Judge {
        let key = self.judged();
        let baseline = Baseline::of(&key, written);
        Judge::new(key, baseline, self.clock.now())
    }

    /// Returns a ReplicaSet, which belay has no rollouts for, is judged as the ReplicationController that it succeeded.
    fn judged(&self) -> ObjectKey {
        match self.key.kind.as_str() {
            "ReplicaSet" => {
                ObjectKey { group: String::new(), kind: "ReplicationController".to_owned(), ..self.key.clone() }
            }
            _ => self.key.clone(),
        }
    }

    fn watches(&self) -> RecordedWatches {
        let namespace = self.key.namespace.as_deref().unwrap_or_default();
        let resource = ApiResource {
            group: self.served.group.clone(),
            version: self.served.version.clone(),
            api_version: self.served.api_version(),
            kind: self.served.kind.clone(),
            plural: self.served.resource.clone(),
        };
        let config = watcher::Config::default;
        let named = config().fields(&format!("metadata.name={}", self.key.name));
        let client = || self.client.clone();
        RecordedWatches {
            pods: watcher(Api::namespaced(client(), namespace), config()).boxed(),
            sets: watcher(Api::namespaced(client(), namespace), config()).boxed(),
            workload: watcher(Api::namespaced_with(client(), namespace, &resource), named).boxed(),
        }
    }

    /// Watches until the judge has ruled and nothing is on its way out.
    pub(super) async fn watch(
        &self,
        watches: &mut RecordedWatches,
        recorder: &mut Recorder,
        mut judge: Judge,
        mut live: Value,
    ) -> anyhow::Result<SimulationEnd> {
        let mut complete = None;
        loop {
            let now = self.clock.now();
            match judge.observe(&live, now) {
                Verdict::Complete => {
                    let at = *complete.get_or_insert_with(|| recorder.now());
                    if recorder.stopping.is_empty() {
                        return Ok(SimulationEnd::Complete { at });
                    }
                }
                Verdict::Suspect(suspicion) => return self.rule(&mut judge, suspicion, (&live, None), recorder).await,
                Verdict::Waiting(_) => complete = None,
            }
            if let Some(suspicion) = judge.overdue(now).filter(|_| complete.is_none()) {
                return self.rule(&mut judge, suspicion, (&live, None), recorder).await;
            }
            if recorder.is_too_long() {
                return Ok(SimulationEnd::Unfinished { at: recorder.now() });
            }
            let due = judge.due().filter(|_| complete.is_none());
            let wait = due.map_or(LONGEST, |due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
            if let Some(next) = self.next(watches, recorder, wait).await? {
                live = next;
            }
        }
    }

    pub(super) async fn rule(
        &self,
        judge: &mut Judge,
        suspicion: Reason,
        (live, bake): (&Value, Option<&Bake>),
        recorder: &Recorder,
    ) -> anyhow::Result<SimulationEnd> {
        let at = recorder.now();
        let observed = self.cluster.observe(&self.judged(), live, bake).await?;
        Ok(match judge.rule(suspicion, &observed.observation, self.clock.now()) {
            Judgement::Failed(reason) => SimulationEnd::Failed { at, reason, condition: failed_condition(live) },
            Judgement::Infrastructure(reason) => SimulationEnd::Stuck { at, reason },
        })
    }

    async fn aftermath(
        &self,
        watches: &mut RecordedWatches,
        recorder: &mut Recorder,
        length: Duration,
    ) -> anyhow::Result<()> {
        let over = recorder.now().saturating_add(length);
        while recorder.now() < over && !recorder.is_too_long() {
            let left = over.saturating_sub(recorder.now());
            self.next(watches, recorder, left).await?;
        }
        Ok(())
    }

    /// Takes the next event, or returns after `wait`. The workload, if it changed.
    pub(super) async fn next(
        &self,
        watches: &mut RecordedWatches,
        recorder: &mut Recorder,
        wait: Duration,
    ) -> anyhow::Result<Option<Value>> {
        let broke = || anyhow!("the watch of the embedded cluster broke");
        tokio::select! {
            biased;
            pod = watches.pods.next() => recorder.pod(pod.ok_or_else(broke)?)?,
            set = watches.sets.next() => recorder.set(set.ok_or_else(broke)?)?,
            workload = watches.workload.next() => match workload.ok_or_else(broke)?.context("failed to watch")? {
                Event::Apply(object) | Event::InitApply(object) => return Ok(Some(self.typed(&object)?)),
                Event::Delete(_) => return Err(anyhow!("the workload is gone")),
                Event::Init | Event::InitDone => {}
            },
            () = tokio::time::sleep(wait) => {}
        }
        Ok(None)
    }

    fn typed(&self, object: &DynamicObject) -> anyhow::Result<Value> {
        let mut value = serde_json::to_value(object)?;
        value["apiVersion"] = self.served.api_version().into();
        value["kind"] = self.served.kind.clone().into();
        Ok(value)
    }
}
