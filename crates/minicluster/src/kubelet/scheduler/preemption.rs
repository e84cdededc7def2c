//! The pods that one of higher priority pushes out.

use super::affinity::Neighbours;
use super::cluster::Cluster;
use super::filters::{Refusal, refuse};
use super::node::Placed;
use super::resources::Resources;
use crate::kubelet::pod::SeenPod;

/// Returns the node where the least is lost if a pod pushes others out, and those others; `None` if that helps nowhere.
/// `refusals` are the nodes and why they can't take it.
pub fn victims<'a>(
    pod: &SeenPod,
    asked: &Resources,
    refusals: &[(String, Refusal)],
    cluster: &'a Cluster,
) -> Option<(String, Vec<&'a Placed>)> {
    let neighbours = Neighbours::new(pod, cluster);
    let helped = refusals.iter().filter(|(_, refusal)| refusal.could);
    let options = helped.filter_map(|(node, _)| Some((node, on_node(pod, asked, node, cluster, &neighbours)?)));
    // The lowest of the highest priorities that are lost, then the fewest pods; then the first node.
    let best =
        options.min_by_key(|(_, victims)| (victims.first().map(|victim| priority(&victim.pod)), victims.len()))?;
    Some((best.0.clone(), best.1))
}

/// Returns a pod's priority.
pub fn priority(pod: &SeenPod) -> i32 {
    pod.spec.priority.unwrap_or(0)
}

/// Returns those that must go for a pod to fit on a node, the most important first.
fn on_node<'a>(
    pod: &SeenPod,
    asked: &Resources,
    node: &str,
    cluster: &'a Cluster,
    neighbours: &Neighbours<'_>,
) -> Option<Vec<&'a Placed>> {
    let facts = cluster.node(node)?;
    let mut load = cluster.load(node)?.clone();
    let there = load.pods.iter().filter_map(|uid| cluster.find(uid));
    let mut lower: Vec<&Placed> = there.filter(|placed| priority(&placed.pod) < priority(pod)).collect();
    if lower.is_empty() {
        return None;
    }
    for placed in &lower {
        load.remove(placed);
    }
    if refuse(pod, asked, node, facts, &load, neighbours).is_some() {
        return None;
    }
    // The more important and the older ones are spared first.
    lower.sort_by_key(|placed| (-i64::from(priority(&placed.pod)), placed.pod.created, placed.pod.uid.clone()));
    let mut victims = Vec::new();
    for placed in lower {
        load.add(placed);
        if refuse(pod, asked, node, facts, &load, neighbours).is_some() {
            load.remove(placed);
            victims.push(placed);
        }
    }
    Some(victims)
}
