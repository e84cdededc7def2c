//! Pods that have started, and pods that can't.

use serde_json::Value;

use super::{condition, text};

/// States of a container that may start at any time, or that has started before.
const NO_OBSTACLE: [&str; 4] = ["", "ContainerCreating", "PodInitializing", "CrashLoopBackOff"];

/// The progress of a pod on the way to its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodStart {
    /// A container of it runs, or has run.
    Started,
    /// It may start at any time.
    #[default]
    Open,
    /// It can't start, as the cluster says.
    Stuck,
    /// It is being deleted, and nothing of it has started.
    Leaving,
}

/// Returns how far a pod has come.
pub(super) fn start_of_pod(pod: &Value) -> PodStart {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = || lists.into_iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    let is_leaving = pod["metadata"].get("deletionTimestamp").is_some();
    // A node ends a deleted pod as failed, also one of which nothing has started: its containers tell.
    let has_ended_or_runs = match text(&pod["status"], "phase") {
        "Running" | "Succeeded" => true,
        "Failed" => !is_leaving,
        _ => false,
    };
    if has_ended_or_runs || statuses().any(has_started) {
        return PodStart::Started;
    }
    if is_leaving {
        return PodStart::Leaving;
    }
    // Its node counts this time from the pod's arrival on, and ends the pod.
    let has_own_deadline = pod["spec"]["activeDeadlineSeconds"].is_number() && pod["status"]["startTime"].is_string();
    let is_stuck = !has_own_deadline && (is_unschedulable(pod) || statuses().any(waits_for_more));
    if is_stuck { PodStart::Stuck } else { PodStart::Open }
}

fn has_started(status: &Value) -> bool {
    let is = |state: &Value| state.is_object();
    let (now, before) = (&status["state"], &status["lastState"]);
    is(&now["running"])
        || is(&now["terminated"]) && !was_never_found(&now["terminated"])
        || is(&before["terminated"])
        || status["started"] == true
        || status["restartCount"].as_i64().is_some_and(|restarts| restarts > 0)
        || text(&now["waiting"], "reason") == "CrashLoopBackOff"
}

/// Returns true for the end that a node gives to a container which it has not found, and of which it knows no start.
fn was_never_found(terminated: &Value) -> bool {
    text(terminated, "reason") == "ContainerStatusUnknown" && !terminated["startedAt"].is_string()
}

fn waits_for_more(status: &Value) -> bool {
    let waiting = &status["state"]["waiting"];
    waiting.is_object() && !NO_OBSTACLE.contains(&text(waiting, "reason"))
}

fn is_unschedulable(pod: &Value) -> bool {
    condition(pod, "PodScheduled")
        .is_some_and(|scheduled| scheduled["status"] == "False" && scheduled["reason"] == "Unschedulable")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn waits(reason: &str) -> Value {
        json!([{"name": "app", "restartCount": 0, "started": false, "state": {"waiting": {"reason": reason}}}])
    }

    fn pod(status: Value) -> Value {
        json!({"metadata": {"name": "migrate"}, "spec": {}, "status": status})
    }

    fn unscheduled(reason: &str) -> Value {
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}]})
    }

    #[test]
    fn only_what_the_cluster_says_makes_a_pod_stuck() {
        for reason in [
            "ErrImagePull",
            "ImagePullBackOff",
            "ErrImageNeverPull",
            "InvalidImageName",
            "CreateContainerConfigError",
            "CreateContainerError",
            "RunContainerError",
            "RegistryUnavailable",
        ] {
            for list in ["containerStatuses", "initContainerStatuses"] {
                let status = json!({"phase": "Pending", list: waits(reason)});
                assert_eq!(start_of_pod(&pod(status)), PodStart::Stuck, "{reason} {list}");
            }
        }
        let running = json!([{"name": "first", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]);
        let ended = json!([{"name": "first", "state": {"terminated": {"exitCode": 0}}}]);
        let ended_before = json!([{"name": "app", "state": {"waiting": {"reason": "CreateContainerError"}},
            "lastState": {"terminated": {"exitCode": 1}}}]);
        let restarted =
            json!([{"name": "app", "restartCount": 1, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
        let missing = waits("ImagePullBackOff");
        for (status, expected) in [
            (json!({}), PodStart::Open),
            (json!({"phase": "Pending"}), PodStart::Open),
            (json!({"phase": "Pending", "containerStatuses": waits("ContainerCreating")}), PodStart::Open),
            (json!({"phase": "Pending", "initContainerStatuses": waits("PodInitializing")}), PodStart::Open),
            (json!({"phase": "Pending", "containerStatuses": waits("")}), PodStart::Open),
            (unscheduled("Unschedulable"), PodStart::Stuck),
            (unscheduled("SchedulingGated"), PodStart::Open),
            (json!({"phase": "Running", "containerStatuses": missing}), PodStart::Started),
            (json!({"phase": "Succeeded"}), PodStart::Started),
            (json!({"phase": "Failed", "containerStatuses": missing}), PodStart::Started),
            (
                json!({"phase": "Pending", "initContainerStatuses": running, "containerStatuses": missing}),
                PodStart::Started,
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": ended, "containerStatuses": missing}),
                PodStart::Started,
            ),
            (json!({"phase": "Pending", "containerStatuses": ended_before}), PodStart::Started),
            (json!({"phase": "Pending", "containerStatuses": restarted}), PodStart::Started),
            (json!({"phase": "Pending", "containerStatuses": waits("CrashLoopBackOff")}), PodStart::Started),
            (json!({"containerStatuses": [7, {"state": [1]}, {"state": {"waiting": 3}}], "phase": 4}), PodStart::Open),
        ] {
            assert_eq!(start_of_pod(&pod(status.clone())), expected, "{status}");
        }
    }

    #[test]
    fn a_deleted_pod_of_which_nothing_has_started_leaves_whatever_its_phase_is() {
        let ended = |terminated: Value, restarts: i64| json!([{"name": "app", "restartCount": restarts, "started": false, "state": {"terminated": terminated}}]);
        let unknown =
            json!({"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": null, "finishedAt": null});
        let known = json!({"exitCode": 137, "reason": "Error", "startedAt": "2026-01-01T00:00:00Z"});
        for (status, expected) in [
            (json!({"phase": "Pending", "containerStatuses": waits("ImagePullBackOff")}), PodStart::Leaving),
            (json!({"phase": "Failed", "containerStatuses": ended(unknown.clone(), 0)}), PodStart::Leaving),
            (json!({"phase": "Failed", "reason": "Evicted"}), PodStart::Leaving),
            (json!({"phase": "Failed", "containerStatuses": ended(unknown, 1)}), PodStart::Started),
            (json!({"phase": "Failed", "containerStatuses": ended(known, 0)}), PodStart::Started),
            (json!({"phase": "Succeeded"}), PodStart::Started),
        ] {
            let mut leaving = pod(status.clone());
            leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            assert_eq!(start_of_pod(&leaving), expected, "{status}");
        }
    }

    #[test]
    fn a_deadline_of_its_own_counts_where_it_runs() {
        let mut limited = pod(json!({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": waits("ImagePullBackOff")}));
        assert_eq!(start_of_pod(&limited), PodStart::Stuck);
        limited["spec"]["activeDeadlineSeconds"] = json!(3600);
        assert_eq!(start_of_pod(&limited), PodStart::Open);
        let mut homeless = pod(unscheduled("Unschedulable"));
        homeless["spec"]["activeDeadlineSeconds"] = json!(3600);
        assert_eq!(start_of_pod(&homeless), PodStart::Stuck, "no node counts it");
    }
}
