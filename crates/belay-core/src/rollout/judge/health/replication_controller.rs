//! ReplicationControllers: a changed template makes no new pods by itself, so complete means the size is right.

use serde_json::Value;

use super::{Counters, Health, Standing, condition, number, text};

pub(super) fn health(object: &Value) -> Health {
    let desired = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let total = number(object, "/status/replicas");
    let counters = Counters {
        desired,
        total,
        updated: total,
        ready: number(object, "/status/readyReplicas"),
        available: number(object, "/status/availableReplicas"),
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
