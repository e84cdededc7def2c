//! The observations while the rollout ran, as few of them as the timeline needs.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use serde_json::Value;

use super::ended::{Back, SimulationEnd};
use belay_core::manifest::ObjectKey;

/// A rollout that was played.
pub(super) struct Recording {
    pub key: ObjectKey,
    /// The workload right before the change, as the server had it; `None` for a first deployment.
    pub before: Option<Value>,
    /// The workload right after the change.
    pub after: Value,
    /// When the change was made.
    pub start: Timestamp,
    /// Everything that was seen, in the order in which it was written.
    pub seen: Vec<ObservedAt>,
    /// The end.
    pub end: SimulationEnd,
    /// The rollback, if there was one.
    pub back: Option<Back>,
    /// The length of the observation.
    pub length: Duration,
    /// The warnings of the server.
    pub warnings: Vec<String>,
}

impl Recording {
    /// Returns true when it was rolled out by the steps of a canary.
    pub(super) fn has_canary(&self) -> bool {
        self.seen.iter().any(|seen| matches!(seen.what, Observation::CanaryStep(_)))
    }
}

/// Something that was seen.
#[derive(Clone, Debug)]
pub(super) struct ObservedAt {
    /// When, counted from the change.
    pub at: Duration,
    /// The revision of the write that it is.
    pub revision: u64,
    pub what: Observation,
}

#[derive(Clone, Debug)]
pub(super) enum Observation {
    /// A pod as it is from then on.
    Pod(PodState),
    /// A pod is gone.
    Gone(PodState),
    /// A set of pods of one revision is meant to have so many.
    Sized { set: String, replicas: i64 },
    /// A step of the canary begins, in words.
    CanaryStep(String),
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodState {
    pub uid: String,
    pub name: String,
    /// The hash of the revision that it belongs to.
    pub hash: String,
    /// The time since which it is ready.
    pub ready: Option<Timestamp>,
    /// True when it is being deleted.
    pub stopping: bool,
    /// True when all its containers have ended.
    pub ended: bool,
    /// The trouble with it, in one word: `ImagePullBackOff`.
    pub trouble: Option<String>,
    pub restarts: i32,
}

impl PodState {
    pub(super) fn of(pod: &Pod) -> PodState {
        let meta = &pod.metadata;
        let label = |name: &str| meta.labels.as_ref().and_then(|labels| labels.get(name)).cloned();
        let status = pod.status.clone().unwrap_or_default();
        let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
        let ready = ready.filter(|ready| ready.status == "True");
        let phase = status.phase.as_deref().unwrap_or_default();
        PodState {
            uid: meta.uid.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            hash: label("pod-template-hash").or_else(|| label("controller-revision-hash")).unwrap_or_default(),
            ready: ready.map(|ready| ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)),
            stopping: meta.deletion_timestamp.is_some(),
            ended: matches!(phase, "Succeeded" | "Failed"),
            trouble: trouble(&status),
            restarts: containers(&status).map(|container| container.restart_count).sum(),
        }
    }
}

fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.init_container_statuses.iter().chain(&status.container_statuses).flatten()
}

fn trouble(status: &PodStatus) -> Option<String> {
    if status.phase.as_deref() == Some("Failed") {
        return Some(status.reason.clone().unwrap_or_else(|| "Error".to_owned()));
    }
    let unscheduled = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled" && condition.status == "False" && condition.reason.is_some()
    });
    if let Some(unscheduled) = unscheduled {
        return unscheduled.reason.clone();
    }
    containers(status).find_map(|container| {
        let state = container.state.as_ref()?;
        let waiting = state.waiting.as_ref().and_then(|waiting| waiting.reason.clone());
        let waiting = waiting.filter(|reason| !["ContainerCreating", "PodInitializing"].contains(&reason.as_str()));
        let ended = state.terminated.as_ref().filter(|terminated| terminated.exit_code != 0);
        waiting.or_else(|| ended.map(|ended| ended.reason.clone().unwrap_or_else(|| "Error".to_owned())))
    })
}
