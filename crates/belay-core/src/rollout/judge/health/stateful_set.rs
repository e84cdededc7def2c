//! StatefulSets: complete when every pod that the strategy updates is new and ready.

use serde_json::Value;

use super::{Counters, Health, Standing, canary_step, number, pod_count, pods};

pub(super) fn health(object: &Value) -> Health {
    let desired = pod_count(&object["spec"]["replicas"]).unwrap_or(1);
    let counters = Counters {
        desired,
        total: pods(object, "/status/replicas"),
        updated: pods(object, "/status/updatedReplicas"),
        ready: pods(object, "/status/readyReplicas"),
        available: pods(object, "/status/availableReplicas"),
    };
    let step = canary_step(object, &counters);
    let is_complete = complete(object, &counters) && step.is_none();
    let standing = if is_complete { Standing::Complete } else { Standing::Moving };
    let message = step.unwrap_or_else(|| match (&standing, on_delete(object)) {
        (Standing::Complete, true) => {
            "updateStrategy is OnDelete: pods are replaced when somebody deletes them".to_owned()
        }
        (Standing::Complete, false) => format!("{} of {desired} pods are ready", counters.ready),
        (_, false) if counters.updated < to_update(object, desired) => {
            format!("{} of {} pods have been updated", counters.updated, to_update(object, desired))
        }
        _ => format!("{} of {desired} pods are available", counters.available),
    });
    Health {
        observed_generation: number(object, "/status/observedGeneration"),
        standing,
        failure: None,
        counters,
        message,
    }
}

/// Returns true when its controller has made the present revision the current one, which it does when all pods are
/// ready. The first one is current from its beginning.
pub(super) fn was_complete(object: &Value) -> bool {
    let status = &object["status"];
    let is_current = status["currentRevision"] == status["updateRevision"] && status["updateRevision"].is_string();
    is_current && number(object, "/metadata/generation") > 1
}

fn on_delete(object: &Value) -> bool {
    object["spec"]["updateStrategy"]["type"] == "OnDelete"
}

/// Returns how many pods are to be updated: those below the partition keep their revision.
fn to_update(object: &Value, desired: i64) -> i64 {
    (desired - pods(object, "/spec/updateStrategy/rollingUpdate/partition")).max(0)
}

fn complete(object: &Value, counters: &Counters) -> bool {
    if on_delete(object) {
        return counters.ready >= counters.desired;
    }
    let status = &object["status"];
    let one_revision = status["currentRevision"] == status["updateRevision"];
    // While one revision is current and new, the controller may count its pods as those of the current one alone. Pods of another
    // are there where its template came back before all of them were replaced.
    let of_revision = if one_revision { pods(object, "/status/currentReplicas") } else { 0 };
    let updated = counters.updated.max(of_revision) >= to_update(object, counters.desired);
    let partitioned = to_update(object, counters.desired) < counters.desired;
    updated
        && (one_revision || partitioned)
        && counters.total == counters.desired
        && counters.ready >= counters.desired
        && counters.available >= counters.desired
}
