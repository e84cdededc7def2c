//! A Deployment's conditions. Pure.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DeploymentCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The condition that enough pods are available.
pub const AVAILABLE: &str = "Available";
/// The condition that the rollout makes progress.
pub const PROGRESSING: &str = "Progressing";
/// The condition that pods can't be made or deleted.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Reasons of [`PROGRESSING`].
pub mod reason {
    /// The rollout is complete.
    pub const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
    /// Something moved.
    pub const SET_UPDATED: &str = "ReplicaSetUpdated";
    /// Nothing moved for too long.
    pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    /// The new ReplicaSet was made.
    pub const SET_CREATED: &str = "NewReplicaSetCreated";
    /// The new ReplicaSet was there already.
    pub const SET_FOUND: &str = "FoundNewReplicaSet";
    /// The new ReplicaSet can't be made.
    pub const SET_NOT_CREATED: &str = "ReplicaSetCreateError";
    /// Paused.
    pub const PAUSED: &str = "DeploymentPaused";
    /// Not paused any more.
    pub const RESUMED: &str = "DeploymentResumed";
}

/// The conditions of a status, in their order.
pub type DeploymentConditions = Option<Vec<DeploymentCondition>>;

/// Returns a condition as of `now`.
pub fn condition(kind: &str, status: &str, reason: &str, message: String, now: Timestamp) -> DeploymentCondition {
    DeploymentCondition {
        type_: Some(kind.to_owned()),
        status: Some(status.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(Time(now)),
        last_update_time: Some(Time(now)),
    }
}

/// Returns the condition of a kind.
pub fn find<'a>(conditions: &'a DeploymentConditions, kind: &str) -> Option<&'a DeploymentCondition> {
    conditions.iter().flatten().find(|condition| condition.type_.as_deref() == Some(kind))
}

/// Returns the reason of a condition; empty if there is none.
pub fn reason_of(condition: &DeploymentCondition) -> &str {
    condition.reason.as_deref().unwrap_or_default()
}

/// Sets a condition. One with the same status and reason stays as it is; one with the same status keeps its time of
/// transition. A condition that is replaced goes to the end.
pub fn set(conditions: &mut DeploymentConditions, mut new: DeploymentCondition) {
    let kind = new.type_.clone().unwrap_or_default();
    if let Some(present) = find(conditions, &kind)
        && present.status == new.status
    {
        if present.reason == new.reason {
            return;
        }
        new.last_transition_time.clone_from(&present.last_transition_time);
    }
    remove(conditions, &kind);
    conditions.get_or_insert_default().push(new);
}

/// Removes a condition.
pub fn remove(conditions: &mut DeploymentConditions, kind: &str) {
    if let Some(list) = conditions {
        list.retain(|condition| condition.type_.as_deref() != Some(kind));
        if list.is_empty() {
            *conditions = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AVAILABLE, PROGRESSING, condition, find, remove, set};
    use jiff::Timestamp;

    #[test]
    fn a_condition_changes_only_with_its_status_or_reason() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = None;
        set(&mut conditions, condition(PROGRESSING, "True", "A", "first".to_owned(), at(1)));
        set(&mut conditions, condition(AVAILABLE, "True", "B", String::new(), at(1)));
        set(&mut conditions, condition(PROGRESSING, "True", "A", "second".to_owned(), at(2)));
        assert_eq!(find(&conditions, PROGRESSING).unwrap().message.as_deref(), Some("first"));
        set(&mut conditions, condition(PROGRESSING, "True", "C", String::new(), at(3)));
        let found = find(&conditions, PROGRESSING).unwrap();
        let times = |found: &super::DeploymentCondition| {
            let second = |time: &Option<super::Time>| time.as_ref().unwrap().0.as_second();
            (second(&found.last_transition_time), second(&found.last_update_time))
        };
        assert_eq!(times(found), (1, 3));
        assert_eq!(conditions.as_ref().unwrap().last().unwrap().type_.as_deref(), Some(PROGRESSING));
        set(&mut conditions, condition(PROGRESSING, "False", "D", String::new(), at(4)));
        assert_eq!(times(find(&conditions, PROGRESSING).unwrap()), (4, 4));
        remove(&mut conditions, PROGRESSING);
        remove(&mut conditions, AVAILABLE);
        assert!(conditions.is_none());
    }
}
