//! The cause of a stuck pod, and who is to blame for it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod_start::{PodStart, start_of_pod};
use super::{condition, text, time};
use crate::rollout::PodSeen;
use jiff::{SignedDuration, Timestamp};

/// An account of a pod in a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAccount {
    /// Its uid: one that is made again may have the same name.
    pub uid: String,
    /// The part that is kept as evidence.
    pub seen: PodSeen,
    /// The cause for which it is not ready.
    pub fault: Fault,
    /// Its progress on the way to its start.
    pub start: PodStart,
}

/// The cause for which a pod is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It is ready, has ended well, or is on its way out: nobody's.
    None,
    /// It may still become ready, and nothing speaks against it.
    Unknown,
    /// The commit's, unless a fault of the infrastructure took others of its kind away: it has only just begun, like
    /// the replacement of an evicted pod.
    Young,
    /// The infrastructure's: its node is gone, it was evicted, nobody acts on it.
    Infrastructure,
    /// The commit's: it can't start, it crashes, it does not become ready.
    Commit,
}

impl Fault {
    /// Returns true when the commit is to blame if nobody else is.
    #[must_use]
    pub fn blames_the_commit(self) -> bool {
        matches!(self, Fault::Commit | Fault::Young)
    }
}

/// Reasons of failed pods that say that the cluster took the pod away, not that it broke.
const TAKEN_AWAY: [&str; 9] = [
    "Evicted",
    "NodeLost",
    "NodeAffinity",
    "NodeShutdown",
    "Terminated",
    "Preempting",
    "Shutdown",
    "UnexpectedAdmissionError",
    "TopologyAffinityError",
];

/// Reasons of containers that ended with their node.
const NODE_ENDED: [&str; 2] = ["ContainerStatusUnknown", "Unknown"];

/// The time that a kubelet gets to say the first word about a pod that is bound to its node.
const KUBELET_PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// Returns the account of `pod` at `now`. `lost_nodes` are those that are not Ready, or gone.
#[must_use]
pub fn account_of_pod(pod: &Value, lost_nodes: &BTreeSet<String>, now: Timestamp) -> PodAccount {
    let mut seen = PodSeen {
        name: text(&pod["metadata"], "name").to_owned(),
        node: pod["spec"]["nodeName"].as_str().map(str::to_owned),
        ..PodSeen::default()
    };
    let statuses = || {
        let lists = ["initContainerStatuses", "containerStatuses"];
        lists.into_iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten())
    };
    seen.restarts = statuses()
        .filter_map(|status| status["restartCount"].as_i64())
        .fold(0, i64::saturating_add)
        .try_into()
        .unwrap_or(i32::MAX);
    let fault = fault(pod, lost_nodes, now, &mut seen, &statuses().collect::<Vec<_>>());
    let uid = text(&pod["metadata"], "uid").to_owned();
    PodAccount { uid, seen, fault, start: start_of_pod(pod) }
}

fn fault(pod: &Value, lost_nodes: &BTreeSet<String>, now: Timestamp, seen: &mut PodSeen, statuses: &[&Value]) -> Fault {
    let phase = text(&pod["status"], "phase");
    text(&pod["status"], "message").clone_into(&mut seen.message);
    if pod["metadata"].get("deletionTimestamp").is_some() {
        "Terminating".clone_into(&mut seen.state);
        return Fault::None;
    }
    let is_true = |kind: &str| condition(pod, kind).is_some_and(|condition| condition["status"] == "True");
    if is_true("Ready") {
        "Running".clone_into(&mut seen.state);
        last_run(statuses, seen);
        return Fault::None;
    }
    let reason = text(&pod["status"], "reason");
    if TAKEN_AWAY.contains(&reason) || reason.starts_with("OutOf") || is_true("DisruptionTarget") {
        seen.state = if reason.is_empty() { "Disrupted".to_owned() } else { reason.to_owned() };
        return Fault::Infrastructure;
    }
    if seen.node.as_ref().is_some_and(|node| lost_nodes.contains(node)) {
        "NodeNotReady".clone_into(&mut seen.state);
        return Fault::Infrastructure;
    }
    if phase == "Succeeded" {
        "Completed".clone_into(&mut seen.state);
        return Fault::None;
    }
    if let Some(fault) = containers(statuses, seen) {
        return fault;
    }
    if phase == "Failed" {
        seen.state = if reason.is_empty() { "Error".to_owned() } else { reason.to_owned() };
        return Fault::Commit;
    }
    if seen.node.is_none() {
        return unscheduled(pod, seen);
    }
    unready(pod, statuses, now, seen)
}

/// Reads the containers' states, the worst first.
fn containers(statuses: &[&Value], seen: &mut PodSeen) -> Option<Fault> {
    for status in statuses {
        let waiting = &status["state"]["waiting"];
        let reason = text(waiting, "reason");
        if waiting.is_object() && !["", "ContainerCreating", "PodInitializing"].contains(&reason) {
            reason.clone_into(&mut seen.state);
            text(waiting, "message").clone_into(&mut seen.message);
            seen.container = Some(text(status, "name").to_owned());
            seen.exit_code = exit_code(&status["lastState"]["terminated"]);
            // The registry, not the image, does not answer.
            return Some(if reason == "RegistryUnavailable" { Fault::Infrastructure } else { Fault::Commit });
        }
    }
    for status in statuses {
        let terminated = &status["state"]["terminated"];
        if terminated.is_object() && exit_code(terminated) != Some(0) {
            let reason = text(terminated, "reason");
            seen.state = if reason.is_empty() { "Error".to_owned() } else { reason.to_owned() };
            text(terminated, "message").clone_into(&mut seen.message);
            seen.container = Some(text(status, "name").to_owned());
            seen.exit_code = exit_code(terminated);
            return Some(Fault::Commit);
        }
    }
    None
}

/// Reads the end of a ready pod's last run. A node that went down says nothing of the container.
fn last_run(statuses: &[&Value], seen: &mut PodSeen) {
    let ended = statuses.iter().map(|status| (status, &status["lastState"]["terminated"]));
    let newest = ended.filter(|(_, run)| run.is_object()).max_by_key(|(_, run)| time(&run["finishedAt"]));
    let Some((status, run)) = newest else { return };
    let reason = text(run, "reason");
    if !NODE_ENDED.contains(&reason) {
        seen.container = Some(text(status, "name").to_owned());
        seen.exit_code = exit_code(run);
        reason.clone_into(&mut seen.message);
    }
}

/// Returns when a container has started again after its node came back.
fn came_back(status: &Value) -> Option<Timestamp> {
    let ended_with_node = NODE_ENDED.contains(&text(&status["lastState"]["terminated"], "reason"));
    time(&status["state"]["running"]["startedAt"]).filter(|_| ended_with_node)
}

fn exit_code(terminated: &Value) -> Option<i32> {
    terminated["exitCode"].as_i64().and_then(|code| code.try_into().ok())
}

fn unscheduled(pod: &Value, seen: &mut PodSeen) -> Fault {
    let Some(scheduled) = condition(pod, "PodScheduled").filter(|scheduled| scheduled["status"] == "False") else {
        // Nobody has tried: there is no scheduler, or it does not act.
        "Pending".clone_into(&mut seen.state);
        "no scheduler has looked at it".clone_into(&mut seen.message);
        return Fault::Infrastructure;
    };
    text(scheduled, "reason").clone_into(&mut seen.state);
    text(scheduled, "message").clone_into(&mut seen.message);
    let no_nodes = seen.message.starts_with("0/0 nodes")
        || seen.message.contains("node.kubernetes.io/not-ready")
        || seen.message.contains("node.kubernetes.io/unreachable");
    if no_nodes { Fault::Infrastructure } else { Fault::Commit }
}

fn unready(pod: &Value, statuses: &[&Value], now: Timestamp, seen: &mut PodSeen) -> Fault {
    if statuses.is_empty() {
        "Pending".clone_into(&mut seen.state);
        let scheduled = condition(pod, "PodScheduled").and_then(|scheduled| time(&scheduled["lastTransitionTime"]));
        let waited = scheduled.map(|since| now.duration_since(since));
        if waited.is_some_and(|waited| waited < KUBELET_PATIENCE) {
            return Fault::Unknown;
        }
        "its node's kubelet has not said a word about it".clone_into(&mut seen.message);
        return Fault::Infrastructure;
    }
    let made = time(&pod["metadata"]["creationTimestamp"]);
    let is_new = |since: Timestamp| now.duration_since(since) < KUBELET_PATIENCE;
    let young = made.is_some_and(is_new) || statuses.iter().any(|status| came_back(status).is_some_and(is_new));
    let fault = if young { Fault::Young } else { Fault::Commit };
    let creating = statuses.iter().find(|status| status["state"]["waiting"].is_object());
    if let Some(status) = creating {
        text(&status["state"]["waiting"], "reason").clone_into(&mut seen.state);
        seen.container = Some(text(status, "name").to_owned());
        return fault;
    }
    "NotReady".clone_into(&mut seen.state);
    let unready = statuses.iter().find(|status| status["ready"] != true);
    seen.container = unready.map(|status| text(status, "name").to_owned());
    if seen.message.is_empty() {
        let ready = condition(pod, "Ready").map(|ready| text(ready, "message")).unwrap_or_default();
        seen.message = if ready.is_empty() { "running, but not ready".to_owned() } else { ready.to_owned() };
    }
    fault
}
