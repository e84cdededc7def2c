//! The fields that a write may change: clients' changes of the rest are put back.

mod allocate;
mod node_ports;
mod pods;
mod service;
mod special;
mod table;

use serde_json::{Value, json};

use super::canonical::EmptyLists;
use super::conversions::{at_mut, template_path};
use super::read::settle;
use super::value_ext::{ValueExt, entries_of, remove, restore};
use super::{Definition, WriteContext};

pub use allocate::Allocate;
pub use node_ports::{
    HEALTH_CHECK, NODE_PORTS, check as check_node_ports, check_range, has_health_check, no_health_check,
};
pub use pods::quality_of_service;
pub use service::{assign_addresses, create as prepare_service};
pub use special::{admit, admit_change};
pub use table::{Generation, StatusWrites, StrategyRules, Versions, of};

/// Metadata that belongs to the server.
const OF_THE_SERVER: [&str; 3] = ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

/// Prepares a new object: status and generation are the server's, and the kind's initial values are added.
pub fn prepare_create(write: &WriteContext<'_>, object: &mut Value) {
    let definition = write.definition;
    let rules = table::of(definition);
    if rules.status != StatusWrites::Nothing && !(definition.group.is_empty() && definition.kind == "Node") {
        remove(object, "status");
    }
    if !matches!(rules.generation, Generation::Never | Generation::SpecFromZero) {
        object["metadata"]["generation"] = json!(1);
    }
    drop_disabled(definition, object);
    special::create(write, object);
}

/// Fields of features that are off: group, kind, place, name.
const DISABLED: [(&str, &str, &str, &str); 6] = [
    ("", "Node", "/spec", "configSource"),
    ("coordination.k8s.io", "Lease", "/spec", "preferredHolder"),
    ("", "Node", "/status", "config"),
    ("coordination.k8s.io", "Lease", "/spec", "strategy"),
    ("storage.k8s.io", "CSIDriver", "/spec", "preventPodSchedulingIfMissing"),
    ("apps", "StatefulSet", "/spec/updateStrategy/rollingUpdate", "maxUnavailable"),
];

/// Takes away fields of features that are off.
fn drop_disabled(definition: &Definition, object: &mut Value) {
    for (group, kind, place, name) in DISABLED {
        if definition.group == group
            && definition.kind == kind
            && let Some(part) = object.pointer_mut(place)
        {
            remove(part, name);
        }
    }
    if definition.group.is_empty() && definition.kind == "Pod" {
        pods::drop_disabled(&mut object["spec"]);
    } else if let Some(template) =
        template_path(&definition.group, &definition.kind).and_then(|path| at_mut(object, path))
    {
        pods::drop_disabled(&mut template["spec"]);
    }
}

/// Removes fields of a new object that a client may not set.
pub fn wipe(object: &mut Value) {
    for name in OF_THE_SERVER {
        remove(&mut object["metadata"], name);
    }
}

/// Prepares a changed object: immutable fields are restored, the generation counts changes.
pub fn prepare_update(write: &WriteContext<'_>, old: &Value, object: &mut Value) {
    let definition = write.definition;
    let rules = table::of(definition);
    restore(&mut object["metadata"], &old["metadata"], "generation");
    match write.subresource {
        None => main(write, &rules, old, object),
        Some("status") => status(definition, &rules, old, object),
        Some(other) => special::subresource(definition, other, old, object),
    }
    keep_metadata(&old["metadata"], &mut object["metadata"]);
}

fn main(write: &WriteContext<'_>, rules: &StrategyRules, old: &Value, object: &mut Value) {
    if rules.status != StatusWrites::Nothing {
        restore(object, old, "status");
    }
    drop_disabled(write.definition, object);
    special::update(write, old, object);
    if moves(rules, old, object) && !moved_by_writing_alone(write.definition, rules, old, object) {
        let generation = old["metadata"].int("generation").unwrap_or_default();
        object["metadata"]["generation"] = json!(generation + 1);
    }
}

fn status(definition: &Definition, rules: &StrategyRules, old: &Value, object: &mut Value) {
    for name in keys(old).into_iter().chain(keys(object)) {
        if !matches!(name.as_str(), "metadata" | "status") {
            restore(object, old, &name);
        }
    }
    let (before, metadata) = (&old["metadata"], &mut object["metadata"]);
    match rules.status {
        StatusWrites::NoLabels => restore(metadata, before, "labels"),
        StatusWrites::NoOwners => restore(metadata, before, "ownerReferences"),
        StatusWrites::OnlyStatus => {
            let managed = metadata.get("managedFields").cloned();
            *metadata = before.clone();
            match managed {
                Some(managed) => metadata["managedFields"] = managed,
                None => remove(metadata, "managedFields"),
            }
        }
        StatusWrites::Metadata | StatusWrites::Nothing => {}
    }
    special::status(definition, old, object);
}

/// Restores the fields that no write changes.
fn keep_metadata(old: &Value, new: &mut Value) {
    for name in ["name", "namespace", "uid", "resourceVersion"] {
        if new.text(name).is_empty() {
            restore(new, old, name);
        }
    }
    restore(new, old, "creationTimestamp");
    if old.has("deletionTimestamp") {
        restore(new, old, "deletionTimestamp");
    }
    if old.has("deletionGracePeriodSeconds") && !new.has("deletionGracePeriodSeconds") {
        restore(new, old, "deletionGracePeriodSeconds");
    }
    remove(new, "selfLink");
}

fn moves(rules: &StrategyRules, old: &Value, new: &Value) -> bool {
    let has_status = rules.status != StatusWrites::Nothing;
    let apart = |name: &str| matches!(name, "metadata" | "apiVersion" | "kind") || (has_status && name == "status");
    let spec = |object| entries_of(Some(object)).iter().filter(|(name, _)| !apart(name));
    let moved = || !spec(old).eq(spec(new));
    let same = |name: &str| old["metadata"].entries(name) == new["metadata"].entries(name);
    match rules.generation {
        Generation::Never | Generation::Fixed => false,
        Generation::Spec | Generation::SpecFromZero => moved(),
        Generation::SpecAndAnnotations => moved() || !same("annotations"),
        Generation::SpecAndLabels => moved() || !same("labels"),
    }
}

/// Returns true when the only difference is the form of an empty value: a list without items is stored as null if it is
/// always written.
fn moved_by_writing_alone(definition: &Definition, rules: &StrategyRules, old: &Value, new: &Value) -> bool {
    if definition.custom.is_some() {
        return false;
    }
    let mut stored = new.clone();
    settle(definition, &mut stored, EmptyLists::AreNull);
    !moves(rules, old, &stored)
}

fn keys(object: &Value) -> Vec<String> {
    object.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect()
}
