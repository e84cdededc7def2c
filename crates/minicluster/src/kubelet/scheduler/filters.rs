//! The nodes that can take a pod, and the reasons for which the others can't.

use k8s_openapi::api::core::v1::Taint;

use super::affinity::{Neighbours, Unneighbourly};
use super::cluster::Cluster;
use super::labels::{named_nodes, tolerates, wants_node};
use super::node::{Load, NodeFacts};
use super::resources::Resources;
use crate::kubelet::pod::SeenPod;
use crate::kubelet::simulated_pod::Rejection;

/// The reason for which a node can't take a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In the words of the scheduler, for one or several reasons.
    pub reasons: Vec<String>,
    /// True when it could if other pods went.
    pub could: bool,
}

/// Returns why a node can't take a pod, if it can't.
pub fn refuse(
    pod: &SeenPod,
    asked: &Resources,
    name: &str,
    facts: &NodeFacts,
    load: &Load,
    neighbours: &Neighbours<'_>,
) -> Option<Refusal> {
    let never = |reason: &str| Some(Refusal { reasons: vec![reason.to_owned()], could: false });
    let tolerations = pod.spec.tolerations.as_ref();
    if named_nodes(&pod.spec).is_some_and(|names| !names.iter().any(|named| *named == name)) {
        return never("node(s) didn't satisfy plugin(s) [NodeAffinity]");
    }
    if facts.cordoned && !tolerates(tolerations, &cordon()) {
        return never("node(s) were unschedulable");
    }
    let repels = |taint: &&Taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute";
    if facts.taints.iter().filter(repels).any(|taint| !tolerates(tolerations, taint)) {
        return never("node(s) had untolerated taint(s)");
    }
    if !wants_node(&pod.spec, name, &facts.labels) {
        return never("node(s) didn't match Pod's node affinity/selector");
    }
    if load.conflicts(pod) {
        let reason = "node(s) didn't have free ports for the requested pod ports".to_owned();
        return Some(Refusal { reasons: vec![reason], could: true });
    }
    let reasons: Vec<String> = asked.lacking(&facts.allocatable, &load.used).map(insufficient).collect();
    if !reasons.is_empty() {
        let too_large = asked.lacking(&facts.allocatable, &Resources::default()).next().is_some();
        return Some(Refusal { reasons, could: !too_large });
    }
    let (reason, could) = match neighbours.refuse(&facts.labels)? {
        Unneighbourly::NoLabel => {
            ("node(s) didn't match pod topology spread constraints (missing required label)", false)
        }
        Unneighbourly::Uneven => ("node(s) didn't match pod topology spread constraints", true),
        Unneighbourly::Near => ("node(s) didn't match pod affinity rules", false),
        Unneighbourly::Far => ("node(s) didn't match pod anti-affinity rules", true),
        Unneighbourly::Unwanted => ("node(s) didn't satisfy existing pods anti-affinity rules", true),
    };
    Some(Refusal { reasons: vec![reason.to_owned()], could })
}

/// Returns why a node's kubelet does not take a pod that is bound to it, if it does not. The pod may count there
/// already.
pub fn reject(pod: &SeenPod, asked: &Resources, cluster: &Cluster) -> Option<Rejection> {
    let name = pod.node()?;
    let facts = cluster.node(name)?;
    let mut load = cluster.load(name).cloned().unwrap_or_default();
    if let Some(placed) = cluster.find(&pod.uid) {
        load.remove(placed);
    }
    if let Some(lacking) = asked.lacking(&facts.allocatable, &load.used).next() {
        let unit = if lacking == "cpu" { 1 } else { 1000 };
        let amount = |resources: &Resources| resources.get(lacking) / unit;
        let message = format!(
            "Node didn't have enough resource: {lacking}, requested: {}, used: {}, capacity: {}",
            amount(asked),
            amount(&load.used),
            amount(&facts.allocatable)
        );
        return Some(Rejection { reason: format!("OutOf{lacking}"), message });
    }
    let failed = |predicate: &str, detail: &str| {
        Some(Rejection { reason: predicate.to_owned(), message: format!("Predicate {predicate} failed: {detail}") })
    };
    if !wants_node(&pod.spec, name, &facts.labels) {
        return failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector");
    }
    if load.conflicts(pod) {
        return failed("NodePorts", "node(s) didn't have free ports for the requested pod ports");
    }
    None
}

/// Returns the taint that a node counts as having while it is cordoned.
fn cordon() -> Taint {
    Taint { key: "node.kubernetes.io/unschedulable".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }
}

fn insufficient(resource: &str) -> String {
    if resource == "pods" { "Too many pods".to_owned() } else { format!("Insufficient {resource}") }
}
