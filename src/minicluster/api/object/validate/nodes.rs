//! Nodes and how they run containers.

use serde_json::{Value, json};

use super::super::look::Look;
use super::errors::{Errors, Path, Shown};
use super::metadata::STANDARD_FINALIZERS;
use super::names;
use super::networking::legacy_range;
use super::pod;
use super::pod::affinity::{node_labels, taint_effect, tolerations};

/// A Node, its metadata apart.
pub fn node(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let taints = spec.list("taints");
    let list = Path::root("metadata.taints");
    for (index, taint) in taints.iter().enumerate() {
        let at = list.index(index);
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        errors.each_invalid(&at.field("key"), key, &names::qualified_name(key));
        errors.each_invalid(&at.field("value"), value, &names::label_value(value));
        taint_of(effect, &at.field("effect"), errors);
        let same = |other: &&Value| other.text("key") == key && other.text("effect") == effect;
        if taints[..index].iter().any(|other| same(&other)) {
            let shown = Shown::Plain(taint.to_string());
            errors.duplicate_of(&at, shown, "taints must be unique by key and effect pair");
        }
    }
    let ranges = spec.list("podCIDRs");
    let ranges_at = at.field("podCIDRs");
    for (index, range) in ranges.iter().enumerate() {
        legacy_range(range.as_str().unwrap_or_default(), &ranges_at.index(index), errors);
    }
    let of_six = |range: &&Value| range.as_str().is_some_and(|text| text.contains(':'));
    let six = ranges.iter().filter(of_six).count();
    if ranges.len() > 2 || (ranges.len() == 2 && six != 1) {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.invalid(&ranges_at, &Value::from(ranges), detail);
    }
}

fn taint_of(effect: &str, at: &Path<'_>, errors: &mut Errors) {
    if effect.is_empty() {
        errors.required(at, "");
    } else {
        taint_effect(effect, at, errors);
    }
}

/// What may become of a Node.
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

/// The addresses in the status of a Node: each once.
pub fn node_status(new: &Value, errors: &mut Errors) {
    let addresses = new["status"].list("addresses");
    let list = Path::root("status.addresses");
    for (index, address) in addresses.iter().enumerate() {
        if addresses[..index].contains(address) {
            errors.duplicate(&list.index(index), Shown::Plain(address.to_string()));
        }
    }
}

/// What holds a Namespace back when it is deleted.
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

/// The phase of a Namespace follows from whether it is being deleted.
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

/// A RuntimeClass, its metadata apart.
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
        for (index, toleration) in given.iter().enumerate() {
            if given[..index].contains(toleration) {
                errors.duplicate(&list.index(index), Shown::Plain(toleration.to_string()));
            }
        }
    }
}

/// What may become of a RuntimeClass.
pub fn runtime_class_update(old: &Value, new: &Value, errors: &mut Errors) {
    super::errors::immutable(old, new, "handler", &Path::root(""), errors);
}
