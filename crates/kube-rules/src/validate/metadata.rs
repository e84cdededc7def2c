//! The rules for the metadata of every object.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::super::words::quote;
use super::errors::{Errors, Path, Shown};
use super::names::{self, NameProblem};

/// So many bytes of annotations may an object have.
const ANNOTATION_BYTES: usize = 256 * 1024;
/// Finalizers without a domain.
pub const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// The choice if objects of a kind live in namespaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NameScope {
    /// Each in one.
    Namespaced,
    /// None of them.
    Cluster,
}

/// Returns the metadata of a new object. `name` checks the object's name.
pub fn create(metadata: &Value, scope: NameScope, name: fn(&str) -> NameProblem, at: &Path<'_>, errors: &mut Errors) {
    let prefix = metadata.text("generateName");
    if !prefix.is_empty() {
        errors.each_invalid(&at.field("generateName"), prefix, &name(names::generated(prefix)));
    }
    let own = metadata.text("name");
    if own.is_empty() {
        errors.required(&at.field("name"), "name or generateName is required");
    } else {
        errors.each_invalid(&at.field("name"), own, &name(own));
    }
    let namespace = metadata.text("namespace");
    if scope == NameScope::Namespaced {
        if namespace.is_empty() {
            errors.required(&at.field("namespace"), "");
        } else {
            errors.each_invalid(&at.field("namespace"), namespace, &names::dns_1123_label(namespace));
        }
    } else if !namespace.is_empty() {
        errors.forbidden(&at.field("namespace"), "not allowed on this type");
    }
    both(metadata, at, errors);
}

/// Checks the metadata of an object in an object, which need not have a name.
pub fn embedded(metadata: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["generateName", "name"] {
        let text = metadata.text(name);
        if !text.is_empty() {
            errors.each_invalid(&at.field(name), text, &names::path_segment(text));
        }
    }
    both(metadata, at, errors);
}

/// Checks the rules for new metadata and for changed metadata.
fn both(metadata: &Value, at: &Path<'_>, errors: &mut Errors) {
    let generation = metadata.int("generation").unwrap_or_default();
    if generation < 0 {
        errors.invalid(&at.field("generation"), generation, "must be greater than or equal to 0");
    }
    labels(metadata.entries("labels"), &at.field("labels"), errors);
    annotations(metadata.entries("annotations"), &at.field("annotations"), errors);
    owners(metadata, &at.field("ownerReferences"), errors);
    finalizers(metadata, &at.field("finalizers"), errors);
}

/// Keys and values of labels.
pub fn labels(labels: &serde_json::Map<String, Value>, at: &Path<'_>, errors: &mut Errors) {
    for (key, value) in labels {
        errors.each_invalid(at, key.as_str(), &names::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        errors.each_invalid(at, value, &names::label_value(value));
    }
}

/// Keys of annotations, and how much they are together.
pub fn annotations(annotations: &serde_json::Map<String, Value>, at: &Path<'_>, errors: &mut Errors) {
    for key in annotations.keys() {
        errors.each_invalid(at, key.as_str(), &names::qualified_name(&key.to_lowercase()));
    }
    let size = |(key, value): (&String, &Value)| key.len() + value.as_str().unwrap_or_default().len();
    if annotations.iter().map(size).sum::<usize>() > ANNOTATION_BYTES {
        errors.too_long(at, ANNOTATION_BYTES);
    }
}

fn owners(metadata: &Value, at: &Path<'_>, errors: &mut Errors) {
    let owners = metadata.list("ownerReferences");
    let mut controller: Option<&Value> = None;
    for owner in owners {
        let api_version = owner.text("apiVersion");
        let (group, version) = match api_version.split_once('/') {
            Some((_, rest)) if rest.contains('/') => ("", ""),
            Some(parts) => parts,
            None => ("", api_version),
        };
        if version.is_empty() {
            errors.invalid(&at.field("apiVersion"), api_version, "version must not be empty");
        }
        for field in ["kind", "name", "uid"] {
            if owner.text(field).is_empty() {
                errors.invalid(&at.field(field), "", "must not be empty");
            }
        }
        if group.is_empty() && version == "v1" && owner.text("kind") == "Event" {
            let shown = Shown::Plain(owner_text(owner));
            errors.invalid(at, shown, "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.flag("controller") {
            if let Some(first) = controller {
                let name = |owner: &Value| format!("{}/{}", owner.text("kind"), owner.text("name"));
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                    name(first),
                    name(owner)
                );
                let all: Vec<String> = owners.iter().map(owner_text).collect();
                errors.invalid(at, Shown::Plain(format!("[{}]", all.join(","))), &detail);
            } else {
                controller = Some(owner);
            }
        }
    }
}

/// Returns an owner reference, its fields in the order of its type.
fn owner_text(owner: &Value) -> String {
    let mut parts: Vec<String> = ["apiVersion", "kind", "name", "uid"]
        .iter()
        .map(|name| format!("\"{name}\":{}", quote(owner.text(name))))
        .collect();
    for name in ["controller", "blockOwnerDeletion"] {
        if let Some(value) = owner.some(name) {
            parts.push(format!("\"{name}\":{value}"));
        }
    }
    format!("{{{}}}", parts.join(","))
}

fn finalizers(metadata: &Value, at: &Path<'_>, errors: &mut Errors) {
    let finalizers: Vec<&str> =
        metadata.list("finalizers").iter().map(|name| name.as_str().unwrap_or_default()).collect();
    for name in &finalizers {
        errors.each_invalid(at, *name, &names::qualified_name(name));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let shown = Shown::Plain(Value::from(finalizers).to_string());
        errors.invalid(at, shown, "finalizer orphan and foregroundDeletion cannot be both set");
    }
}

/// Checks the further rules of the built-in kinds for finalizers.
pub fn finalizer_names(metadata: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.field("finalizers");
    for (index, name) in metadata.list("finalizers").iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(&list.index(index), name, detail);
        }
    }
}

/// Checks changed metadata.
pub fn update(new: &Value, old: &Value, at: &Path<'_>, errors: &mut Errors) {
    if old.has("deletionTimestamp") {
        let known: BTreeSet<String> = old.list("finalizers").iter().map(Value::to_string).collect();
        let fresh: Vec<&str> = new
            .list("finalizers")
            .iter()
            .filter(|name| !known.contains(&name.to_string()))
            .filter_map(Value::as_str)
            .collect();
        if !fresh.is_empty() {
            let mut names: Vec<String> = fresh.iter().map(|name| quote(name)).collect();
            names.sort_unstable();
            names.dedup();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                names.join(", ")
            );
            errors.forbidden(&at.field("finalizers"), &detail);
        }
    }
    let generation = new.int("generation").unwrap_or_default();
    if generation < old.int("generation").unwrap_or_default() {
        errors.invalid(&at.field("generation"), generation, "must not be decremented");
    }
    for name in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"] {
        immutable(new, old, name, at, errors);
    }
    if new.get("deletionGracePeriodSeconds") != old.get("deletionGracePeriodSeconds")
        && new.has("deletionGracePeriodSeconds")
    {
        immutable(new, old, "deletionGracePeriodSeconds", at, errors);
    }
    labels(new.entries("labels"), &at.field("labels"), errors);
    annotations(new.entries("annotations"), &at.field("annotations"), errors);
    owners(new, &at.field("ownerReferences"), errors);
    finalizers(new, &at.field("finalizers"), errors);
}

/// Returns the part of a name that is not generated, if a change is checked like a new object.
pub fn prefix(new: &Value, name: fn(&str) -> NameProblem, at: &Path<'_>, errors: &mut Errors) {
    let prefix = new.text("generateName");
    if !prefix.is_empty() {
        errors.each_invalid(&at.field("generateName"), prefix, &name(names::generated(prefix)));
    }
}

fn immutable(new: &Value, old: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    if new.get(name) != old.get(name) {
        let shown = new.get(name).unwrap_or(&Value::Null);
        errors.invalid(&at.field(name), shown, "field is immutable");
    }
}
