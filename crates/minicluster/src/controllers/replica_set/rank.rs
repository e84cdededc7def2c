//! The pods that go first when there are too many. Pure.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use jiff::Timestamp;

use crate::controllers::key::annotation;
use crate::controllers::pod::Pod;

/// The annotation by which people say which pods to keep: the lowest number goes first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A pod, and how many pods of the same family run on its node.
pub struct Candidate {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The number of pods on the same node, this one included.
    pub neighbours: usize,
}

/// Sorts pods so that those that should go come first.
pub fn sort(candidates: &mut [Candidate], now: Timestamp) {
    candidates.sort_by(|one, other| compare(one, other, now));
}

fn compare(one: &Candidate, other: &Candidate, now: Timestamp) -> Ordering {
    let (a, b) = (&*one.pod, &*other.pod);
    let is_bound = |pod: &Pod| pod.spec.node_name.as_ref().is_some_and(|node| !node.is_empty());
    is_bound(a)
        .cmp(&is_bound(b))
        .then_with(|| phase_rank(a).cmp(&phase_rank(b)))
        .then_with(|| a.is_ready().cmp(&b.is_ready()))
        .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
        .then_with(|| other.neighbours.cmp(&one.neighbours))
        .then_with(|| by_ready_time(a, b, now))
        .then_with(|| b.restarts().cmp(&a.restarts()))
        .then_with(|| by_creation(a, b, now))
        .then_with(|| a.metadata.name.cmp(&b.metadata.name))
}

fn phase_rank(pod: &Pod) -> u8 {
    match pod.phase() {
        "Pending" => 0,
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    }
}

/// Returns the cost of deleting the pod; a text that is no number counts as none.
fn deletion_cost(pod: &Pod) -> i32 {
    let text = annotation(&pod.metadata, DELETION_COST).unwrap_or("0");
    // `+5` and `05` are refused by the API; they count as nothing here.
    let is_plain = !text.starts_with('+') && (text == "0" || !text.trim_start_matches('-').starts_with('0'));
    if is_plain { text.parse().unwrap_or(0) } else { 0 }
}

/// Orders pods that have been ready for a shorter time first, in steps that double; within a step, any fixed order will
/// do.
fn by_ready_time(a: &Pod, b: &Pod, now: Timestamp) -> Ordering {
    if !a.is_ready() || !b.is_ready() {
        return Ordering::Equal;
    }
    by_age(a.ready_since(), b.ready_since(), a, b, now)
}

fn by_creation(a: &Pod, b: &Pod, now: Timestamp) -> Ordering {
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    by_age(created(a), created(b), a, b, now)
}

fn by_age(a_since: Option<Timestamp>, b_since: Option<Timestamp>, a: &Pod, b: &Pod, now: Timestamp) -> Ordering {
    match (a_since, b_since) {
        (a_since, b_since) if a_since == b_since => Ordering::Equal,
        (None, _) => Ordering::Less,
        (_, None) => Ordering::Greater,
        (Some(a_since), Some(b_since)) => {
            age_step(a_since, now).cmp(&age_step(b_since, now)).then_with(|| a.metadata.uid.cmp(&b.metadata.uid))
        }
    }
}

/// Returns the binary logarithm of the age in nanoseconds, rounded down; -1 for none.
fn age_step(since: Timestamp, now: Timestamp) -> i64 {
    let nanos = now.as_nanosecond() - since.as_nanosecond();
    u128::try_from(nanos).ok().and_then(u128::checked_ilog2).map_or(-1, i64::from)
}

/// Returns the `count` pods that go first. With as many as there are, the order does not matter.
pub fn choose(mut candidates: Vec<Candidate>, count: usize, now: Timestamp) -> Vec<Arc<Pod>> {
    if count < candidates.len() {
        sort(&mut candidates, now);
    } else {
        candidates.sort_by_key(|candidate| Reverse(candidate.pod.metadata.name.clone()));
    }
    candidates.into_iter().take(count).map(|candidate| candidate.pod).collect()
}

#[cfg(test)]
mod tests {
    use super::{Candidate, DELETION_COST, choose};
    use crate::controllers::pod::Pod;
    use jiff::Timestamp;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn pod(name: &str, node: &str, phase: &str, ready: Value, neighbours: usize) -> Candidate {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "nodeName": node },
            "status": { "phase": phase, "conditions": [ready] },
        }))
        .unwrap();
        Candidate { pod: Arc::new(pod), neighbours }
    }

    fn ready(since: &str) -> Value {
        json!({ "type": "Ready", "status": "True", "lastTransitionTime": since })
    }

    fn first(candidates: Vec<Candidate>) -> Vec<String> {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let count = candidates.len() - 1;
        choose(candidates, count, now).iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()
    }

    #[test]
    fn the_worse_off_go_first() {
        let not_ready = json!({ "type": "Ready", "status": "False" });
        let old = ready("2026-01-01T00:00:00Z");
        let candidates = vec![
            pod("old", "n1", "Running", old.clone(), 1),
            pod("young", "n1", "Running", ready("2026-01-01T23:59:00Z"), 1),
            pod("crowded", "n2", "Running", old, 2),
            pod("unready", "n1", "Running", not_ready.clone(), 1),
            pod("unknown", "n1", "Unknown", not_ready.clone(), 1),
            pod("pending", "n1", "Pending", not_ready.clone(), 1),
            pod("unbound", "", "Pending", not_ready, 1),
        ];
        assert_eq!(first(candidates), ["unbound", "pending", "unknown", "unready", "crowded", "young"]);
    }

    #[test]
    fn a_low_deletion_cost_outweighs_neighbours() {
        let old = ready("2026-01-01T00:00:00Z");
        let cheap = |cost: &str, name: &str| {
            let mut candidate = pod(name, "n1", "Running", old.clone(), 1);
            let pod = Arc::get_mut(&mut candidate.pod).unwrap();
            pod.metadata.annotations = Some([(DELETION_COST.to_owned(), cost.to_owned())].into());
            candidate
        };
        let candidates = vec![
            cheap("-10", "cheap"),
            pod("crowded", "n2", "Running", old.clone(), 3),
            cheap("5", "dear"),
            cheap("x", "odd"),
        ];
        assert_eq!(first(candidates), ["cheap", "crowded", "odd"]);
    }
}
