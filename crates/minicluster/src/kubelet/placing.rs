//! Carries out the scheduler's decisions: bindings, waits, and preemptions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::driver::Driver;
use super::events::ReportingComponent;
use super::pod::SeenPod;
use super::requests::{Error, SCHEDULER};
use super::scheduler::Decision;
use super::simulated_pod::{EventType, ReportedState};
use super::writes::{What, WriteResult};

const PREEMPTED: &str = "default-scheduler: preempting to accommodate a higher priority pod";

impl Driver {
    /// Decides about all pods in the queue.
    pub(super) fn place_pods(&mut self) {
        while let Some(decision) = self.scheduler.next() {
            match decision {
                Decision::Bind { pod, node } => {
                    let (pod, requests) = (pod.id(), self.io.requests.clone());
                    self.io.writes.add(async move {
                        let result = requests.bind(&pod, &node).await;
                        WriteResult { what: What::Binding(pod.uid, node), result }
                    });
                }
                Decision::Wait { pod, message } => self.say_wait(&pod, message, None),
                Decision::Preempt { pod, node, victims, message } => {
                    self.say_wait(&pod, message, Some(&node));
                    for victim in victims {
                        self.push_out(&victim, &pod, &node);
                    }
                }
            }
        }
    }

    /// Notes that a binding was written, or not.
    pub(super) fn bound(&mut self, uid: &str, node: &str, result: Result<(), Error>) {
        let Some(pod) = self.pods.get(uid).cloned() else { return };
        match result {
            Ok(()) => {
                self.failures.remove(uid);
                let message = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
                self.tell(&pod, EventType::Normal, "Scheduled", message);
            }
            Err(error) => {
                tracing::debug!(%error, namespace = pod.namespace, pod = pod.name, "failed to bind a pod; trying again");
                self.scheduler.not_bound(uid);
                self.place_later(uid);
            }
        }
    }

    /// Takes the result of writing the message about a waiting pod.
    pub(super) fn waits_written(&mut self, uid: &str, result: Result<(), Error>) {
        if let Err(error) = result {
            tracing::debug!(%error, uid, "failed to say that a pod can't be placed; trying again");
            self.waits.remove(uid);
            self.pushed.remove(uid);
            self.place_later(uid);
        }
    }

    fn say_wait(&mut self, pod: &Arc<SeenPod>, message: String, nominated: Option<&str>) {
        let said = (message.clone(), nominated.map(str::to_owned));
        if self.waits.insert(pod.uid.to_string(), said.clone()) == Some(said) {
            return;
        }
        let now = self.io.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let before =
            pod.conditions.iter().find(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
        let since = before.and_then(|before| serde_json::to_value(&before.last_transition_time).ok());
        let mut status = json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastProbeTime": null, "lastTransitionTime": since.unwrap_or(now.into()),
            "observedGeneration": pod.generation,
        }]});
        if let Some(node) = nominated {
            status["nominatedNodeName"] = node.into();
        }
        self.patch(pod, status);
        self.tell(pod, EventType::Warning, "FailedScheduling", message);
    }

    fn push_out(&mut self, victim: &Arc<SeenPod>, pod: &SeenPod, node: &str) {
        // It is chosen again and again until the watch shows that it goes.
        if !self.pushed.insert(victim.uid.to_string()) {
            return;
        }
        let now = self.io.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let status = json!({"conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": PREEMPTED,
            "lastProbeTime": null, "lastTransitionTime": now, "observedGeneration": victim.generation,
        }]});
        let (id, requests) = (victim.id(), self.io.requests.clone());
        self.io.writes.add(async move {
            let patched = requests.patch_pod_status(&id, status, SCHEDULER).await;
            let result = match patched {
                Ok(()) => requests.delete_pod(&id, None).await,
                Err(error) => Err(error),
            };
            WriteResult { what: What::Wait(id.uid), result }
        });
        self.tell(victim, EventType::Normal, "Preempted", format!("Preempted by pod {} on node {node}", pod.uid));
    }

    fn patch(&mut self, pod: &SeenPod, status: Value) {
        let (pod, requests) = (pod.id(), self.io.requests.clone());
        self.io.writes.add(async move {
            let result = requests.patch_pod_status(&pod, status, SCHEDULER).await;
            WriteResult { what: What::Wait(pod.uid), result }
        });
    }

    fn tell(&mut self, pod: &SeenPod, event_type: EventType, reason: &'static str, message: String) {
        let told = ReportedState { event_type, reason: reason.into(), message, field: None, count: 1 };
        self.events.tell(&mut self.io, &pod.id(), ReportingComponent::Scheduler, &told);
    }
}
