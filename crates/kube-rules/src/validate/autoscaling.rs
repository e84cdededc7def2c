//! Autoscalers: their target, their metrics, and their speed.

use serde_json::Value;

use super::super::quantity::Quantity;
use super::super::value_ext::ValueExt;
use super::counts::not_negative;
use super::errors::{Errors, Path, Shown};
use super::names;
use super::pod::resources::container_name;

const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const POLICIES: [&str; 2] = ["Percent", "Pods"];
const SELECT: [&str; 3] = ["Disabled", "Max", "Min"];
/// So many seconds may a window be long, and a policy's period.
const LONGEST: (i64, i64) = (3_600, 1_800);
const ONLY: &str = "must populate the given metric source only";

/// Checks a HorizontalPodAutoscaler, its metadata apart.
pub fn autoscaler(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let (least, most) = (spec.int("minReplicas"), spec.int("maxReplicas").unwrap_or_default());
    if let Some(least) = least.filter(|least| *least < 1) {
        errors.invalid(&at.field("minReplicas"), least, "must be greater than or equal to 1");
    }
    if most < 0 {
        errors.invalid(&at.field("maxReplicas"), most, "must be greater than or equal to 1");
    } else if most == 0 {
        errors.required(&at.field("maxReplicas"), "must be set and greater than 0");
    }
    if least.is_some_and(|least| most < least) {
        errors.invalid(&at.field("maxReplicas"), most, "must be greater than or equal to `minReplicas`");
    }
    target(&spec["scaleTargetRef"], &at.field("scaleTargetRef"), errors);
    // The older version knows one metric.
    if let Some(percent) = spec.int("targetCPUUtilizationPercentage").filter(|percent| *percent < 1) {
        let at = at.field("metrics");
        errors.invalid(&at.index(0).field("resource.target.averageUtilization"), percent, "must be greater than 0");
    }
    metrics(spec, &at.field("metrics"), errors);
    if let Some(behavior) = spec.some("behavior") {
        let at = at.field("behavior");
        for name in ["scaleUp", "scaleDown"] {
            if let Some(rules) = behavior.some(name) {
                rules_of(rules, &at.field(name), errors);
            }
        }
    }
}

/// Checks the status of a HorizontalPodAutoscaler.
pub fn status(object: &Value, errors: &mut Errors) {
    for name in ["currentReplicas", "desiredReplicas"] {
        not_negative(&object["status"], name, &Path::root("status"), errors);
    }
}

fn target(target: &Value, at: &Path<'_>, errors: &mut Errors) {
    described(target, at, errors);
    let version = target.text("apiVersion");
    if !version.contains('/') && target.text("kind") != "ReplicationController" {
        errors.invalid(&at.field("apiVersion"), version, "apiVersion must specify API group");
    }
}

fn metrics(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for (index, metric) in spec.list("metrics").iter().enumerate() {
        one_metric(metric, &at.index(index), errors);
    }
    let several = spec.list("metrics").iter().any(|metric| matches!(metric.text("type"), "Object" | "External"));
    if spec.int("minReplicas") == Some(0) && !several {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(at, detail);
    }
}

fn one_metric(metric: &Value, at: &Path<'_>, errors: &mut Errors) {
    let ty = metric.text("type");
    if ty.is_empty() {
        errors.required(&at.field("type"), "must specify a metric source type");
    }
    if !TYPES.contains(&ty) {
        errors.not_supported(&at.field("type"), ty, &TYPES);
    }
    let mut found = Vec::new();
    for (name, _) in SOURCES {
        let Some(source) = metric.some(name) else { continue };
        found.push(name);
        if found.len() == 1 {
            source_of(name, source, &at.field(name), errors);
        }
    }
    let expected = SOURCES.iter().find(|(_, known)| *known == ty).map_or("", |(name, _)| name);
    if !expected.is_empty() && !found.contains(&expected) {
        errors.required(&at.field(expected), "must populate information for the given metric source");
    }
    if found.len() != 1 {
        for name in found.iter().filter(|name| **name != expected) {
            errors.forbidden(&at.field(name), ONLY);
        }
    }
}

fn source_of(kind: &str, source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let target = &source["target"];
    let target_at = at.field("target");
    let (value, average) = (target.has("value"), target.has("averageValue"));
    match kind {
        "object" => {
            described(&source["describedObject"], &at.field("describedObject"), errors);
            identifier(&source["metric"], &at.field("metric"), errors);
            amounts(target, &target_at, errors);
            if !value && !average {
                errors.required(&target_at.field("averageValue"), "must set either a target value or averageValue");
            }
        }
        "external" => {
            identifier(&source["metric"], &at.field("metric"), errors);
            amounts(target, &target_at, errors);
            if !value && !average {
                let detail = "must set either a target value for metric or a per-pod target";
                errors.required(&target_at.field("averageValue"), detail);
            }
            if value && average {
                let detail = "may not set both a target value for metric and a per-pod target";
                errors.forbidden(&target_at.field("value"), detail);
            }
        }
        "pods" => {
            identifier(&source["metric"], &at.field("metric"), errors);
            amounts(target, &target_at, errors);
            if !average {
                errors.required(&target_at.field("averageValue"), "must specify a positive target averageValue");
            }
        }
        _ => {
            let name = source.text("name");
            if kind == "containerResource" {
                if source.text("container").is_empty() {
                    errors.required(&at.field("container"), "must specify a container");
                } else {
                    let container = source.text("container");
                    errors.each_invalid(&at.field("container"), container, &names::dns_1123_label(container));
                }
            }
            if name.is_empty() {
                errors.required(&at.field("name"), "must specify a resource name");
            } else if kind == "containerResource" {
                container_name(name, &at.field("name"), errors);
            }
            amounts(target, &target_at, errors);
            utilization(target, &target_at, errors);
        }
    }
}

fn utilization(target: &Value, at: &Path<'_>, errors: &mut Errors) {
    match (target.has("averageUtilization"), target.has("averageValue")) {
        (false, false) => {
            let detail = "must set either a target raw value or a target utilization";
            errors.required(&at.field("averageUtilization"), detail);
        }
        (true, true) => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.forbidden(&at.field("averageValue"), detail);
        }
        _ => {}
    }
}

fn described(object: &Value, at: &Path<'_>, errors: &mut Errors) {
    names::kind_and_name(object, at, errors);
    let version = object.text("apiVersion");
    if version.matches('/').count() > 1 {
        errors.invalid(&at.field("apiVersion"), version, &format!("unexpected GroupVersion string: {version}"));
    }
}

fn identifier(metric: &Value, at: &Path<'_>, errors: &mut Errors) {
    let name = metric.text("name");
    if name.is_empty() {
        errors.required(&at.field("name"), "must specify a metric name");
    } else {
        errors.each_invalid(&at.field("name"), name, &names::path_segment(name));
    }
}

fn amounts(target: &Value, at: &Path<'_>, errors: &mut Errors) {
    const KNOWN: [&str; 3] = ["Utilization", "Value", "AverageValue"];
    let ty = target.text("type");
    if ty.is_empty() {
        errors.required(&at.field("type"), "must specify a metric target type");
    }
    if !KNOWN.contains(&ty) {
        errors.invalid(&at.field("type"), ty, "must be either Utilization, Value, or AverageValue");
    }
    let positive = |name: &str, errors: &mut Errors| {
        let Some(text) = target.some(name).and_then(Value::as_str) else { return };
        if Quantity::parse(text).is_ok_and(|amount| amount.sign() != 1) {
            errors.invalid(&at.field(name), text, "must be positive");
        }
    };
    positive("value", errors);
    if let Some(percent) = target.int("averageUtilization").filter(|percent| *percent < 1) {
        errors.invalid(&at.field("averageUtilization"), percent, "must be greater than 0");
    }
    positive("averageValue", errors);
}

fn rules_of(rules: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (window, period) = LONGEST;
    if let Some(seconds) = rules.int("stabilizationWindowSeconds") {
        let at = at.field("stabilizationWindowSeconds");
        if seconds < 0 {
            errors.invalid(&at, seconds, "must be greater than or equal to zero");
        }
        if seconds > window {
            errors.invalid(&at, seconds, &format!("must be less than or equal to {window}"));
        }
    }
    if rules.has("selectPolicy") {
        errors.one_of(rules, "selectPolicy", &SELECT, at);
    }
    let list = at.field("policies");
    if rules.list("policies").is_empty() {
        errors.required(&list, "must specify at least one Policy");
    }
    for (index, policy) in rules.list("policies").iter().enumerate() {
        let at = list.index(index);
        let ty = policy.text("type");
        if !POLICIES.contains(&ty) {
            errors.not_supported(&at.field("type"), ty, &POLICIES);
        }
        for (name, most) in [("value", i64::MAX), ("periodSeconds", period)] {
            let number = policy.int(name).unwrap_or_default();
            if number <= 0 {
                errors.invalid(&at.field(name), number, "must be greater than zero");
            }
            if number > most {
                errors.invalid(&at.field(name), number, &format!("must be less than or equal to {most}"));
            }
        }
    }
    if let Some(tolerance) = rules.some("tolerance").and_then(Value::as_str)
        && Quantity::parse(tolerance).is_ok_and(|amount| amount.sign() < 0)
    {
        errors.invalid(&at.field("tolerance"), Shown::Text(tolerance), "must be greater than or equal to 0");
    }
}
