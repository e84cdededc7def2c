//! Nodes and how they run containers.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::super::value_ext::{ValueExt, repeated_values, repeats};
use super::super::words::quote;
use super::errors::{Errors, Path, Shown};
use super::metadata::STANDARD_FINALIZERS;
use super::names;
use super::pod;
use super::pod::affinity::{node_labels, taint_effect, tolerations};
use super::ranges::{legacy_range, parse_legacy_range};

/// Checks a Node, its metadata apart.
pub fn node(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let taints = spec.list("taints");
    let list = Path::root("metadata.taints");
    let repeated = repeats(taints.iter().map(|taint| (taint.text("key"), taint.text("effect"))));
    for (index, taint) in taints.iter().enumerate() {
        let at = list.index(index);
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        errors.each_invalid(&at.field("key"), key, &names::qualified_name(key));
        errors.each_invalid(&at.field("value"), value, &names::label_value(value));
        taint_of(effect, &at.field("effect"), errors);
        if repeated[index] {
            let shown = Shown::Plain(taint.to_string());
            errors.duplicate_of(&at, shown, "taints must be unique by key and effect pair");
        }
    }
    if let Some(swap) = object["status"]["nodeInfo"]["swap"].int("capacity").filter(|swap| *swap <= 0) {
        // The error names the field at this place.
        errors.invalid(&Path::root("metadata.nodeSwapStatus.capacity"), swap, "must be greater than zero");
    }
    let ranges = spec.list("podCIDRs");
    let ranges_at = at.field("podCIDRs");
    for (index, range) in ranges.iter().enumerate() {
        legacy_range(range.as_str().unwrap_or_default(), &ranges_at.index(index), errors);
    }
    families(ranges, &ranges_at, errors);
    of_status(object, errors);
}

/// Checks the status of a node.
fn of_status(object: &Value, errors: &mut Errors) {
    for name in ["capacity", "allocatable"] {
        amounts(object["status"].entries(name), &Path::root("status").field(name), errors);
    }
    features(object["status"].list("declaredFeatures"), &Path::root("status.declaredFeatures"), errors);
}

/// Checks that several ranges are of both families, one of each.
fn families(ranges: &[Value], at: &Path<'_>, errors: &mut Errors) {
    if ranges.len() < 2 {
        return;
    }
    let text = |range: &Value| range.as_str().unwrap_or_default().to_owned();
    let parsed: Vec<_> = ranges.iter().map(|range| parse_legacy_range(&text(range))).collect();
    if let Some(index) = parsed.iter().position(Option::is_none) {
        let detail = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR \
             address: {})",
            text(&ranges[index])
        );
        errors.internal(at, &detail);
    }
    let both = match parsed[..] {
        [Some((_, _, one)), Some((_, _, other))] => one != other,
        _ => false,
    };
    if !both {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.invalid(at, &Value::from(ranges), detail);
    }
}

/// Checks the amounts of a node's resources: never less than zero, and some things only whole.
fn amounts(amounts: &serde_json::Map<String, Value>, at: &Path<'_>, errors: &mut Errors) {
    for (name, amount) in amounts {
        pod::resources::quantity(name, amount, &at.field(name), errors);
    }
}

/// Checks the features of a node's kubelet: names like `MyFeature` or `MyFeature/mySubFeature`, in order.
fn features(features: &[Value], list: &Path<'_>, errors: &mut Errors) {
    static FORM: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("^[A-Z][A-Za-z0-9]*(/[A-Za-z][A-Za-z0-9]*)*$").expect("a valid pattern"));
    for (index, feature) in features.iter().enumerate() {
        let (at, name) = (list.index(index), feature.as_str().unwrap_or_default());
        if let Some(before) = index.checked_sub(1).and_then(|before| features[before].as_str()) {
            if before > name {
                errors.invalid(&at, name, "list must be sorted alphabetically");
            } else if before == name {
                errors.duplicate(&at, name);
            }
        }
        if !FORM.is_match(name) {
            let detail = format!(
                "invalid feature name {}: must start with an UpperCamelCase segment, with subsequent segments separated \
                 by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
                quote(name)
            );
            errors.invalid(&at, name, &detail);
        }
    }
}

fn taint_of(effect: &str, at: &Path<'_>, errors: &mut Errors) {
    if effect.is_empty() {
        errors.required(at, "");
    } else {
        taint_effect(effect, at, errors);
    }
}

/// Checks a changed Node.
pub fn node_update(old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after, at) = (&old["spec"], &new["spec"], Path::root("spec"));
    if !before.list("podCIDRs").is_empty() && before.list("podCIDRs") != after.list("podCIDRs") {
        errors.forbidden(&at.field("podCIDRs"), "node updates may not change podCIDR except from \"\" to valid");
    }
    if !before.text("providerID").is_empty() && before.text("providerID") != after.text("providerID") {
        errors.forbidden(&at.field("providerID"), "node updates may not change providerID except from \"\" to valid");
    }
    if before.get("externalID") != after.get("externalID") {
        errors.forbidden(&at.field("externalID"), "may not be updated");
    }
}

/// Checks the changed status of a Node. Each address is there once.
pub fn node_status(new: &Value, errors: &mut Errors) {
    of_status(new, errors);
    let addresses = new["status"].list("addresses");
    let list = Path::root("status.addresses");
    let repeated = repeated_values(addresses);
    for (index, address) in addresses.iter().enumerate() {
        if repeated[index] {
            errors.duplicate(&list.index(index), Shown::Plain(address.to_string()));
        }
    }
}

/// Checks the finalizers of a Namespace.
pub fn namespace(object: &Value, errors: &mut Errors) {
    let at = Path::root("spec.finalizers");
    for name in object["spec"].list("finalizers") {
        let name = name.as_str().unwrap_or_default();
        errors.each_invalid(&at, name, &names::qualified_name(name));
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            errors.invalid(&at, name, "name is neither a standard finalizer name nor is it fully qualified");
        }
    }
}

/// Checks that the phase of a Namespace follows from whether it is being deleted.
pub fn namespace_status(new: &Value, errors: &mut Errors) {
    let (at, phase) = (Path::root("status.Phase"), new["status"].text("phase"));
    if new["metadata"].has("deletionTimestamp") {
        if phase != "Terminating" {
            errors.invalid(&at, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
        }
    } else if phase != "Active" {
        errors.invalid(&at, phase, "may only be 'Active' if `deletionTimestamp` is empty");
    }
}

/// Checks a RuntimeClass, its metadata apart.
pub fn runtime_class(object: &Value, errors: &mut Errors) {
    let handler = object.text("handler");
    if handler.is_empty() {
        errors.required(&Path::root("handler"), "");
    } else {
        errors.each_invalid(&Path::root("handler"), handler, &names::dns_1123_label(handler));
    }
    if let Some(overhead) = object.some("overhead") {
        let limits = json!({ "limits": overhead["podFixed"] });
        pod::resources::requirements(&limits, pod::resources::container_name, &Path::root("overhead"), errors);
    }
    if let Some(scheduling) = object.some("scheduling") {
        let at = Path::root("scheduling");
        node_labels(&scheduling["nodeSelector"], &at.field("nodeSelector"), errors);
        let list = at.field("tolerations");
        let given = scheduling.list("tolerations");
        tolerations(given, &list, errors);
        const PARTS: [&str; 4] = ["key", "operator", "value", "effect"];
        let repeated = repeats(given.iter().map(|toleration| PARTS.map(|part| toleration.text(part))));
        for (index, toleration) in given.iter().enumerate() {
            if repeated[index] {
                errors.duplicate(&list.index(index), Shown::Plain(toleration.to_string()));
            }
        }
    }
}

/// Checks a changed RuntimeClass.
pub fn runtime_class_update(old: &Value, new: &Value, errors: &mut Errors) {
    super::errors::immutable(old, new, "handler", &Path::root(""), errors);
}
