//! Whether an object may be: everything that is wrong with it, together, in the real server's order and words.

mod errors;
mod metadata;
mod names;

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
    errors
}

/// What is wrong with a changed object. `subresource` is what it was written through.
pub fn update(definition: &Definition, subresource: Option<&str>, old: &Value, new: &Value) -> Errors {
    let _ = (definition, subresource);
    let mut errors = Errors::new();
    let at = Path::root("metadata");
    metadata::update(&new["metadata"], &old["metadata"], &at, &mut errors);
    errors
}

/// What the name of an object of a kind must look like.
fn name_check(definition: &Definition) -> fn(&str) -> Said {
    match (definition.group.as_str(), definition.kind.as_str()) {
        ("", "Namespace") => names::dns_1123_label,
        ("", "Service") => names::dns_1035_label,
        ("rbac.authorization.k8s.io", _) => names::path_segment,
        _ => names::object_name,
    }
}
