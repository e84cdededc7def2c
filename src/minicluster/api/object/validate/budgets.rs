//! What holds workloads within bounds: disruption budgets, autoscalers, quotas, ranges, priorities, leases.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::look::Look;
use super::super::quantity::Quantity;
use super::apps::{at_most_all, count_or_percent, not_negative};
use super::errors::{Errors, Path, Shown};
use super::selector;

const HIGHEST_PRIORITY: i64 = 1_000_000_000;

/// A PodDisruptionBudget, its metadata apart.
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
    one_of(spec, "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"], &at, errors);
}

/// A HorizontalPodAutoscaler, its metadata apart.
pub fn autoscaler(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let (least, most) = (spec.int("minReplicas"), spec.int("maxReplicas").unwrap_or_default());
    if let Some(least) = least.filter(|least| *least < 1) {
        errors.invalid(&at.field("minReplicas"), least, "must be greater than or equal to 1");
    }
    if most < 1 {
        errors.required(&at.field("maxReplicas"), "must be set and greater than 0");
    }
    if least.is_some_and(|least| most < least) {
        errors.invalid(&at.field("maxReplicas"), most, "must be greater than or equal to `minReplicas`");
    }
    let (target, at) = (&spec["scaleTargetRef"], at.field("scaleTargetRef"));
    for name in ["kind", "name"] {
        let text = target.text(name);
        if text.is_empty() {
            errors.required(&at.field(name), "");
        } else if text.contains('/') {
            errors.invalid(&at.field(name), text, "may not contain '/'");
        }
    }
    let version = target.text("apiVersion");
    if version.matches('/').count() > 1 {
        errors.invalid(&at.field("apiVersion"), version, &format!("unexpected GroupVersion string: {version}"));
    } else if !version.contains('/') && target.text("kind") != "ReplicationController" {
        errors.invalid(&at.field("apiVersion"), version, "apiVersion must specify API group");
    }
}

/// A LimitRange, its metadata apart.
pub fn limit_range(object: &Value, errors: &mut Errors) {
    let limits = Path::root("spec.limits");
    let mut seen = BTreeSet::new();
    for (index, limit) in object["spec"].list("limits").iter().enumerate() {
        let (at, ty) = (limits.index(index), limit.text("type"));
        if !seen.insert(ty) {
            errors.duplicate(&at.field("type"), ty);
            continue;
        }
        if ty == "Pod" {
            for name in ["default", "defaultRequest"].iter().filter(|name| !limit.entries(name).is_empty()) {
                errors.forbidden(&at.field(name), "may not be specified when `type` is 'Pod'");
            }
        }
        if ty == "PersistentVolumeClaim" && !limit["min"].has("storage") && !limit["max"].has("storage") {
            let detail = "either minimum or maximum storage value is required, but neither was provided";
            errors.required(&at.field("limits"), detail);
        }
        for (resource, least) in limit.entries("min") {
            let Some(most) = limit["max"].some(resource) else { continue };
            let pair = (least.as_str().map(Quantity::parse), most.as_str().map(Quantity::parse));
            if let (Some(Ok(low)), Some(Ok(high))) = pair
                && low.compare(&high).is_gt()
            {
                let detail = format!("min value {} is greater than max value {}", low.canonical(), high.canonical());
                errors.invalid(&at.field("min").key(resource), least, &detail);
            }
        }
    }
}

/// A PriorityClass, its metadata apart.
pub fn priority_class(object: &Value, errors: &mut Errors) {
    let value = object.int("value").unwrap_or_default();
    if value > HIGHEST_PRIORITY && !object["metadata"].text("name").starts_with("system-") {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
        errors.forbidden(&Path::root("value"), &detail);
    }
    if let Some(policy) = object.some("preemptionPolicy").and_then(Value::as_str)
        && !["PreemptLowerPriority", "Never"].contains(&policy)
    {
        errors.not_supported(&Path::root("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
}

/// A Lease, its metadata apart.
pub fn lease(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    if let Some(seconds) = spec.int("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid(&at.field("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    not_negative(spec, "leaseTransitions", &at, errors);
}

/// A ControllerRevision, its metadata apart.
pub fn revision(object: &Value, errors: &mut Errors) {
    let revision = object.int("revision").unwrap_or_default();
    if revision < 0 {
        errors.invalid(&Path::root("revision"), revision, "must be greater than or equal to 0");
    }
    if !object.has("data") {
        errors.required(&Path::root("data"), "data is mandatory");
    }
}

fn one_of(of: &Value, name: &str, known: &[&str], at: &Path<'_>, errors: &mut Errors) {
    if let Some(value) = of.some(name).and_then(Value::as_str)
        && !known.contains(&value)
    {
        errors.not_supported(&at.field(name), value, known);
    }
}

/// A StorageClass, its metadata apart.
pub fn storage_class(object: &Value, errors: &mut Errors) {
    let provisioner = object.text("provisioner");
    let at = Path::root("provisioner");
    if provisioner.is_empty() {
        errors.required(&at, "");
    } else {
        let lower = provisioner.to_lowercase();
        errors.each_invalid(&at, lower.as_str(), &super::names::qualified_name(&lower));
    }
    if object.entries("parameters").contains_key("") {
        errors.invalid(&Path::root("parameters"), "", "field can not be empty.");
    }
    let at = Path::root("");
    one_of(object, "reclaimPolicy", &["Delete", "Retain"], &at, errors);
    one_of(object, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], &at, errors);
}
