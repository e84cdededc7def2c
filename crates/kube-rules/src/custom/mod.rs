//! Objects of custom kinds: their definition's structural schema defines their fields.
//!
//! Rules in CEL (`x-kubernetes-validations`) are stored and returned, but not evaluated; the author of a definition
//! with rules is warned.

mod check;
mod complete;
mod defaults;
mod embedded;
mod formats;
mod lists;
mod numbers;
mod scale;
mod schema;
mod shape;
mod types;
mod walk;

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::canonical::{EmptyLists, canonical};
use super::read::{self, Node};
use super::validate::{Errors, Path};
use super::value_ext::ValueExt;
use super::{BodyFormat, Custom, Definition, Read, WriteContext};
use crate::api_error::ApiError;
use kube_facts::Type;

pub use defaults::{header_objection, objections as default_objections};
pub use schema::{Schema, whole_numbers};
pub use shape::of_object as shape;

/// Reads an object of a custom kind from a body.
///
/// # Errors
/// 400 where the text is wrong or of another kind, for another version, if metadata is of a wrong type, or, if strict, for unknown and duplicate fields.
pub fn read(write: &WriteContext<'_>, custom: &Custom, body: &[u8], format: BodyFormat) -> Result<Read, ApiError> {
    let definition = write.definition;
    let (node, objections) = read::read_custom(definition, body, format)?;
    let refused = |error: String| read::cannot_be_handled(definition, &node, &error);
    let Read { object, warnings } = from_node(custom, &node).map_err(refused)?;
    let (said, expected) = (object.text("apiVersion"), read::api_version(definition));
    if said != expected {
        let message =
            format!("the API version in the data ({said}) does not match the expected API version ({expected})");
        return Err(ApiError::bad_request(message));
    }
    let all = objections.into_iter().chain(warnings).collect();
    let warnings = read::object_or_warn(write, &node, all)?;
    Ok(Read { object, warnings })
}

/// Returns a patched object as one of the kind. Surplus fields are warnings.
///
/// # Errors
/// Fails with the fault of metadata of a wrong type.
pub fn from_value(custom: &Custom, value: Value) -> Result<Read, String> {
    from_node(custom, &Node::from_value(value))
}

fn from_node(custom: &Custom, node: &Node) -> Result<Read, String> {
    let mut object = node.to_value();
    schema::whole_numbers(&mut object);
    let mut unknown = Vec::new();
    if let Some(sent) = node.get("metadata") {
        let (metadata, extra) = read::metadata_of(sent)?;
        object["metadata"] = metadata;
        unknown.extend(extra.into_iter().map(|name| format!("metadata.{name}")));
    }
    unknown.extend(complete::prune(&mut object, &custom.schema));
    unknown.extend(embedded::coerce(&mut object, &custom.schema, "")?);
    settle(custom, &mut object);
    let warnings = unknown.iter().map(|path| format!("unknown field {}", super::words::quote(path))).collect();
    Ok(Read { object, warnings })
}

/// Defaults and pruning; metadata in its stored form.
pub fn complete(custom: &Custom, object: &mut Value) {
    complete::prune(object, &custom.schema);
    settle(custom, object);
}

fn settle(custom: &Custom, object: &mut Value) {
    complete::fill(object, &custom.schema);
    if let Some(metadata) = object.get_mut("metadata") {
        canonical(metadata, object_meta(), EmptyLists::Stay);
    }
}

/// Checks a new object, its metadata aside.
pub fn create(custom: &Custom, object: &Value, errors: &mut Errors) {
    errors.0.extend(check::check(object, None, &custom.schema, ""));
    scale::check(custom, object, errors);
    headers(custom, object, errors);
    lists::duplicates(object, &custom.schema, &Path::root(""), errors);
}

/// Checks a changed object. A former fault may stay.
pub fn update(custom: &Custom, subresource: Option<&str>, old: &Value, new: &Value, errors: &mut Errors) {
    if subresource == Some("status") {
        if let (Some(status), Some(schema)) = (new.get("status"), custom.schema.fields.get("status")) {
            errors.0.extend(check::check(status, old.get("status"), schema, "status"));
        }
        scale::check_status(custom, new, errors);
    } else {
        errors.0.extend(check::check(new, Some(old), &custom.schema, ""));
        scale::check(custom, new, errors);
    }
    headers(custom, new, errors);
    let duplicates = |object: &Value| {
        let mut found = Errors::new();
        lists::duplicates(object, &custom.schema, &Path::root(""), &mut found);
        found
    };
    let found = duplicates(new);
    if !found.is_empty() && duplicates(old).is_empty() {
        errors.0.extend(found.0);
    }
}

/// Checks that an object says that it is of its kind; nothing else counts if it does not.
pub fn header(definition: &Definition, object: &Value, errors: &mut Errors) {
    for (name, expected) in [("apiVersion", read::api_version(definition)), ("kind", definition.kind.clone())] {
        if object.text(name) != expected {
            errors.invalid(&Path::root(name), object.text(name), &format!("must be {expected}"));
        }
    }
}

fn headers(custom: &Custom, object: &Value, errors: &mut Errors) {
    embedded::check(object, &custom.schema, &Path::root(""), errors);
}

/// Returns the type of metadata.
fn object_meta() -> &'static Type {
    static OBJECT_META: LazyLock<Type> =
        LazyLock::new(|| Type::named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
    &OBJECT_META
}

/// An object from the store as a version of its kind: pruned and filled as the version in which it was written says
/// today, and then pruned for this one, which adds nothing.
pub fn from_version(definition: &Definition, object: &mut Value) {
    let Some(custom) = &definition.custom else { return };
    let written = object.text("apiVersion").rsplit('/').next().unwrap_or_default().to_owned();
    let schema = custom.versions.get(&written).unwrap_or(&custom.schema);
    complete::prune(object, schema);
    complete::fill(object, schema);
    if written != definition.version {
        object["apiVersion"] = json!(read::api_version(definition));
        complete::prune(object, &custom.schema);
    }
}

/// An object of a version of its kind as another one, in which it is to be stored.
pub fn to_version(definition: &Definition, version: &str, object: &mut Value) {
    object["apiVersion"] = json!(format!("{}/{version}", definition.group));
    if let Some(schema) = definition.custom.as_ref().and_then(|custom| custom.versions.get(version)) {
        complete::prune(object, schema);
    }
}

#[cfg(test)]
mod tests;
