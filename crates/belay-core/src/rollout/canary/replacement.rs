//! The nodes of a DaemonSet that get the new pod within a step: belay deletes the old pods there, and the controller makes the
//! new ones.

use serde_json::Value;

use super::decision::max_unavailable;
use super::lock::CanaryLock;
use crate::rollout::health::is_ready;

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
pub fn next_replaced<'p>(lock: &CanaryLock, live: &Value, pods: &'p DaemonPods) -> Vec<&'p Value> {
    let stays = |pod: &&Value| pod["metadata"].get("deletionTimestamp").is_none();
    let is_well = |pod: &&Value| stays(pod) && is_ready(pod);
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let with_old = count(pods.old.iter().filter(stays).count());
    let missing = lock.new_pods().saturating_sub(lock.replicas.saturating_sub(with_old));
    let available = count(pods.old.iter().chain(&pods.new).filter(is_well).count());
    let room = max_unavailable(live, lock.replicas).saturating_sub(lock.replicas.saturating_sub(available));
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
                mark: CanaryMark { step: 1, of: 2 },
                pods: wanted,
                replicas: 4,
                paused: false,
            };
            let live = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": unavailable}}}});
            let pods = DaemonPods { new: pods(new), old: pods(old) };
            let next = next_replaced(&lock, &live, &pods);
            let next: Vec<&str> = next.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
            assert_eq!(next.join(" "), expected, "{case}");
        }
    }
}
