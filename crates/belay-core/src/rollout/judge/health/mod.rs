//! An object's own account of itself. One file per kind: the health in its status, once it is about the present
//! generation.

mod custom;
mod daemon_set;
mod deployment;
mod hook_pod;
mod job;
mod pod;
mod pod_events;
mod pod_start;
mod replication_controller;
mod stateful_set;
mod wrong_pods;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::manifest::ObjectKey;
use crate::rollout::canary::CanaryMark;
use crate::rollout::{Reason, Workload, is_hook_pod, marks};

pub use custom::is_taken_up;
pub use pod::{Fault, PodAccount, account_of_pod};
pub(in crate::rollout) use pod_events::told_by_event;
pub use pod_start::PodStart;
pub use wrong_pods::wrong_pods;

/// The status of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The generation that the status is about; 0 if the kind does not say.
    pub observed_generation: i64,
    /// Its standing.
    pub standing: Standing,
    /// The failure in its status, even if its counters say that it is complete nevertheless.
    pub failure: Option<Failure>,
    /// The numbers of its pods, by their progress.
    pub counters: Counters,
    /// One sentence for people.
    pub message: String,
}

/// The standing of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Everything that it should have is there.
    Complete,
    /// On its way.
    Moving,
    /// Somebody paused it: it waits, and no deadline runs.
    Paused,
    /// It says itself that it has failed; [`Health::failure`] says why.
    Failed,
}

/// An object's own word that it has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason.
    pub reason: Reason,
    /// A text that differs for every new failure, so that an old one is known again: the condition's time.
    pub mark: String,
}

/// The numbers of a workload's pods. Their growth is progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Pods wanted.
    pub desired: i64,
    /// Pods of any revision.
    pub total: i64,
    /// Pods of the present template.
    pub updated: i64,
    /// Ready pods of any revision.
    pub ready: i64,
    /// Available pods of any revision.
    pub available: i64,
}

impl Counters {
    /// Returns true when these show progress against earlier ones: more new pods, fewer old ones, more ready, more
    /// available.
    #[must_use]
    pub fn progressed_since(&self, earlier: &Counters) -> bool {
        self.updated > earlier.updated
            || self.total - self.updated < earlier.total - earlier.updated
            || self.ready > earlier.ready
            || self.available > earlier.available
    }

    /// Returns the furthest of these and earlier ones. If there are more new pods or fewer old ones than ever, ready
    /// pods are counted again, for they may now be others.
    #[must_use]
    pub fn best_of(&self, earlier: &Counters) -> Counters {
        let old = |counters: &Counters| counters.total - counters.updated;
        if self.updated > earlier.updated || old(self) < old(earlier) {
            let updated = self.updated.max(earlier.updated);
            return Counters { updated, total: updated + old(self).min(old(earlier)), ..*self };
        }
        let (ready, available) = (self.ready.max(earlier.ready), self.available.max(earlier.available));
        Counters { ready, available, ..*earlier }
    }
}

/// Returns the health of a live object by its status; `None` for kinds that are healthy as soon as they exist
/// (ConfigMap, Service …).
#[must_use]
pub fn health(key: &ObjectKey, object: &Value) -> Option<Health> {
    match Workload::of(key) {
        Some(Workload::Deployment) => Some(deployment::health(object)),
        Some(Workload::StatefulSet) => Some(stateful_set::health(object)),
        Some(Workload::DaemonSet) => Some(daemon_set::health(object)),
        Some(Workload::ReplicationController) => Some(replication_controller::health(object)),
        Some(Workload::Job) => Some(job::health(object)),
        None if is_hook_pod(key, object) => Some(hook_pod::health(object)),
        None => custom::health(key, object),
    }
}

/// Returns the words for the step of a canary that is under way on an object.
fn canary_step(object: &Value, counters: &Counters) -> Option<String> {
    let Counters { desired, updated, .. } = counters;
    Some(format!("{}, at {updated} of {desired} new pods", CanaryMark::on(object)?.words()))
}

/// Returns true when a live object's status says that its present generation is complete. An object without a status of its
/// own is complete as soon as it exists.
#[must_use]
pub fn is_complete(key: &ObjectKey, object: &Value) -> bool {
    health(key, object).is_none_or(|health| {
        health.observed_generation >= marks::generation(object) && health.standing == Standing::Complete
    })
}

/// Returns the deadline of a workload in seconds: its own if the kind has one, else that of its annotation, else 600 as
/// Kubernetes has it for Deployments. `None` if it has none by its annotation, and for kinds that may take their time
/// unless their annotation says otherwise: Jobs and custom kinds.
#[must_use]
pub fn progress_deadline_seconds(key: &ObjectKey, object: &Value) -> Option<i64> {
    const DEFAULT: i64 = 600;
    const NEVER: i64 = 2_147_483_647;
    let annotated = marks::annotation(object, marks::PROGRESS_DEADLINE).and_then(|text| text.parse().ok());
    let seconds = match Workload::of(key) {
        Some(Workload::Deployment) => object["spec"]["progressDeadlineSeconds"].as_i64(),
        Some(Workload::Job) | None => Some(annotated?),
        Some(_) => annotated,
    };
    Some(seconds.unwrap_or(DEFAULT)).filter(|seconds| (1..NEVER).contains(seconds))
}

/// Returns true when the cluster itself still says that the present template of a workload was complete before,
/// whatever has become of its pods since. For kinds that do not say so, the answer is false.
#[must_use]
pub fn was_complete(key: &ObjectKey, object: &Value) -> bool {
    if number(object, "/status/observedGeneration") < number(object, "/metadata/generation") {
        return false;
    }
    match Workload::of(key) {
        Some(Workload::Deployment) => deployment::was_complete(object),
        Some(Workload::StatefulSet) => stateful_set::was_complete(object),
        Some(Workload::DaemonSet | Workload::ReplicationController | Workload::Job) | None => false,
    }
}

fn number(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns a number of pods, which Kubernetes keeps in 32 bits: a live object may say any other, and numbers of pods are
/// added and subtracted.
pub(in crate::rollout) fn pod_count(said: &Value) -> Option<i64> {
    said.as_i64().map(|count| count.clamp(0, i64::from(i32::MAX)))
}

/// Returns the number of pods at a path; 0 where there is none.
fn pods(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(pod_count).unwrap_or_default()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Returns true when a pod or a node says that it is ready.
#[must_use]
pub fn is_ready(object: &Value) -> bool {
    condition(object, "Ready").is_some_and(|condition| condition["status"] == "True")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Returns the failure in a failed condition.
fn failure(condition: &Value, code: &str, message: String) -> Failure {
    let at =
        ["lastUpdateTime", "lastTransitionTime"].iter().map(|field| text(condition, field)).find(|at| !at.is_empty());
    Failure { reason: Reason::new(code.into(), message), mark: format!("{code} {}", at.unwrap_or_default()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The numbers of a live object; a program with checks of its arithmetic ends where they are too large.
    #[test]
    fn numbers_of_pods_are_those_that_kubernetes_can_have() {
        const SAID: [i64; 6] = [i64::MIN, -1, 0, 1, 1 << 40, i64::MAX];
        const MOST: i64 = 1 << 32;
        let kinds = [
            ("apps", "Deployment"),
            ("apps", "StatefulSet"),
            ("apps", "DaemonSet"),
            ("batch", "Job"),
            ("", "ReplicationController"),
        ];
        for (group, kind) in kinds {
            let key =
                ObjectKey { group: group.to_owned(), kind: kind.to_owned(), namespace: None, name: "web".to_owned() };
            let mut best = Counters::default();
            for (wanted, said, other) in
                SAID.iter().flat_map(|a| SAID.iter().flat_map(move |b| SAID.iter().map(move |c| (a, b, c))))
            {
                let live = json!({
                    "spec": {"replicas": wanted, "completions": wanted, "updateStrategy": {"rollingUpdate": {"partition": other}}},
                    "status": {"replicas": said, "updatedReplicas": other, "readyReplicas": said, "availableReplicas": wanted,
                        "desiredNumberScheduled": wanted, "currentNumberScheduled": said, "updatedNumberScheduled": other,
                        "numberReady": said, "numberAvailable": wanted, "active": said, "succeeded": said, "ready": other}});
                let counters = health(&key, &live).unwrap().counters;
                let Counters { desired, total, updated, ready, available } = counters;
                for number in [desired, total, updated, ready, available] {
                    assert!((0..=MOST).contains(&number), "{kind}: {counters:?}");
                }
                let _ = counters.progressed_since(&best);
                best = counters.best_of(&best);
            }
        }
    }
}
