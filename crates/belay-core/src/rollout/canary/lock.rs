//! The locks of a canary: the fields of the workload by which Kubernetes' controller goes no further than the step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::kind::CanaryKind;
use super::steps::CanarySteps;
use crate::rollout::{Reason, ReasonCode, marks};

/// No new pod of a Deployment counts as available before so many seconds: ten years.
const MIN_READY_SECONDS: i64 = 315_360_000;
/// The deadline that the API server wants above that. belay judges a step by the manifest's own deadline.
const DEADLINE_SECONDS: i64 = MIN_READY_SECONDS + 86_400;

/// The step of a canary that is under way, as an annotation of the workload says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CanaryMark {
    /// The step, counted from 1.
    pub step: usize,
    /// The number of steps.
    pub of: usize,
    /// True when the step has failed and the workload was left at it: no rollout goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

impl CanaryMark {
    /// Returns the mark of a step that is under way.
    #[must_use]
    pub fn at(step: usize, of: usize) -> CanaryMark {
        CanaryMark { step, of, failed: false }
    }

    /// Returns the words for the step: `canary step 1 of 2`.
    #[must_use]
    pub fn words(self) -> String {
        format!("canary step {} of {}", self.step, self.of)
    }

    /// Returns the suspicion that pods which were ready within the step have failed.
    #[must_use]
    pub fn failure(self) -> Reason {
        let message = format!("it failed within {}, after its new pods were ready", self.words());
        Reason::new(ReasonCode::CanaryFailed, message)
    }

    /// Returns the step of the canary of a live workload; `None` if none is under way. The annotation alone says nothing: an
    /// undo with kubectl brings back the annotations of a revision, and anybody may write one.
    #[must_use]
    pub fn on(live: &Value) -> Option<CanaryMark> {
        let spec = &live["spec"];
        let is_locked = match CanaryKind::of(live) {
            CanaryKind::Deployment => {
                spec["minReadySeconds"] == MIN_READY_SECONDS || spec["progressDeadlineSeconds"] == DEADLINE_SECONDS
            }
            CanaryKind::StatefulSet => partition(live) > 0,
            CanaryKind::DaemonSet => spec["updateStrategy"]["type"] == "OnDelete",
        };
        marks::read(live, marks::CANARY_STEP).filter(|_| is_locked)
    }
}

/// The locks of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryLock {
    /// The kind of the workload.
    pub kind: CanaryKind,
    /// The step.
    pub mark: CanaryMark,
    /// The number of new pods of the step.
    pub pods: i64,
    /// The number of pods that the workload is to have.
    pub replicas: i64,
    /// True when the pods of a Deployment are there, and the controller is to do nothing more.
    pub paused: bool,
}

impl CanaryLock {
    /// Returns the locks of a step of a workload that is to have so many pods.
    #[must_use]
    pub fn of_step(kind: CanaryKind, steps: &CanarySteps, step: usize, replicas: i64) -> CanaryLock {
        let mark = CanaryMark::at(step, steps.count());
        CanaryLock { kind, mark, pods: steps.pods(step, replicas), replicas, paused: false }
    }

    /// Returns the locks of the canary that is under way on a live workload; `None` if none is.
    #[must_use]
    pub fn on(live: &Value) -> Option<CanaryLock> {
        let (mark, kind) = (CanaryMark::on(live)?, CanaryKind::of(live));
        let replicas = CanaryKind::wanted_pods(live).unwrap_or(1);
        let pods = match kind {
            CanaryKind::Deployment => {
                live.pointer("/spec/strategy/rollingUpdate/maxSurge").and_then(Value::as_i64).unwrap_or(1).max(1)
            }
            CanaryKind::StatefulSet => replicas.saturating_sub(partition(live)),
            CanaryKind::DaemonSet => live["status"]["updatedNumberScheduled"].as_i64().unwrap_or_default(),
        };
        Some(CanaryLock { kind, mark, pods, replicas, paused: live["spec"]["paused"] == true })
    }

    /// Asks for no fewer new pods than an earlier lock of a workload of the same size did.
    pub fn keep_pods_of(&mut self, earlier: &CanaryLock) {
        if self.replicas == earlier.replicas {
            self.pods = self.pods.max(earlier.pods);
        }
    }

    /// Returns the number of new pods that there are to be: those of the step, as far as there are so many.
    #[must_use]
    pub fn new_pods(&self) -> i64 {
        self.pods.min(self.kind.most_new(self.replicas))
    }

    /// Returns true when belay deletes the old pods of the step: of a live DaemonSet whose controller has seen the present template, or
    /// it would make the same pods again.
    #[must_use]
    pub fn replaces_pods_of(&self, live: &Value) -> bool {
        let seen = live["status"]["observedGeneration"].as_i64().unwrap_or_default();
        self.kind == CanaryKind::DaemonSet && seen >= marks::generation(live)
    }

    /// Returns a body with the locks in place of the manifest's own fields.
    #[must_use]
    pub fn onto(&self, mut body: Value) -> Value {
        if let Some(spec) = body.get_mut("spec").filter(|spec| spec.is_object()) {
            self.lock(spec);
        }
        marks::say(&mut body["metadata"], "annotations", marks::CANARY_STEP, Some(&marks::written(&self.mark)));
        body
    }

    /// Returns true when a live workload has the locks of this step. `paused` is the second one of a Deployment, and not compared.
    #[must_use]
    pub fn is_first_held_by(&self, live: &Value) -> bool {
        CanaryLock { paused: false, ..*self }.onto(live.clone()) == *live
    }

    /// Returns the number of pods of a StatefulSet that keep their revision.
    fn partition(&self) -> i64 {
        self.replicas.saturating_sub(self.new_pods()).max(0)
    }

    fn lock(&self, spec: &mut Value) {
        match self.kind {
            CanaryKind::Deployment => {
                let surge = json!({"maxSurge": self.pods, "maxUnavailable": 0});
                spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": surge});
                spec["minReadySeconds"] = MIN_READY_SECONDS.into();
                spec["progressDeadlineSeconds"] = DEADLINE_SECONDS.into();
                if self.paused {
                    spec["paused"] = true.into();
                }
            }
            CanaryKind::StatefulSet => {
                let strategy = object_in(spec, "updateStrategy");
                strategy["type"] = "RollingUpdate".into();
                object_in(strategy, "rollingUpdate")["partition"] = self.partition().into();
            }
            CanaryKind::DaemonSet => object_in(spec, "updateStrategy")["type"] = "OnDelete".into(),
        }
    }
}

/// Returns the partition of a live StatefulSet; 0 where its controller replaces all pods, or none.
pub(super) fn partition(live: &Value) -> i64 {
    let strategy = &live["spec"]["updateStrategy"];
    let partition = strategy["rollingUpdate"]["partition"].as_i64().filter(|_| strategy["type"] == "RollingUpdate");
    partition.unwrap_or_default()
}

/// Returns the object of that name in another, which is made if there is none.
fn object_in<'a>(parent: &'a mut Value, name: &str) -> &'a mut Value {
    let value = &mut parent[name];
    if !value.is_object() {
        *value = json!({});
    }
    value
}

/// Sets a field of an object that does not have it.
fn default_in(object: &mut Value, name: &str, default: Value) {
    if object.get(name).is_none() {
        object[name] = default;
    }
}

/// Returns a body of the manifest with the locks of the canary that is under way on a live workload, if one is: they are no
/// drift.
#[must_use]
pub fn keep_lock(body: Value, live: &Value) -> Value {
    match CanaryLock::on(live) {
        Some(lock) => lock.onto(body),
        None => body,
    }
}

/// Returns a body that takes the locks of a live workload off where another manager has them, too: a person may have made it
/// anew from what was live (`kubectl replace --force`), and an apply leaves the fields of others.
#[must_use]
pub fn take_off_locks(mut body: Value, live: &Value) -> Value {
    let kind = CanaryKind::of(live);
    let is_locked = match kind {
        CanaryKind::Deployment => live["spec"]["minReadySeconds"] == MIN_READY_SECONDS,
        CanaryKind::StatefulSet | CanaryKind::DaemonSet => CanaryMark::on(live).is_some(),
    };
    let Some(spec) = body.get_mut("spec").filter(|spec| spec.is_object()) else { return body };
    if !is_locked || !is_others(kind, live) {
        return body;
    }
    match kind {
        CanaryKind::Deployment => {
            let rolling =
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
            for (name, default) in [
                ("minReadySeconds", 0.into()),
                ("progressDeadlineSeconds", 600.into()),
                ("strategy", rolling),
                ("paused", false.into()),
            ] {
                default_in(spec, name, default);
            }
        }
        CanaryKind::StatefulSet => {
            let strategy = object_in(spec, "updateStrategy");
            default_in(strategy, "type", "RollingUpdate".into());
            default_in(object_in(strategy, "rollingUpdate"), "partition", 0.into());
        }
        CanaryKind::DaemonSet => default_in(object_in(spec, "updateStrategy"), "type", "RollingUpdate".into()),
    }
    body
}

/// Returns true when another manager than belay has the fields of a live workload that are locks.
pub(super) fn is_others(kind: CanaryKind, live: &Value) -> bool {
    let fields: &[&str] = match kind {
        CanaryKind::Deployment => &["/f:spec/f:minReadySeconds", "/f:spec/f:progressDeadlineSeconds"],
        CanaryKind::StatefulSet => &["/f:spec/f:updateStrategy/f:rollingUpdate/f:partition"],
        CanaryKind::DaemonSet => &["/f:spec/f:updateStrategy/f:type"],
    };
    let managers = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut others = managers.filter(|entry| entry["manager"] != marks::FIELD_MANAGER);
    others.any(|entry| fields.iter().all(|path| entry["fieldsV1"].pointer(path).is_some()))
}

#[cfg(test)]
mod tests;
