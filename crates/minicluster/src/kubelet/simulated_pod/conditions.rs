//! A pod's conditions. The moment of one moves only when its status flips.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container::{Container, Role};
use super::{Phase, SimulatedPod};
use crate::kubelet::pod::SeenPod;

/// The conditions that the kubelet writes, in its order.
#[derive(Clone, Debug, Default)]
pub struct Conditions(Vec<(ConditionType, PodConditionState)>);

/// The types of conditions, in the kubelet's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConditionType {
    DisruptionTarget,
    PodReadyToStartContainers,
    Initialized,
    Ready,
    ContainersReady,
    PodScheduled,
}

const ALL: [ConditionType; 6] = [
    ConditionType::DisruptionTarget,
    ConditionType::PodReadyToStartContainers,
    ConditionType::Initialized,
    ConditionType::Ready,
    ConditionType::ContainersReady,
    ConditionType::PodScheduled,
];

#[derive(Clone, Debug)]
enum PodConditionState {
    /// As somebody else wrote it.
    Found(Box<PodCondition>),
    /// As the kubelet writes it.
    Own { answer: Answer, since: Timestamp, generation: Option<i64> },
}

/// A condition's status, with reason and message if there are any.
#[derive(Clone, Debug)]
struct Answer {
    holds: bool,
    /// Most conditions hold, and need none.
    why: Option<Box<Why>>,
}

/// A condition's reason and message.
#[derive(Clone, Debug)]
struct Why {
    reason: &'static str,
    message: Option<String>,
}

impl ConditionType {
    fn as_str(self) -> &'static str {
        match self {
            ConditionType::DisruptionTarget => "DisruptionTarget",
            ConditionType::PodReadyToStartContainers => "PodReadyToStartContainers",
            ConditionType::Initialized => "Initialized",
            ConditionType::Ready => "Ready",
            ConditionType::ContainersReady => "ContainersReady",
            ConditionType::PodScheduled => "PodScheduled",
        }
    }
}

impl Answer {
    fn plain(holds: bool) -> Answer {
        Answer { holds, why: None }
    }

    fn with(holds: bool, reason: &'static str, message: Option<String>) -> Answer {
        Answer { holds, why: Some(Box::new(Why { reason, message })) }
    }

    fn status(&self) -> &'static str {
        if self.holds { "True" } else { "False" }
    }
}

impl PodConditionState {
    /// Returns since when it has the status that `answer` has, if it has.
    fn since(&self, answer: &Answer) -> Option<Timestamp> {
        match self {
            PodConditionState::Found(found) if found.status == answer.status() => {
                found.last_transition_time.as_ref().map(|at| at.0)
            }
            PodConditionState::Own { answer: before, since, .. } if before.holds == answer.holds => Some(*since),
            PodConditionState::Found(_) | PodConditionState::Own { .. } => None,
        }
    }

    fn write(&self, kind: ConditionType) -> PodCondition {
        match self {
            PodConditionState::Found(found) => (**found).clone(),
            PodConditionState::Own { answer, since, generation } => PodCondition {
                type_: kind.as_str().to_owned(),
                status: answer.status().to_owned(),
                reason: answer.why.as_ref().map(|why| why.reason.to_owned()),
                message: answer.why.as_ref().and_then(|why| why.message.clone()),
                last_probe_time: None,
                last_transition_time: Some(Time(*since)),
                observed_generation: *generation,
            },
        }
    }
}

impl Conditions {
    /// Returns those that a status has already.
    pub fn new(status: &PodStatus) -> Conditions {
        let known = |kind: ConditionType| {
            let found = status.conditions.iter().flatten().find(|condition| condition.type_ == kind.as_str());
            found.map(|found| (kind, PodConditionState::Found(Box::new(found.clone()))))
        };
        Conditions(ALL.into_iter().filter_map(known).collect())
    }

    /// Returns all of them.
    pub fn all(&self) -> Vec<PodCondition> {
        self.0.iter().map(|(kind, condition)| condition.write(*kind)).collect()
    }

    /// Says that the node ends the pod.
    pub fn disrupt(&mut self, pod: &SeenPod, message: &str, now: Timestamp) {
        let answer = Answer::with(true, "TerminationByKubelet", Some(message.to_owned()));
        self.set(ConditionType::DisruptionTarget, answer, pod.generation, now);
    }

    fn set(&mut self, kind: ConditionType, answer: Answer, generation: Option<i64>, now: Timestamp) {
        let place = self.0.partition_point(|(other, _)| *other < kind);
        let before = self.0.get_mut(place).filter(|(known, _)| *known == kind);
        let since = before.as_ref().and_then(|(_, before)| before.since(&answer)).unwrap_or(now);
        let condition = PodConditionState::Own { answer, since, generation };
        if let Some((_, before)) = before {
            *before = condition;
        } else {
            self.0.reserve_exact(1);
            self.0.insert(place, (kind, condition));
        }
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
            (ConditionType::PodReadyToStartContainers, Answer::plain(self.sandbox && !self.over)),
            (ConditionType::Initialized, self.initialized()),
            (ConditionType::Ready, ready),
            (ConditionType::ContainersReady, containers_ready),
            (ConditionType::PodScheduled, Answer::plain(true)),
        ];
        for (kind, answer) in answers {
            self.conditions.set(kind, answer, self.pod.generation, now);
        }
    }

    fn initialized(&self) -> Answer {
        if self.phase == Phase::Succeeded {
            return Answer::with(true, "PodCompleted", None);
        }
        let init = self.containers.iter().filter(|container| container.role != Role::App);
        let left: Vec<&Container> = init.filter(|container| !container.lets_others_begin()).collect();
        if left.is_empty() {
            return Answer::plain(true);
        }
        let message = format!("containers with incomplete status: [{}]", names(&left));
        Answer::with(false, "ContainersNotInitialized", Some(message))
    }

    fn containers_ready(&self) -> Answer {
        let over = match self.phase {
            Phase::Succeeded => Some("PodCompleted"),
            Phase::Failed => Some("PodFailed"),
            Phase::Pending | Phase::Running => None,
        };
        if let Some(reason) = over {
            return Answer::with(false, reason, None);
        }
        let serving = self.containers.iter().filter(|container| container.role != Role::Init);
        let left: Vec<&Container> = serving.filter(|container| !container.ready).collect();
        if left.is_empty() {
            return Answer::plain(true);
        }
        let message = format!("containers with unready status: [{}]", names(&left));
        Answer::with(false, "ContainersNotReady", Some(message))
    }

    fn ready(&self, containers: &Answer) -> Answer {
        if !containers.holds {
            return containers.clone();
        }
        let gates = self.pod.spec.readiness_gates.iter();
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
            return Answer::plain(true);
        }
        Answer::with(false, "ReadinessGatesNotReady", Some(problems.join(", ")))
    }
}

fn names(containers: &[&Container]) -> String {
    containers.iter().map(|container| container.name.as_str()).collect::<Vec<_>>().join(" ")
}
