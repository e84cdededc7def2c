//! Classes of storage.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::super::value_ext::{ValueExt, repeated_values};
use super::super::errors::{Errors, Path, immutable};
use super::super::names;

const RECLAIM: [&str; 2] = ["Delete", "Retain"];
const BINDING: [&str; 2] = ["Immediate", "WaitForFirstConsumer"];
/// Parameters may be so many, and have so many bytes together.
const PARAMETERS: (usize, usize) = (512, 256 * 1024);

/// Checks a StorageClass, its metadata apart.
pub fn storage_class(object: &Value, errors: &mut Errors) {
    provisioner(object.text("provisioner"), &Path::root("provisioner"), errors);
    parameters(object, errors);
    let at = Path::root("");
    if !object.text("reclaimPolicy").is_empty() {
        errors.one_of(object, "reclaimPolicy", &RECLAIM, &at);
    }
    errors.one_of(object, "volumeBindingMode", &BINDING, &at);
    let topologies = Path::root("allowedTopologies");
    let mut known: BTreeSet<BTreeMap<&str, BTreeSet<&str>>> = BTreeSet::new();
    for (index, term) in object.list("allowedTopologies").iter().enumerate() {
        let at = topologies.index(index);
        topology(term, &at, errors);
        let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for expression in term.list("matchLabelExpressions") {
            let values = expression.list("values").iter().filter_map(Value::as_str).collect();
            labels.entry(expression.text("key")).or_insert(values);
        }
        // A term without labels counts as a copy of nothing.
        if labels.is_empty() || !known.insert(labels) {
            errors.duplicate(&at.field("matchLabelExpressions"), "");
        }
    }
}

/// Checks a term of a topology: which labels nodes have.
fn topology(term: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.field("matchLabelExpressions");
    let mut keys = BTreeSet::new();
    for (index, expression) in term.list("matchLabelExpressions").iter().enumerate() {
        let at = list.index(index);
        let values = expression.list("values");
        if values.is_empty() {
            errors.required(&at.field("values"), "");
        }
        let values_at = at.field("values");
        let repeated = repeated_values(values);
        for (index, value) in values.iter().enumerate() {
            if repeated[index] {
                errors.duplicate(&values_at.index(index), value);
            }
        }
        let key = expression.text("key");
        errors.each_invalid(&at.field("key"), key, &names::qualified_name(key));
        if !keys.insert(key) {
            errors.duplicate(&at.field("key"), key);
        }
    }
}

/// Checks a changed StorageClass.
pub fn storage_class_update(old: &Value, new: &Value, errors: &mut Errors) {
    for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        immutable(old, new, name, &Path::root(""), errors);
    }
}

fn provisioner(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(at, "");
    } else {
        let lower = name.to_lowercase();
        errors.each_invalid(at, lower.as_str(), &names::qualified_name(&lower));
    }
}

fn parameters(object: &Value, errors: &mut Errors) {
    let (parameters, at) = (object.entries("parameters"), Path::root("parameters"));
    let (most, bytes) = PARAMETERS;
    if parameters.len() > most {
        errors.too_long(&at, most);
        return;
    }
    if parameters.contains_key("") {
        errors.invalid(&at, "", "field can not be empty.");
    }
    let size = |(key, value): (&String, &Value)| key.len() + value.as_str().unwrap_or_default().len();
    if parameters.iter().map(size).sum::<usize>() > bytes {
        errors.too_long(&at, bytes);
    }
}
