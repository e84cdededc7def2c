//! The allowed changes of workloads, and of their status.

use serde_json::Value;

use super::super::value_ext::{ValueExt, restore};
use super::counts::not_negative;
use super::errors::{Errors, Path, Shown};
use super::selector;

/// Checks that the selector of a workload is for ever.
pub fn same_selector(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after) = (&old["spec"]["selector"], &new["spec"]["selector"]);
    if before != after {
        let shown = if after.is_null() { "null".to_owned() } else { selector::shown(after) };
        let at = Path::root("spec");
        errors.invalid(&at.field("selector"), Shown::Plain(shown), "field is immutable");
    }
}

/// Checks a changed StatefulSet, of which little may change.
pub fn stateful_set(old: &Value, new: &Value, errors: &mut Errors) {
    let mut same = new["spec"].clone();
    for name in [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ] {
        restore(&mut same, &old["spec"], name);
    }
    if same != old["spec"] {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        errors.forbidden(&Path::root("spec"), detail);
    }
}

/// Checks the counters of a status: none negative, none more than there are pods.
pub fn status(kind: &str, old: &Value, new: &Value, errors: &mut Errors) {
    let (status, at) = (&new["status"], Path::root("status"));
    for name in counters(kind) {
        not_negative(status, name, &at, errors);
    }
    let count = |name: &str| status.int(name).unwrap_or_default();
    let mut at_most = |name: &str, most: &str, said: &str| {
        if count(name) > count(most) {
            errors.invalid(&at.field(name), count(name), said);
        }
    };
    let parts: &[&str] = match kind {
        "Deployment" => &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "StatefulSet" => &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        "DaemonSet" => &[],
        _ => &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    };
    for name in parts {
        at_most(name, "replicas", "cannot be greater than status.replicas");
    }
    if kind != "DaemonSet" {
        let said = match kind {
            "StatefulSet" => "cannot be greater than status.readyReplicas",
            _ => "cannot be greater than readyReplicas",
        };
        at_most("availableReplicas", "readyReplicas", said);
    }
    if matches!(kind, "Deployment" | "StatefulSet" | "DaemonSet") {
        let (before, after) = (old["status"].int("collisionCount"), status.int("collisionCount"));
        if before.is_some_and(|before| after.is_none_or(|after| after < before)) {
            errors.invalid(&at.field("collisionCount"), after.unwrap_or_default(), "cannot be decremented");
        }
    }
}

/// Returns the counters in the status of a kind.
fn counters(kind: &str) -> &'static [&'static str] {
    match kind {
        "Deployment" => &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
        "StatefulSet" => &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ],
        "DaemonSet" => &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
        _ => &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
    }
}
