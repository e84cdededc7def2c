//! Objects of custom kinds: their definition's schema says what they may hold.

use serde_json::{Value, json};

use super::read::{self, Node};
use super::{Custom, Definition, Read, Write};
use crate::kinds::Type;
use crate::minicluster::api::ApiError;

/// Reads an object of a custom kind.
///
/// # Errors
/// 400 where metadata is of a wrong type, or, if strict, for unknown and duplicate fields.
pub fn read(write: &Write<'_>, node: &Node, objections: Vec<String>) -> Result<Read, ApiError> {
    let warnings = read::object_or_warn(write, node, objections)?;
    let mut object = node.to_value();
    object["apiVersion"] = json!(read::api_version(write.definition));
    object["kind"] = json!(write.definition.kind);
    Ok(Read { object, warnings })
}

/// Defaults and pruning.
pub fn complete(definition: &Definition, object: &mut Value) {
    let _ = (definition, object);
}

/// The shape of an object as server-side apply sees it.
pub fn shape(custom: &Custom) -> Type {
    Type::from_openapi(&custom.schema)
}

/// Reads a patched object of a custom kind.
///
/// # Errors
/// As [`read`].
pub fn read_patched(write: &Write<'_>, patched: &Value, objections: Vec<String>) -> Result<Read, ApiError> {
    read(write, &Node::from_value(patched), objections)
}
