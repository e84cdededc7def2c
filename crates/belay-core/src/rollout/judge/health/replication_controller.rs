//! ReplicationControllers: a changed template makes no new pods by itself, so complete means the size is right.

use serde_json::Value;

use super::{Counters, Health, Standing, condition, number, pod_count, pods, text};

pub(super) fn health(object: &Value) -> Health {
    let desired = pod_count(&object["spec"]["replicas"]).unwrap_or(1);
    let total = pods(object, "/status/replicas");
    let counters = Counters {
        desired,
        total,
        updated: total,
        ready: pods(object, "/status/readyReplicas"),
        available: pods(object, "/status/availableReplicas"),
    };
    let complete = total == desired && counters.available >= desired;
    let message = match condition(object, "ReplicaFailure").filter(|failing| failing["status"] == "True") {
        Some(failing) if !complete => format!("pods can't be made: {}", text(failing, "message")),
        _ => format!("{} of {desired} pods are available", counters.available),
    };
    let standing = if complete { Standing::Complete } else { Standing::Moving };
    Health {
        observed_generation: number(object, "/status/observedGeneration"),
        standing,
        failure: None,
        counters,
        message,
    }
}
