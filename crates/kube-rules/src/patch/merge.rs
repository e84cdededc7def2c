//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

use super::super::read::duplicates;
use super::super::read::{Node, parse_json};
use crate::api_error::ApiError;

/// Reads a patch, and its duplicate keys.
///
/// # Errors
/// 400 for a body that is no JSON map.
pub fn read(body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    let bad = |error: String| ApiError::bad_request(format!("error decoding patch: {error}"));
    let node = parse_json(body).map_err(bad)?;
    match node {
        Node::Map(_) => {
            let twice = duplicates(&node);
            Ok((node.into_value(), twice))
        }
        Node::Null => Err(ApiError::bad_request("Invalid JSON Patch")),
        other => {
            let what = other.kind();
            Err(bad(format!("json: cannot unmarshal {what} into Go value of type map[string]interface {{}}")))
        }
    }
}

/// Lays a patch over a value: maps are merged, null removes, everything else replaces.
pub fn apply(value: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let Value::Object(mut entries) = value else { return without_nulls(patch) };
    for (name, patch) in patch {
        if patch.is_null() {
            entries.remove(name);
            continue;
        }
        let merged = match entries.remove(name) {
            None | Some(Value::Null) => pruned(patch),
            Some(value) => apply(value, patch),
        };
        entries.insert(name.clone(), merged);
    }
    Value::Object(entries)
}

fn without_nulls(entries: &Map<String, Value>) -> Value {
    entries.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), pruned(value))).collect()
}

fn pruned(value: &Value) -> Value {
    match value {
        Value::Object(entries) => without_nulls(entries),
        Value::Array(items) => items.iter().map(pruned).collect(),
        other => other.clone(),
    }
}
