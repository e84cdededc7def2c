//! The choice of the best node for a pod: the same every time.

use std::cmp::Reverse;

use super::affinity::Neighbours;
use super::labels::{fits, tolerates};
use super::node::{Load, NodeFacts};
use super::resources::Resources;
use crate::kubelet::pod::SeenPod;

/// The score of a node; the highest wins. The pod's preferences come first, then an even spreading of pods of a kind,
/// then the resources that are left, then the number of pods.
pub type Score = (i64, Reverse<u32>, i64, Reverse<usize>);

/// Returns the score of a node for a pod.
pub fn score(
    pod: &SeenPod,
    asked: &Resources,
    name: &str,
    facts: &NodeFacts,
    load: &Load,
    neighbours: &Neighbours<'_>,
) -> Score {
    let disliked = facts
        .taints
        .iter()
        .filter(|taint| taint.effect == "PreferNoSchedule" && !tolerates(pod.spec.tolerations.as_ref(), taint));
    let disliked = i64::try_from(disliked.count()).unwrap_or(i64::MAX);
    let affinity = pod.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let preferred =
        affinity.and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    let preferred = preferred.into_iter().flatten().filter(|term| fits(&term.preference, name, &facts.labels));
    let preferred: i64 = preferred.map(|term| i64::from(term.weight)).sum();
    let wishes = preferred + neighbours.liking(&facts.labels) - 100 * disliked - neighbours.crowd(&facts.labels);
    let alike = pod.owner.as_deref().map_or(0, |owner| load.of_owner(owner));
    (wishes, Reverse(alike), left(asked, facts, load), Reverse(load.pods.len()))
}

/// Returns how much of processors and memory would be left, in percent, on average.
fn left(asked: &Resources, facts: &NodeFacts, load: &Load) -> i64 {
    let share = |name: &str| {
        let all = facts.allocatable.get(name);
        let left = all - load.used.get(name) - asked.get(name);
        if all <= 0 { 0 } else { i64::try_from(left.max(0) * 100 / all).unwrap_or(0) }
    };
    (share("cpu") + share("memory")) / 2
}
