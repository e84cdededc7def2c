//! The next move of a canary step, by the pods that are there.

use serde_json::Value;

/// The pods of a Deployment that a canary looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CanaryPods {
    /// New pods that the new ReplicaSet is to have.
    pub desired: i64,
    /// New pods that it has.
    pub current: i64,
    /// New pods that are ready.
    pub ready: i64,
    /// New pods that count as available: none, under the first lock.
    pub available: i64,
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

/// Returns the next move of a step with `wanted` new pods. `is_locked` says that the first lock is as the step wants it.
#[must_use]
pub fn next_move(wanted: i64, pods: CanaryPods, is_locked: bool, is_paused: bool) -> CanaryMove {
    let has_them = pods.desired >= wanted;
    match (is_locked, has_them, is_paused) {
        (false, ..) => CanaryMove::Lock,
        // The first lock does not hold yet.
        (true, false, true) if pods.available > 0 => CanaryMove::Wait,
        // An autoscaler has removed some of them.
        (true, false, true) => CanaryMove::Unpause,
        (true, false, false) => CanaryMove::Wait,
        // Until they are there, the Deployment says why they can't be made; a paused one does not.
        (true, true, false) if pods.current < wanted => CanaryMove::Wait,
        (true, true, false) => CanaryMove::Pause,
        (true, true, true) if pods.current >= wanted && pods.ready >= wanted => CanaryMove::Ready,
        (true, true, true) => CanaryMove::Wait,
    }
}

/// Returns true when a live Deployment has as many available pods as its strategy promises. With fewer, the locks would keep its
/// controller from making those that are missing: a fix comes without steps.
#[must_use]
pub fn has_its_pods(live: &Value, replicas: i64) -> bool {
    let unavailable = match live.pointer("/spec/strategy/rollingUpdate/maxUnavailable") {
        Some(Value::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<i64>().ok()).unwrap_or_default();
            replicas.saturating_mul(percent.clamp(0, 100)) / 100
        }
        Some(value) => value.as_i64().unwrap_or_default(),
        None => replicas / 4,
    };
    let available = live["status"]["availableReplicas"].as_i64().unwrap_or_default();
    available > 0 && available >= replicas.saturating_sub(unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_canary_needs_the_pods_that_the_strategy_promises() {
        let of = |unavailable: Value, available: i64| {
            let live = json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": unavailable}}},
                "status": {"availableReplicas": available}});
            has_its_pods(&live, 4)
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
        assert!(!has_its_pods(&json!({}), 4) && has_its_pods(&json!({"status": {"availableReplicas": 3}}), 4));
    }

    #[test]
    fn a_step_is_locked_first_then_filled_then_paused() {
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
            assert_eq!(next_move(2, pods, is_locked, is_paused), expected, "{case}");
        }
        let replaced = CanaryPods { desired: 2, current: 1, ready: 1, available: 0 };
        assert_eq!(next_move(2, replaced, true, true), CanaryMove::Wait, "one went with its node");
        assert_eq!(next_move(2, replaced, true, false), CanaryMove::Wait, "a quota has no room for one");
        let available = CanaryPods { available: 1, ..pods(1, 1) };
        assert_eq!(next_move(2, available, true, true), CanaryMove::Wait, "the controller would replace an old one");
    }
}
