//! The watches during a simulated rollout, and the observations so far.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};
use serde_json::Value;
use tokio::time::Instant;

use super::recording::{Observation, ObservedAt, PodState};

/// The longest observation.
pub(super) const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// The largest number of observed changes.
const MOST_SEEN: usize = 2_000_000;

/// The watches while the rollout runs.
pub(super) struct RecordedWatches {
    pub pods: BoxStream<'static, watcher::Result<Event<Pod>>>,
    pub sets: BoxStream<'static, watcher::Result<Event<ReplicaSet>>>,
    pub workload: BoxStream<'static, watcher::Result<Event<DynamicObject>>>,
}

/// The observations so far.
#[derive(Default)]
pub(super) struct Recorder {
    pub start: Option<Instant>,
    pub seen: Vec<ObservedAt>,
    /// Pods on their way out, by uid.
    pub stopping: BTreeSet<String>,
}

impl Recorder {
    pub(super) fn now(&self) -> Duration {
        self.start.map_or(Duration::ZERO, |start| start.elapsed())
    }

    /// Returns true when it is watched no longer.
    pub(super) fn is_too_long(&self) -> bool {
        self.now() > LONGEST || self.seen.len() > MOST_SEEN
    }

    /// Takes a step of a canary that begins with this write.
    pub(super) fn canary(&mut self, written: &Value, told: String) {
        let revision = written["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        self.note(revision, Observation::CanaryStep(told));
    }

    /// Takes the objects that exist before the change.
    pub(super) async fn first(&mut self, watches: &mut RecordedWatches) -> anyhow::Result<()> {
        let broke = || anyhow!("the watch of the embedded cluster broke");
        let mut listed = [false; 3];
        while listed != [true; 3] {
            tokio::select! {
                biased;
                pod = watches.pods.next(), if !listed[0] => {
                    let pod = pod.ok_or_else(broke)?;
                    listed[0] = matches!(pod, Ok(Event::InitDone));
                    self.pod(pod)?;
                }
                set = watches.sets.next(), if !listed[1] => {
                    let set = set.ok_or_else(broke)?;
                    listed[1] = matches!(set, Ok(Event::InitDone));
                    self.set(set)?;
                }
                workload = watches.workload.next(), if !listed[2] => {
                    let workload = workload.ok_or_else(broke)?.context("failed to watch")?;
                    listed[2] = matches!(workload, Event::InitDone);
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, revision: Option<String>, what: Observation) {
        let revision = revision.and_then(|revision| revision.parse().ok()).unwrap_or_default();
        self.seen.push(ObservedAt { at: self.now(), revision, what });
    }

    pub(super) fn pod(&mut self, event: watcher::Result<Event<Pod>>) -> anyhow::Result<()> {
        match event.context("failed to watch pods")? {
            Event::Apply(pod) | Event::InitApply(pod) => {
                let state = PodState::of(&pod);
                if state.stopping {
                    self.stopping.insert(state.uid.clone());
                }
                self.note(pod.resource_version(), Observation::Pod(state));
            }
            Event::Delete(pod) => {
                let state = PodState::of(&pod);
                self.stopping.remove(&state.uid);
                self.note(pod.resource_version(), Observation::Gone(state));
            }
            Event::Init | Event::InitDone => {}
        }
        Ok(())
    }

    pub(super) fn set(&mut self, event: watcher::Result<Event<ReplicaSet>>) -> anyhow::Result<()> {
        if let Event::Apply(set) | Event::InitApply(set) = event.context("failed to watch ReplicaSets")? {
            let replicas = set.spec.replicas.unwrap_or(1);
            self.note(set.resource_version(), Observation::Sized { set: set.name_any(), replicas: replicas.into() });
        }
        Ok(())
    }
}
