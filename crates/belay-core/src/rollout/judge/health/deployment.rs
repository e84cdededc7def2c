//! Deployments: <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#deployment-status>.

use serde_json::Value;

use super::{Counters, Failure, Health, Standing, canary_step, condition, failure, number, pod_count, pods, text};
use crate::rollout::canary::CanaryMark;

pub(super) fn health(object: &Value) -> Health {
    let desired = pod_count(&object["spec"]["replicas"]).unwrap_or(1);
    let counters = Counters {
        desired,
        total: pods(object, "/status/replicas"),
        updated: pods(object, "/status/updatedReplicas"),
        ready: pods(object, "/status/readyReplicas"),
        available: pods(object, "/status/availableReplicas"),
    };
    let failure = deadline_exceeded(object);
    let standing = standing(object, &counters, failure.is_some());
    let message = message(object, &counters, &standing);
    Health { observed_generation: number(object, "/status/observedGeneration"), standing, failure, counters, message }
}

/// Returns true when all of its pods have the present template, and were available once. The condition alone may be
/// about the template before.
pub(super) fn was_complete(object: &Value) -> bool {
    let Counters { desired, total, updated, .. } = health(object).counters;
    let progressing = condition(object, "Progressing");
    let available = progressing.is_some_and(|progressing| text(progressing, "reason") == "NewReplicaSetAvailable");
    available && updated == desired && total == updated
}

fn standing(object: &Value, counters: &Counters, failed: bool) -> Standing {
    let Counters { desired, total, updated, available, .. } = *counters;
    // The counters decide, not the conditions: a Deployment whose new ReplicaSet was not made yet still says
    // NewReplicaSetAvailable of the one before.
    if updated == desired && total == updated && available == desired {
        Standing::Complete
    } else if object["spec"]["paused"] == true && CanaryMark::on(object).is_none() {
        Standing::Paused
    } else if failed {
        Standing::Failed
    } else {
        Standing::Moving
    }
}

/// Returns the other reason for which a Deployment does not progress, ReplicaSetCreateError, may heal; belay's own
/// deadline ends it if it does not.
fn deadline_exceeded(object: &Value) -> Option<Failure> {
    const REASON: &str = "ProgressDeadlineExceeded";
    let progressing = condition(object, "Progressing")?;
    let exceeded = progressing["status"] == "False" && progressing["reason"] == REASON;
    exceeded.then(|| failure(progressing, REASON, "the rollout exceeded its progress deadline".to_owned()))
}

fn message(object: &Value, counters: &Counters, standing: &Standing) -> String {
    let Counters { desired, total, updated, available, .. } = *counters;
    if *standing == Standing::Complete {
        return format!("{available} of {desired} pods are available");
    }
    if let Some(failing) = condition(object, "ReplicaFailure").filter(|failing| failing["status"] == "True") {
        return format!("pods can't be made: {}", text(failing, "message"));
    }
    if let Some(progressing) = condition(object, "Progressing")
        && text(progressing, "reason") == "ReplicaSetCreateError"
    {
        return text(progressing, "message").to_owned();
    }
    if let Some(step) = canary_step(object, counters) {
        return step;
    }
    if *standing == Standing::Paused {
        return format!("paused at {updated} of {desired} new pods");
    }
    if updated < desired {
        format!("{updated} of {desired} new pods have been made")
    } else if total > updated {
        format!("{} old pods are still there", total - updated)
    } else {
        format!("{available} of {updated} new pods are available")
    }
}
