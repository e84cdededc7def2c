//! The next move of a canary step, by the pods that are there.

use serde_json::Value;

use super::kind::CanaryKind;
use super::lock::{CanaryLock, CanaryMark, is_others, partition};
use crate::rollout::RevisionPods;

/// The pods of a workload that a canary looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CanaryPods {
    /// New pods that there are to be, by the new ReplicaSet; of other kinds the locks say that.
    pub desired: i64,
    /// New pods that are there.
    pub current: i64,
    /// New pods that are ready.
    pub ready: i64,
    /// New pods that count as available: none, under the first lock of a Deployment.
    pub available: i64,
}

impl CanaryPods {
    /// Counts the pods of the present revision of a workload.
    #[must_use]
    pub fn of(revisions: &[RevisionPods]) -> CanaryPods {
        let mut pods = CanaryPods::default();
        for revision in revisions.iter().filter(|revision| revision.present) {
            pods.desired += revision.desired;
            pods.current += revision.updated;
            pods.ready += revision.ready;
            pods.available += revision.available;
        }
        pods
    }
}

/// The next move of a canary step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanaryMove {
    /// Somebody has changed the first lock: both are written.
    Lock,
    /// The new ReplicaSet has fewer pods than the step says, and its controller is to make them: the second lock is taken off.
    Unpause,
    /// The pods are there: the second lock is set.
    Pause,
    /// The controller makes the pods, or they become ready.
    Wait,
    /// All of them are ready.
    Ready,
}

impl CanaryMove {
    /// Returns the second lock that the move writes; `None` if it writes nothing.
    #[must_use]
    pub fn writes_paused(self) -> Option<bool> {
        match self {
            CanaryMove::Lock | CanaryMove::Pause => Some(true),
            CanaryMove::Unpause => Some(false),
            CanaryMove::Wait | CanaryMove::Ready => None,
        }
    }
}

/// Returns the next move of a step under these locks. `is_locked` says that the first one is on the live workload, `is_paused`
/// the second.
#[must_use]
pub fn next_move(lock: &CanaryLock, pods: CanaryPods, is_locked: bool, is_paused: bool) -> CanaryMove {
    if !is_locked {
        return CanaryMove::Lock;
    }
    let wanted = lock.new_pods();
    let is_ready = pods.current >= wanted && pods.ready >= wanted;
    if lock.kind != CanaryKind::Deployment {
        return if is_ready { CanaryMove::Ready } else { CanaryMove::Wait };
    }
    match (pods.desired >= wanted, is_paused) {
        // The first lock does not hold yet.
        (false, true) if pods.available > 0 => CanaryMove::Wait,
        // An autoscaler has removed some of them.
        (false, true) => CanaryMove::Unpause,
        (false, false) => CanaryMove::Wait,
        // Until they are there, the Deployment says why they can't be made; a paused one does not.
        (true, false) if pods.current < wanted => CanaryMove::Wait,
        (true, false) => CanaryMove::Pause,
        (true, true) if is_ready => CanaryMove::Ready,
        (true, true) => CanaryMove::Wait,
    }
}

/// Returns why a live workload is rolled out without steps, where its first one has these locks; `None` if it has its canary.
#[must_use]
pub fn why_without_steps(lock: &CanaryLock, live: &Value) -> Option<&'static str> {
    if lock.new_pods() == 0 {
        return Some("it has too few pods for steps");
    }
    if !has_its_pods(lock, live) {
        return Some("it has fewer available pods than its strategy promises");
    }
    let is_by_hand = partition(live) > 0 && CanaryMark::on(live).is_none() && is_others(lock.kind, live);
    (lock.kind == CanaryKind::StatefulSet && is_by_hand).then_some("somebody has set its partition by hand")
}

/// Returns true when a live workload has as many available pods as its strategy promises. With fewer, the locks would keep its
/// controller from making those that are missing: a fix comes without steps. A StatefulSet's controller may wait for any of them. Of a
/// DaemonSet there is room for one more unavailable pod, or belay could delete none.
fn has_its_pods(lock: &CanaryLock, live: &Value) -> bool {
    let replicas = lock.replicas;
    let unavailable = match (lock.kind, live.pointer("/spec/strategy/rollingUpdate/maxUnavailable")) {
        (CanaryKind::StatefulSet, _) => 0,
        (CanaryKind::DaemonSet, _) => max_unavailable(live, replicas).saturating_sub(1),
        (CanaryKind::Deployment, Some(value)) => hundredths(value, replicas) / 100,
        (CanaryKind::Deployment, None) => replicas / 4,
    };
    let status = &live["status"];
    let available =
        status["availableReplicas"].as_i64().or_else(|| status["numberAvailable"].as_i64()).unwrap_or_default();
    available > 0 && available >= replicas.saturating_sub(unavailable)
}

/// Returns the number of nodes that may be without an available pod of a live DaemonSet at once, out of all of its nodes: one
/// unless it says otherwise.
pub(super) fn max_unavailable(live: &Value, nodes: i64) -> i64 {
    let said = live.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable");
    said.map_or(1, |value| hundredths(value, nodes).saturating_add(99) / 100).max(1)
}

/// Returns a number of pods, or a percentage of them, times 100.
fn hundredths(value: &Value, of: i64) -> i64 {
    let Value::String(text) = value else { return value.as_i64().unwrap_or_default().saturating_mul(100) };
    let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<i64>().ok()).unwrap_or_default();
    of.saturating_mul(percent.clamp(0, 100))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::marks;
    use serde_json::json;

    fn lock(kind: CanaryKind, pods: i64) -> CanaryLock {
        CanaryLock { kind, mark: CanaryMark::at(1, 2), pods, replicas: 4, paused: false }
    }

    #[test]
    fn a_canary_needs_the_pods_that_the_strategy_promises() {
        let of = |unavailable: Value, available: i64| {
            let live = json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": unavailable}}},
                "status": {"availableReplicas": available}});
            why_without_steps(&lock(CanaryKind::Deployment, 1), &live).is_none()
        };
        for (unavailable, available, expected) in [
            (json!(0), 4, true),
            (json!(0), 3, false),
            (json!(1), 3, true),
            (json!("25%"), 3, true),
            (json!("25%"), 2, false),
            (json!("100%"), 1, true),
            (json!("100%"), 0, false),
            (json!("many"), 4, true),
        ] {
            assert_eq!(of(unavailable.clone(), available), expected, "{unavailable} {available}");
        }
        let by_default = |available: i64| {
            let live = json!({"status": {"availableReplicas": available}});
            why_without_steps(&lock(CanaryKind::Deployment, 1), &live).is_none()
        };
        assert!(!by_default(0) && by_default(3));
    }

    #[test]
    fn a_stateful_set_is_rolled_out_in_steps_where_all_is_well() {
        let others = json!([{"manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:updateStrategy": {"f:rollingUpdate":
            {"f:partition": {}}}}}}]);
        let set = |available: i64, partition: i64, managed: &Value, mark: Option<&str>| {
            json!({"kind": "StatefulSet", "metadata": {"managedFields": managed, "annotations": {marks::CANARY_STEP: mark}},
                "spec": {"replicas": 4, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}},
                "status": {"availableReplicas": available}})
        };
        let (none, marked) = (json!([]), Some(r#"{"step":1,"of":2}"#));
        for (case, pods, live, expected) in [
            ("all is well", 1, set(4, 0, &none, None), ""),
            ("nothing", 0, set(1, 0, &none, None), "it has too few pods for steps"),
            (
                "one is not available",
                1,
                set(3, 0, &none, None),
                "it has fewer available pods than its strategy promises",
            ),
            ("a partition by hand", 1, set(4, 2, &others, None), "somebody has set its partition by hand"),
            ("that of the manifest before", 1, set(4, 2, &none, None), ""),
            ("that of a canary that is superseded", 1, set(4, 2, &others, marked), ""),
        ] {
            let why = why_without_steps(&lock(CanaryKind::StatefulSet, pods), &live);
            assert_eq!(why.unwrap_or_default(), expected, "{case}");
        }
    }

    #[test]
    fn a_daemon_set_needs_room_for_one_more_unavailable_pod() {
        for (said, available, expected) in [
            (Value::Null, 10, true),
            (Value::Null, 9, false),
            (json!(3), 8, true),
            (json!(3), 7, false),
            (json!("15%"), 9, true),
            (json!("15%"), 8, false),
            (json!(0), 10, true),
        ] {
            let live = json!({"kind": "DaemonSet", "spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": said}}},
                "status": {"numberAvailable": available}});
            let lock = CanaryLock { replicas: 10, ..lock(CanaryKind::DaemonSet, 1) };
            assert_eq!(why_without_steps(&lock, &live).is_none(), expected, "{said} {available}");
        }
    }

    #[test]
    fn a_step_of_a_stateful_set_is_locked_and_becomes_ready() {
        for (case, [current, ready], is_locked, expected) in [
            ("nothing is there yet", [0, 0], true, CanaryMove::Wait),
            ("they start", [2, 1], true, CanaryMove::Wait),
            ("they are ready", [2, 2], true, CanaryMove::Ready),
            ("more, of an autoscaler", [3, 3], true, CanaryMove::Ready),
            ("somebody has changed the partition", [2, 2], false, CanaryMove::Lock),
        ] {
            let pods = CanaryPods { current, ready, ..CanaryPods::default() };
            assert_eq!(next_move(&lock(CanaryKind::StatefulSet, 2), pods, is_locked, false), expected, "{case}");
        }
    }

    #[test]
    fn a_step_is_locked_first_then_filled_then_paused() {
        let two = lock(CanaryKind::Deployment, 2);
        let pods = |desired, ready| CanaryPods { desired, current: desired, ready, available: 0 };
        for (case, pods, is_locked, is_paused, expected) in [
            ("nothing is there yet", pods(0, 0), true, false, CanaryMove::Wait),
            ("one is to come", pods(1, 1), true, false, CanaryMove::Wait),
            ("they are there", pods(2, 0), true, false, CanaryMove::Pause),
            ("they start", pods(2, 1), true, true, CanaryMove::Wait),
            ("they are ready", pods(2, 2), true, true, CanaryMove::Ready),
            ("ready, and somebody has resumed it", pods(2, 2), true, false, CanaryMove::Pause),
            ("an autoscaler took one", pods(1, 1), true, true, CanaryMove::Unpause),
            ("somebody has changed the strategy", pods(2, 2), false, true, CanaryMove::Lock),
            ("somebody has resumed it and changed it", pods(5, 5), false, false, CanaryMove::Lock),
            ("an autoscaler made one more", pods(3, 3), true, true, CanaryMove::Ready),
        ] {
            assert_eq!(next_move(&two, pods, is_locked, is_paused), expected, "{case}");
        }
        let replaced = CanaryPods { desired: 2, current: 1, ready: 1, available: 0 };
        assert_eq!(next_move(&two, replaced, true, true), CanaryMove::Wait, "one went with its node");
        assert_eq!(next_move(&two, replaced, true, false), CanaryMove::Wait, "a quota has no room for one");
        let available = CanaryPods { available: 1, ..pods(1, 1) };
        assert_eq!(next_move(&two, available, true, true), CanaryMove::Wait, "the controller would replace an old one");
    }
}
