//! A pod's conditions. The moment of one moves only when its status flips.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container::{Container, Role};
use super::{Phase, SimulatedPod};
use crate::kubelet::pod::SeenPod;

/// The conditions that the kubelet writes, in its order.
#[derive(Clone, Debug, Default)]
pub struct Conditions(Vec<PodCondition>);

const ORDER: [&str; 6] =
    ["DisruptionTarget", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// A condition's status, with reason and message where it is false.
struct Answer {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Conditions {
    /// Those that the pod has already.
    pub fn new(pod: &SeenPod) -> Conditions {
        let known = |kind: &&str| pod.conditions.iter().find(|condition| condition.type_ == **kind).cloned();
        Conditions(ORDER.iter().filter_map(known).collect())
    }

    /// All of them.
    pub fn all(&self) -> &[PodCondition] {
        &self.0
    }

    /// Says that the node ends the pod.
    pub fn disrupt(&mut self, pod: &SeenPod, message: &str, now: Timestamp) {
        let answer = Answer { holds: true, reason: Some("TerminationByKubelet"), message: Some(message.to_owned()) };
        self.set("DisruptionTarget", answer, pod.generation, now);
    }

    fn set(&mut self, kind: &str, answer: Answer, generation: Option<i64>, now: Timestamp) {
        let status = if answer.holds { "True" } else { "False" };
        let before = self.0.iter().find(|condition| condition.type_ == kind);
        let since =
            before.filter(|before| before.status == status).and_then(|before| before.last_transition_time.clone());
        let condition = PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: answer.reason.map(str::to_owned),
            message: answer.message,
            last_probe_time: None,
            last_transition_time: Some(since.unwrap_or(Time(now))),
            observed_generation: generation,
        };
        self.0.retain(|condition| condition.type_ != kind);
        let rank = |kind: &str| ORDER.iter().position(|known| *known == kind);
        let place = self.0.partition_point(|other| rank(&other.type_) < rank(kind));
        self.0.insert(place, condition);
    }
}

impl SimulatedPod {
    /// Brings phase and conditions up to date with the containers.
    pub(super) fn conclude(&mut self, now: Timestamp) {
        self.phase = self.phase_now();
        if self.containers.is_empty() {
            return;
        }
        let containers_ready = self.containers_ready();
        let ready = self.ready(&containers_ready);
        let answers = [
            ("PodReadyToStartContainers", plain(self.sandbox && !self.over)),
            ("Initialized", self.initialized()),
            ("Ready", ready),
            ("ContainersReady", containers_ready),
            ("PodScheduled", plain(true)),
        ];
        for (kind, answer) in answers {
            self.conditions.set(kind, answer, self.pod.generation, now);
        }
    }

    fn initialized(&self) -> Answer {
        if self.phase == Phase::Succeeded {
            return Answer { holds: true, reason: Some("PodCompleted"), message: None };
        }
        let init = self.containers.iter().filter(|container| container.role != Role::App);
        let left: Vec<&Container> = init.filter(|container| !container.lets_others_begin()).collect();
        if left.is_empty() {
            return plain(true);
        }
        let message = format!("containers with incomplete status: [{}]", names(&left));
        Answer { holds: false, reason: Some("ContainersNotInitialized"), message: Some(message) }
    }

    fn containers_ready(&self) -> Answer {
        let over = match self.phase {
            Phase::Succeeded => Some("PodCompleted"),
            Phase::Failed => Some("PodFailed"),
            Phase::Pending | Phase::Running => None,
        };
        if over.is_some() {
            return Answer { holds: false, reason: over, message: None };
        }
        let serving = self.containers.iter().filter(|container| container.role != Role::Init);
        let left: Vec<&Container> = serving.filter(|container| !container.ready).collect();
        if left.is_empty() {
            return plain(true);
        }
        let message = format!("containers with unready status: [{}]", names(&left));
        Answer { holds: false, reason: Some("ContainersNotReady"), message: Some(message) }
    }

    fn ready(&self, containers: &Answer) -> Answer {
        if !containers.holds {
            return Answer { holds: false, reason: containers.reason, message: containers.message.clone() };
        }
        let gates = self.pod.spec.readiness_gates.iter().flatten();
        let problems: Vec<String> = gates
            .filter_map(|gate| {
                let kind = &gate.condition_type;
                match self.pod.conditions.iter().find(|condition| condition.type_ == *kind) {
                    None => Some(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
                    Some(condition) if condition.status != "True" => {
                        let status = &condition.status;
                        Some(format!("the status of pod readiness gate {kind:?} is not \"True\", but {status}"))
                    }
                    Some(_) => None,
                }
            })
            .collect();
        if problems.is_empty() {
            return plain(true);
        }
        Answer { holds: false, reason: Some("ReadinessGatesNotReady"), message: Some(problems.join(", ")) }
    }
}

fn plain(holds: bool) -> Answer {
    Answer { holds, reason: None, message: None }
}

fn names(containers: &[&Container]) -> String {
    containers.iter().map(|container| container.name.as_str()).collect::<Vec<_>>().join(" ")
}
