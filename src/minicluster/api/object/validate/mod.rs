//! Whether an object may be: everything that is wrong with it, together, in the real server's order and words.

mod apps;
mod apps_update;
mod errors;
mod metadata;
mod names;
mod pod;
mod selector;

use serde_json::Value;

use super::Definition;

pub use errors::{Errors, Path, Shown};
pub use metadata::Scope;
pub use names::Said;

/// What is wrong with a new object.
pub fn create(definition: &Definition, object: &Value) -> Errors {
    let mut errors = Errors::new();
    let at = Path::root("metadata");
    let scope = if definition.namespaced { Scope::Namespaced } else { Scope::Cluster };
    metadata::create(&object["metadata"], scope, name_check(definition), &at, &mut errors);
    metadata::finalizer_names(&object["metadata"], &at, &mut errors);
    match key(definition) {
        ("", "Pod") => pod::create(object, &mut errors),
        _ => always(definition, object, &mut errors),
    }
    errors
}

/// What is wrong with a changed object. `subresource` is what it was written through.
pub fn update(definition: &Definition, subresource: Option<&str>, old: &Value, new: &Value) -> Errors {
    let mut errors = Errors::new();
    let at = Path::root("metadata");
    metadata::update(&new["metadata"], &old["metadata"], &at, &mut errors);
    match (subresource, key(definition)) {
        (None, ("", "Pod")) => {
            metadata::finalizer_names(&new["metadata"], &at, &mut errors);
            pod::update(old, new, &mut errors);
        }
        (None, kind) => {
            always(definition, new, &mut errors);
            match kind {
                ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => {
                    apps_update::same_selector(old, new, &mut errors);
                }
                ("apps", "StatefulSet") => apps_update::stateful_set(old, new, &mut errors),
                _ => {}
            }
        }
        (Some("status"), ("", "Pod")) => pod::status(old, new, &mut errors),
        (Some("status"), ("apps" | "", kind @ ("Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ReplicationController"))) => {
            apps_update::status(kind, old, new, &mut errors);
        }
        _ => {}
    }
    errors
}

fn key(definition: &Definition) -> (&str, &str) {
    (definition.group.as_str(), definition.kind.as_str())
}

/// What holds for new objects and for changed ones.
fn always(definition: &Definition, object: &Value, errors: &mut Errors) {
    match key(definition) {
        ("apps", "Deployment") => apps::deployment(object, errors),
        ("apps", "ReplicaSet") => apps::replica_set(object, errors),
        ("apps", "StatefulSet") => apps::stateful_set(object, errors),
        ("apps", "DaemonSet") => apps::daemon_set(object, errors),
        ("", "ReplicationController") => apps::replication_controller(object, errors),
        ("", "PodTemplate") => pod::template(&object["template"], &Path::root("template"), errors),
        _ => {}
    }
}

/// What the name of an object of a kind must look like.
fn name_check(definition: &Definition) -> fn(&str) -> Said {
    match key(definition) {
        ("", "Namespace") => names::dns_1123_label,
        ("", "Service") => names::dns_1035_label,
        ("rbac.authorization.k8s.io", _) => names::path_segment,
        _ => names::object_name,
    }
}
