//! The limits of a namespace, and of each pod in it.

use serde_json::Value;

use super::super::quantity::Quantity;
use super::super::value_ext::ValueExt;
use super::errors::{Errors, Path, Shown};
use super::names;
use super::pod::resources::{container_name, is_huge_pages, may_overcommit, quantity, resource_name};

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Scopes that there either are or are not.
const PLAIN: [&str; 5] = ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity"];
/// The resources of pods that quotas count in any scope but that of the best effort.
const OF_PODS: [&str; 7] = ["pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const OTHERS: [&str; 12] = [
    "ephemeral-storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "resourcequotas",
    "configmaps",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
const CONFLICTS: [(&str, &str); 2] = [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];
const MUST_EXIST: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                          ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                          ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

/// Checks a ResourceQuota, its metadata apart.
pub fn quota(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let hard = at.field("hard");
    for (name, amount) in spec.entries("hard") {
        let at = hard.key(name);
        resource(name, &at, errors);
        quantity(name, amount, &at, errors);
    }
    scopes(spec, &at.field("scopes"), errors);
    selector(spec, &at.field("scopeSelector.matchExpressions"), errors);
}

/// Checks a changed ResourceQuota.
pub fn quota_update(old: &Value, new: &Value, errors: &mut Errors) {
    let sorted = |object: &Value| {
        let mut scopes: Vec<String> = object["spec"].list("scopes").iter().map(Value::to_string).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    };
    if sorted(old) != sorted(new) {
        let shown = Shown::Plain(new["spec"]["scopes"].to_string());
        errors.invalid(&Path::root("spec.scopes"), shown, "field is immutable");
    }
}

/// Checks the changed status of a ResourceQuota.
pub fn quota_status(object: &Value, errors: &mut Errors) {
    let status = Path::root("status");
    for part in ["hard", "used"] {
        let list = status.field(part);
        for (name, amount) in object["status"].entries(part) {
            resource(name, &list.key(name), errors);
            quantity(name, amount, &list.key(name), errors);
        }
    }
}

fn resource(name: &str, at: &Path<'_>, errors: &mut Errors) {
    resource_name(name, at, errors);
    if !name.contains('/') && !is_standard(name) {
        errors.invalid(at, name, "must be a standard resource for quota");
    }
}

fn scopes(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let scopes: Vec<&str> = spec.list("scopes").iter().filter_map(Value::as_str).collect();
    let shown = || Shown::Plain(spec["scopes"].to_string());
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.invalid(at, shown(), "unsupported scope");
        }
        for name in spec.entries("hard").keys() {
            if is_standard(name) && !fits(scope, name) {
                errors.invalid(at, shown(), "unsupported scope applied to resource");
            }
        }
    }
    for (one, other) in CONFLICTS {
        if scopes.contains(&one) && scopes.contains(&other) {
            errors.invalid(at, shown(), "conflicting scopes");
        }
    }
}

/// Returns true when a resource is one of the names that quotas know.
fn is_standard(name: &str) -> bool {
    let huge = is_huge_pages(name) || name.starts_with("requests.hugepages-");
    OF_PODS.contains(&name) || OTHERS.contains(&name) || huge
}

/// Returns true when a scope applies to a resource.
fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        scope if SCOPES.contains(&scope) => OF_PODS.contains(&resource),
        _ => true,
    }
}

fn selector(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let expressions = spec["scopeSelector"].list("matchExpressions");
    let mut known: Vec<&str> = Vec::new();
    for expression in expressions {
        let (scope, operator) = (expression.text("scopeName"), expression.text("operator"));
        let values = expression.list("values");
        if !SCOPES.contains(&scope) {
            errors.invalid(&at.field("scopeName"), scope, "unsupported scope");
        }
        for name in spec.entries("hard").keys() {
            if is_standard(name) && !fits(scope, name) {
                let shown = Shown::Plain(spec["scopeSelector"].to_string());
                errors.invalid(at, shown, "unsupported scope applied to resource");
            }
        }
        if PLAIN.contains(&scope) && operator != "Exists" {
            errors.invalid(&at.field("operator"), operator, MUST_EXIST);
        }
        match operator {
            "In" | "NotIn" => {
                if values.is_empty() {
                    let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                    errors.required(&at.field("values"), detail);
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                    errors.invalid(&at.field("values"), &Value::from(values), detail);
                }
            }
            other => errors.invalid(&at.field("operator"), other, "not a valid selector operator"),
        }
        known.push(scope);
    }
    for (one, other) in CONFLICTS {
        if known.contains(&one) && known.contains(&other) {
            errors.invalid(at, Shown::Plain(spec["scopes"].to_string()), "conflicting scopes");
        }
    }
}

/// Checks a LimitRange, its metadata apart.
pub fn limit_range(object: &Value, errors: &mut Errors) {
    let limits = Path::root("spec.limits");
    let mut seen: Vec<&str> = Vec::new();
    for (index, limit) in object["spec"].list("limits").iter().enumerate() {
        let (at, ty) = (limits.index(index), limit.text("type"));
        limit_type(ty, &at.field("type"), errors);
        if seen.contains(&ty) {
            errors.duplicate(&at.field("type"), ty);
        }
        seen.push(ty);
        limit_item(limit, ty, &at, errors);
    }
}

fn limit_type(ty: &str, at: &Path<'_>, errors: &mut Errors) {
    let said = names::qualified_name(ty);
    errors.each_invalid(at, ty, &said);
    let known = ["Pod", "Container", "PersistentVolumeClaim"];
    if said.is_empty() && !ty.contains('/') && !known.contains(&ty) {
        errors.invalid(at, ty, "must be a standard limit type or fully qualified");
    }
}

/// The parts of a limit.
const PARTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

fn limit_item(limit: &Value, ty: &str, at: &Path<'_>, errors: &mut Errors) {
    let parts = |names: &[&str], errors: &mut Errors| {
        for part in names {
            let list = at.field(part);
            for name in limit.entries(part).keys() {
                limit_resource(ty, name, &list.key(name), errors);
            }
        }
    };
    parts(&["max", "min"], errors);
    if ty == "Pod" {
        for name in ["default", "defaultRequest"].iter().filter(|name| !limit.entries(name).is_empty()) {
            errors.forbidden(&at.field(name), "may not be specified when `type` is 'Pod'");
        }
    } else {
        parts(&["default", "defaultRequest"], errors);
    }
    if ty == "PersistentVolumeClaim" && !limit["min"].has("storage") && !limit["max"].has("storage") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&at.field("limits"), detail);
    }
    parts(&["maxLimitRequestRatio"], errors);
    let mut names: Vec<&String> = PARTS.iter().flat_map(|part| limit.entries(part).keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        limit_amounts(limit, name, at, errors);
    }
}

fn limit_resource(ty: &str, name: &str, at: &Path<'_>, errors: &mut Errors) {
    match ty {
        "Pod" | "Container" => container_name(name, at, errors),
        _ => resource_name(name, at, errors),
    }
}

/// The order of a limit's parts for one resource: the lesser, the greater, the field of the error, and the value that
/// it shows.
const ORDER: [(&str, &str, &str, &str); 6] = [
    ("min", "max", "min", "min"),
    ("min", "default request", "defaultRequest", "default request"),
    ("default request", "max", "defaultRequest", "default request"),
    ("default request", "default limit", "defaultRequest", "default request"),
    ("min", "default", "default", "min"),
    ("default", "max", "default", "max"),
];

fn limit_amounts(limit: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    let of = |part: &str| {
        let part = match part {
            "default request" => "defaultRequest",
            "default limit" => "default",
            // A pod has no defaults.
            other => other,
        };
        let apart = limit.text("type") == "Pod" && part.starts_with("default");
        let text = limit[part].get(name).and_then(Value::as_str).filter(|_| !apart)?;
        Quantity::parse(text).ok()
    };
    for (low, high, place, shown) in ORDER {
        let (Some(less), Some(more)) = (of(low), of(high)) else { continue };
        if less.is_more(&more) {
            let (one, other) = (less.canonical(), more.canonical());
            let detail = format!("{low} value {one} is greater than {high} value {other}");
            errors.invalid(&at.field(place).key(name), if shown == low { &*one } else { &*other }, &detail);
        }
    }
    if let Some(ratio) = of("maxLimitRequestRatio") {
        let shown = ratio.canonical();
        let place = at.field("maxLimitRequestRatio");
        let place = place.key(name);
        if ratio.is_less(&Quantity::from_whole(1)) {
            errors.invalid(&place, &*shown, &format!("ratio {shown} is less than 1"));
        }
        if let (Some(min), Some(max)) = (of("min"), of("max")) {
            let most = max.thousandths() as f64 / min.thousandths() as f64;
            if ratio.thousandths() as f64 / 1000.0 > most {
                let most = if most.is_infinite() { "+Inf".to_owned() } else { format!("{most:.6}") };
                errors.invalid(&place, &*shown, &format!("ratio {shown} is greater than max/min = {most}"));
            }
        }
    }
    if let (Some(default), Some(request)) = (of("default"), of("default request"))
        && !may_overcommit(name)
        && default.compare(&request).is_ne()
    {
        let (one, other) = (default.canonical(), request.canonical());
        let detail = format!("default value {one} must equal to defaultRequest value {other} in {name}");
        errors.invalid(&at.field("defaultRequest").key(name), &*other, &detail);
    }
}
