//! Pods that are hooks of charts: they run to their end, and their phase says how that was.

use serde_json::Value;

use super::{Counters, Failure, Health, Standing, text};
use crate::rollout::{Reason, ReasonCode, marks};

pub(super) fn health(pod: &Value) -> Health {
    let phase = text(&pod["status"], "phase");
    let standing = match phase {
        "Succeeded" => Standing::Complete,
        "Failed" => Standing::Failed,
        _ => Standing::Moving,
    };
    let ended = i64::from(standing == Standing::Complete);
    let running = i64::from(phase == "Running");
    let counters = Counters { desired: 1, total: 1, updated: ended, ready: running, available: ended };
    let message = match (standing, phase) {
        (Standing::Failed, _) => format!("the pod failed{}", why(pod)),
        (_, "") => "the pod has no status yet".to_owned(),
        _ => format!("the pod is {phase}{}", why(pod)),
    };
    let failure = (standing == Standing::Failed).then(|| Failure {
        reason: Reason::new(ReasonCode::Failed, message.clone()),
        mark: format!("{} {phase}", marks::uid(pod)),
    });
    // A pod runs once: its phase is about all of it.
    Health { observed_generation: i64::MAX, standing, failure, counters, message }
}

/// Returns what the pod, or the first container that says anything, gives as a reason, after a colon.
fn why(pod: &Value) -> String {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists.into_iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    let of_container = statuses.filter_map(|status| {
        let state = &status["state"];
        let code = state["terminated"]["exitCode"].as_i64().filter(|code| *code != 0);
        let waits = state["waiting"]["reason"].as_str().map(str::to_owned);
        code.map(|code| format!("container {} ended with {code}", text(status, "name"))).or(waits)
    });
    let own = ["reason", "message"].map(|field| text(&pod["status"], field).to_owned());
    let all = own.into_iter().filter(|said| !said.is_empty()).chain(of_container);
    all.take(2).map(|said| format!(": {said}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn its_phase_says_how_it_stands() {
        let ended = |code: i64| json!([{"name": "app", "state": {"terminated": {"exitCode": code}}}]);
        let waits = json!([{"name": "app", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
        for (status, standing, message) in [
            (json!({}), Standing::Moving, "the pod has no status yet"),
            (json!({"phase": "Pending"}), Standing::Moving, "the pod is Pending"),
            (
                json!({"phase": "Pending", "containerStatuses": waits}),
                Standing::Moving,
                "the pod is Pending: ImagePullBackOff",
            ),
            (json!({"phase": "Running"}), Standing::Moving, "the pod is Running"),
            (json!({"phase": "Succeeded", "containerStatuses": ended(0)}), Standing::Complete, "the pod is Succeeded"),
            (
                json!({"phase": "Failed", "containerStatuses": ended(3)}),
                Standing::Failed,
                "the pod failed: container app ended with 3",
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "no room"}),
                Standing::Failed,
                "the pod failed: Evicted: no room",
            ),
        ] {
            let health = health(&json!({"metadata": {"uid": "1"}, "status": status}));
            assert_eq!((health.standing, health.message.as_str()), (standing, message));
            assert_eq!(health.failure.is_some(), standing == Standing::Failed);
        }
    }
}
