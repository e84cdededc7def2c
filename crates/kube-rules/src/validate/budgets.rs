//! The objects that bound workloads: disruption budgets, priorities, leases; and their revisions.

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::counts::{at_most_all, count_or_percent, not_negative};
use super::errors::{Errors, Path, Shown};
use super::selector;

const HIGHEST_PRIORITY: i64 = 1_000_000_000;

/// Checks a PodDisruptionBudget, its metadata apart.
pub fn disruption_budget(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    if let (Some(least), Some(most)) = (spec.some("minAvailable"), spec.some("maxUnavailable")) {
        let shown = format!(
            "{{\"MinAvailable\":{least},\"Selector\":{},\"MaxUnavailable\":{most},\"UnhealthyPodEvictionPolicy\":{}}}",
            spec.some("selector").map_or_else(|| "null".to_owned(), selector::shown),
            spec["unhealthyPodEvictionPolicy"]
        );
        errors.invalid(&at, Shown::Plain(shown), "minAvailable and maxUnavailable cannot be both set");
    }
    for name in ["minAvailable", "maxUnavailable"] {
        if let Some(value) = spec.some(name) {
            count_or_percent(value, &at.field(name), errors);
            at_most_all(value, &at.field(name), errors);
        }
    }
    selector::selector(&spec["selector"], &at.field("selector"), errors);
    errors.one_of(spec, "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"], &at);
}

/// Checks a PriorityClass, its metadata apart.
pub fn priority_class(object: &Value, errors: &mut Errors) {
    let value = object.int("value").unwrap_or_default();
    if value > HIGHEST_PRIORITY && !object["metadata"].text("name").starts_with("system-") {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
        errors.forbidden(&Path::root("value"), &detail);
    }
    if object.text("preemptionPolicy").is_empty() && object.has("preemptionPolicy") {
        errors.required(&Path::root("preemptionPolicy"), "");
    } else if let Some(policy) = object.some("preemptionPolicy").and_then(Value::as_str)
        && !["PreemptLowerPriority", "Never"].contains(&policy)
    {
        errors.not_supported(&Path::root("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
}

/// Checks a Lease, its metadata apart.
pub fn lease(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    if let Some(seconds) = spec.int("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid(&at.field("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    not_negative(spec, "leaseTransitions", &at, errors);
}

/// Checks a ControllerRevision, its metadata apart.
pub fn revision(object: &Value, errors: &mut Errors) {
    let revision = object.int("revision").unwrap_or_default();
    if revision < 0 {
        errors.invalid(&Path::root("revision"), revision, "must be greater than or equal to 0");
    }
}

/// Checks a new ControllerRevision: also its data.
pub fn new_revision(object: &Value, errors: &mut Errors) {
    revision(object, errors);
    if !object.has("data") {
        errors.required(&Path::root("data"), "data is mandatory");
    }
}

/// Checks a changed ControllerRevision.
pub fn revision_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old["data"] != new["data"] {
        errors.invalid(&Path::root("data"), Shown::Plain(new["data"].to_string()), "field is immutable");
    }
}

/// Checks a changed PriorityClass.
pub fn priority_class_update(old: &Value, new: &Value, errors: &mut Errors) {
    if old.int("value") != new.int("value") {
        errors.forbidden(&Path::root("value"), "may not be changed in an update.");
    }
    if old["preemptionPolicy"] != new["preemptionPolicy"] {
        errors.invalid(&Path::root("preemptionPolicy"), new.text("preemptionPolicy"), "field is immutable");
    }
}
