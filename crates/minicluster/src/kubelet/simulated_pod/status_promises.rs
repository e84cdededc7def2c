//! The promises that a status keeps to the one before it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

/// Checks two statuses of a pod, one right after the other.
pub fn check(before: &PodStatus, after: &PodStatus, now: Timestamp) {
    let ended = |status: &PodStatus| matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    if ended(before) {
        assert_eq!(before.phase, after.phase, "what has ended has ended");
    }
    for condition in after.conditions.iter().flatten() {
        let old = before.conditions.iter().flatten().find(|old| old.type_ == condition.type_);
        let since = condition.last_transition_time.as_ref().unwrap().0;
        match old {
            Some(old) if old.status == condition.status => {
                assert_eq!(old.last_transition_time, condition.last_transition_time)
            }
            _ => assert_eq!(since, now, "{condition:?}"),
        }
    }
    let statuses = |status: &PodStatus| -> Vec<ContainerStatus> {
        [&status.init_container_statuses, &status.container_statuses].into_iter().flatten().flatten().cloned().collect()
    };
    let (before, all) = (statuses(before), statuses(after));
    for container in &all {
        let old = before.iter().find(|old| old.name == container.name);
        let restarts = container.restart_count - old.map_or(0, |old| old.restart_count);
        assert!((0..=1).contains(&restarts), "{container:?} after {old:?}");
        let state = container.state.as_ref().unwrap();
        let states = [state.running.is_some(), state.waiting.is_some(), state.terminated.is_some()];
        assert_eq!(states.into_iter().filter(|is| *is).count(), 1, "{container:?}");
        let done = state.terminated.as_ref().is_some_and(|ended| ended.exit_code == 0);
        assert!(!container.ready || state.running.is_some() || done, "{container:?}");
        assert!(state.running.is_none() || container.container_id.is_some());
    }
    let ready =
        after.conditions.iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    assert!(!ready || all.iter().all(|container| container.ready), "{after:?}");
    assert!(!ended(after) || all.iter().all(|c| c.state.as_ref().unwrap().running.is_none()), "{after:?}");
}
