//! The nodes of a DaemonSet that get the new pod within a step: belay deletes the old pods there, and the controller makes the
//! new ones.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::decision::max_unavailable;
use super::lock::CanaryLock;
use crate::rollout::health::is_ready;
use crate::rollout::revision_pods::is_available;

/// The pods of a DaemonSet.
#[derive(Clone, Debug, Default)]
pub struct DaemonPods {
    /// Those of its present template.
    pub new: Vec<Value>,
    /// The others.
    pub old: Vec<Value>,
}

/// Returns the old pods that are deleted next: as many as the step still wants, and as the live DaemonSet lets be unavailable at
/// once. A node without an old pod counts as one with the new pod, which it has or gets; so a restart of belay chooses no others.
#[must_use]
pub fn next_replaced<'p>(lock: &CanaryLock, live: &Value, pods: &'p DaemonPods, now: Timestamp) -> Vec<&'p Value> {
    let rest = SignedDuration::from_secs(live["spec"]["minReadySeconds"].as_i64().unwrap_or_default());
    let stays = |pod: &&Value| pod["metadata"].get("deletionTimestamp").is_none();
    let is_well = |pod: &&Value| stays(pod) && is_ready(pod) && is_available(pod, rest, now);
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    // Pods stay on nodes that are not to run them any more, while they tolerate the taint.
    let misscheduled = live["status"]["numberMisscheduled"].as_i64().unwrap_or_default();
    let nodes = lock.replicas.saturating_add(misscheduled);
    let (with_old, going) = pods.old.iter().partition::<Vec<&Value>, _>(|pod| stays(pod));
    let (with_old, going) = (count(with_old.len()), count(going.len()));
    let replaced = nodes.saturating_sub(with_old).max(going.saturating_add(count(pods.new.len())));
    let missing = lock.new_pods().saturating_sub(replaced);
    let available = count(pods.old.iter().chain(&pods.new).filter(is_well).count());
    let starting = count(pods.new.iter().filter(|pod| !is_well(pod)).count());
    let unavailable = nodes.saturating_sub(available).max(going.saturating_add(starting));
    let room = max_unavailable(live, lock.replicas).saturating_sub(unavailable);
    // One that is not ready tells of its node, or of the old version, and not of the new one.
    let mut next: Vec<&Value> = pods.old.iter().filter(is_well).collect();
    next.sort_by_key(|pod| [&pod["spec"]["nodeName"], &pod["metadata"]["name"]].map(|name| name.as_str()));
    next.truncate(usize::try_from(missing.min(room)).unwrap_or_default());
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::canary::{CanaryKind, CanaryMark};
    use serde_json::json;

    /// Returns pods by their nodes: `a` is ready, `a!` is not, `a-` is being deleted.
    fn pods(told: &str) -> Vec<Value> {
        let pod = |told: &str| {
            let node = told.trim_end_matches(['!', '-']);
            let ready = json!([{"type": "Ready", "status": if told.ends_with('!') { "False" } else { "True" }}]);
            let mut pod = json!({"metadata": {"name": format!("logs-{node}")}, "spec": {"nodeName": node},
                "status": {"conditions": ready}});
            if told.ends_with('-') {
                pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            pod
        };
        told.split_whitespace().map(pod).collect()
    }

    #[test]
    fn old_pods_are_deleted_as_far_as_the_step_and_the_strategy_allow() {
        for (case, wanted, unavailable, new, old, expected) in [
            ("the first", 2, json!(1), "", "c a b d", "a"),
            ("two at once", 2, json!(2), "", "c a b d", "a b"),
            ("half of them at once", 3, json!("50%"), "", "c a b d", "a b"),
            ("the first goes", 2, json!(1), "", "a- b c d", ""),
            ("it is not made yet", 2, json!(1), "", "b c d", ""),
            ("the new one starts", 2, json!(1), "a!", "b c d", ""),
            ("it is ready: the second", 2, json!(1), "a", "b c d", "b"),
            ("all of the step", 2, json!(1), "a b", "c d", ""),
            ("more than that", 1, json!(9), "a b", "c d", ""),
            ("an old one is not ready", 1, json!(1), "", "a! b c d", ""),
            ("an old one is not ready, and two may be", 1, json!(2), "", "a! b c d", "b"),
            ("a node was added, and gets the new pod", 1, json!(1), "", "a b c", ""),
            ("those that a person has deleted count", 2, json!(1), "d", "a b c", "a"),
            ("none is ready", 1, json!(9), "", "a! b! c! d!", ""),
        ] {
            let lock = CanaryLock {
                kind: CanaryKind::DaemonSet,
                mark: CanaryMark::at(1, 2),
                pods: wanted,
                replicas: 4,
                paused: false,
            };
            let live = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": unavailable}}}});
            let pods = DaemonPods { new: pods(new), old: pods(old) };
            let next = next_replaced(&lock, &live, &pods, Timestamp::UNIX_EPOCH);
            let next: Vec<&str> = next.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
            assert_eq!(next.join(" "), expected, "{case}");
        }
    }

    fn lock() -> CanaryLock {
        let mark = CanaryMark::at(1, 2);
        CanaryLock { kind: CanaryKind::DaemonSet, mark, pods: 2, replicas: 4, paused: false }
    }

    #[test]
    fn a_new_pod_counts_once_it_is_available() {
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}]);
        let aged = |mut pod: Value| {
            pod["status"]["conditions"] = ready.clone();
            pod
        };
        let all = DaemonPods {
            new: pods("a").into_iter().map(aged).collect(),
            old: pods("b c d").into_iter().map(aged).collect(),
        };
        let live = json!({"spec": {"minReadySeconds": 60}});
        let count = |second: i64| next_replaced(&lock(), &live, &all, Timestamp::from_second(second).unwrap()).len();
        assert_eq!([59, 60].map(count), [0, 1]);
    }

    #[test]
    fn a_pod_on_a_node_that_is_not_to_run_it_is_none_of_the_room() {
        let live = json!({"spec": {}, "status": {"numberMisscheduled": 1}});
        let all = DaemonPods { new: Vec::new(), old: pods("a b c d e") };
        assert_eq!(next_replaced(&lock(), &live, &all, Timestamp::UNIX_EPOCH).len(), 1);
    }
}
