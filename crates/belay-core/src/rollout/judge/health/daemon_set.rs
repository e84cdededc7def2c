//! DaemonSets: complete when every node that should run the new pod has it available.

use serde_json::Value;

use super::{Counters, Health, Standing, canary_step, number, pods};

pub(super) fn health(object: &Value) -> Health {
    let counters = Counters {
        desired: pods(object, "/status/desiredNumberScheduled"),
        total: pods(object, "/status/currentNumberScheduled"),
        updated: pods(object, "/status/updatedNumberScheduled"),
        ready: pods(object, "/status/numberReady"),
        available: pods(object, "/status/numberAvailable"),
    };
    let Counters { desired, updated, available, .. } = counters;
    let on_delete = object["spec"]["updateStrategy"]["type"] == "OnDelete";
    let step = canary_step(object, &counters);
    let complete = available >= desired && (on_delete || updated >= desired) && step.is_none();
    let message = if let Some(step) = step {
        step
    } else if complete && on_delete && updated < desired {
        "updateStrategy is OnDelete: pods are replaced when somebody deletes them".to_owned()
    } else if updated < desired && !on_delete {
        format!("{updated} of {desired} nodes have the new pod")
    } else {
        format!("{available} of {desired} pods are available")
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
