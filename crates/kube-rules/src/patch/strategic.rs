//! Strategic merge patch: maps are merged, lists too where their type says by which key, with directives in between.

use serde_json::{Map, Value};

use super::super::read::duplicates;
use super::super::read::{Node, parse_json};
use super::super::words::printed;
use super::lists::{self, Strategy};
use crate::api_error::ApiError;
use kube_facts::{Field, Type};

/// The directive for a map or an item: `replace`, `delete`, `merge`.
pub const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";
const BAD_RETAIN_KEYS: &str = "invalid patch format of retainKeys";

/// Reads a patch, and its duplicate keys.
///
/// # Errors
/// 400 for a body that is no JSON map.
pub fn read(body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    let node = parse_json(body).map_err(ApiError::bad_request)?;
    match node {
        Node::Map(_) => {
            let twice = duplicates(&node);
            Ok((node.into_value(), twice))
        }
        Node::Null => Ok((Value::Object(Map::new()), Vec::new())),
        other => {
            let what = other.kind();
            let error = format!("json: cannot unmarshal {what} into Go value of type map[string]interface {{}}");
            Err(ApiError::bad_request(error))
        }
    }
}

/// Lays a patch over a value of a type.
///
/// # Errors
/// 400 or 500 where the patch contradicts itself.
pub fn apply(value: Value, patch: Value, ty: &Type) -> Result<Map<String, Value>, ApiError> {
    let (Value::Object(value), Value::Object(patch)) = (value, patch) else {
        return Err(broken("invalid JSON document"));
    };
    maps(value, patch, ty)
}

/// Returns 500: the real server's answer to most broken patches.
pub fn broken(message: impl Into<String>) -> ApiError {
    ApiError::new(500, "", message)
}

/// Lays a map over a map.
///
/// # Errors
/// Fails when directives are unknown, misplaced or contradict each other.
pub fn maps(
    original: Map<String, Value>,
    patch: Map<String, Value>,
    ty: &Type,
) -> Result<Map<String, Value>, ApiError> {
    let (mut original, mut patch) = (original, patch);
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_orders(&mut original, &mut patch, ty)?;
    for (name, value) in patch {
        if name.strip_prefix(DELETE_FROM).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            delete_from(&mut original, &name, value)?;
            continue;
        }
        if value.is_null() {
            original.remove(&name);
            continue;
        }
        let merged = match (original.remove(&name), value) {
            (Some(Value::Object(_)), new @ Value::Object(_)) if is_replaced(ty, &name) => new,
            (Some(Value::Object(old)), Value::Object(new)) => {
                Value::Object(maps(old, new, below(ty, &name).unwrap_or(&Type::Any))?)
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let strategy = Strategy::of(field(ty, &name));
                Value::Array(lists::merge(old, new, &strategy)?)
            }
            (_, new) => match without_directives(without_nulls(new)) {
                Some(new) => new,
                None => continue,
            },
        };
        original.insert(name, merged);
    }
    Ok(original)
}

/// Returns an unknown value of `$patch`.
pub fn unknown(directive: &Value, patch: &Map<String, Value>) -> ApiError {
    let map = printed(&Value::Object(patch.clone()));
    let directive = match directive {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(value) => format!("%!s(bool={value})"),
        Value::Number(number) if number.is_i64() => format!("%!s(int64={number})"),
        Value::Number(number) => format!("%!s(float64={number})"),
        other => printed(other),
    };
    broken(format!("unknown patch type: {directive} in map: {map}"))
}

fn field<'a>(ty: &'a Type, name: &str) -> Option<&'a Field> {
    match ty.resolve() {
        Type::Struct(inner) => inner.fields.get(name),
        _ => None,
    }
}

/// Returns true when a map takes the place of the existing one.
fn is_replaced(ty: &Type, name: &str) -> bool {
    field(ty, name).and_then(|field| field.patch.as_ref()).is_some_and(|patch| patch.replace)
}

fn below<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    match ty.resolve() {
        Type::Map(map) => Some(&map.values),
        _ => field(ty, name).map(|field| &field.ty),
    }
}

/// Keys that the patch does not list are dropped.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), ApiError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else { return Err(ApiError::bad_request(BAD_RETAIN_KEYS)) };
    let listed = |name: &String| keys.iter().any(|key| key == name);
    let directive = |name: &str| name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
    let stray = patch.iter().any(|(name, value)| !value.is_null() && !directive(name) && !listed(name));
    if stray {
        return Err(ApiError::bad_request(BAD_RETAIN_KEYS));
    }
    original.retain(|name, _| listed(name));
    Ok(())
}

/// Lists whose order the patch sets are merged and ordered at once.
fn set_orders(original: &mut Map<String, Value>, patch: &mut Map<String, Value>, ty: &Type) -> Result<(), ApiError> {
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            Some(other) => return Err(bad_argument(&other)),
            None => continue,
        };
        let Some(name) = directive.strip_prefix(&format!("{SET_ORDER}/")) else {
            return Err(ApiError::bad_request("invalid patch format of setElementOrder list"));
        };
        let (old, new) = (list(original.remove(name))?, list(patch.remove(name))?);
        if let (None, Type::Struct(_)) = (field(ty, name), ty.resolve()) {
            let owner = super::super::read::go_name(ty).unwrap_or_default();
            let message = format!("unable to find api field in struct {owner} for the json field \"{name}\"");
            return Err(broken(message));
        }
        let strategy = Strategy::of(field(ty, name));
        if let Some(merged) = lists::ordered(old, new, &order, &strategy)? {
            original.insert(name.to_owned(), Value::Array(merged));
        }
    }
    Ok(())
}

fn list(value: Option<Value>) -> Result<Option<Vec<Value>>, ApiError> {
    match value {
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(bad_argument(&other)),
        None => Ok(None),
    }
}

fn bad_argument(value: &Value) -> ApiError {
    let ty = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    broken(format!("expected a []interface {{}}, but received a {ty}"))
}

fn delete_from(original: &mut Map<String, Value>, directive: &str, values: Value) -> Result<(), ApiError> {
    let Some(name) = directive.strip_prefix(&format!("{DELETE_FROM}/")) else {
        return Err(ApiError::bad_request("invalid patch format of primitive list"));
    };
    if values.is_null() {
        original.remove(name);
        return Ok(());
    }
    if let (Some(Value::Array(items)), Value::Array(values)) = (original.get_mut(name), &values) {
        items.retain(|item| !values.contains(item));
    }
    Ok(())
}

/// Removes nulls from a new value, which has nothing to remove.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let kept = entries.into_iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name, without_nulls(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Returns a new part without directives; a part that is one is not there at all.
pub fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(entries) if entries.contains_key(PATCH) => None,
        Value::Object(entries) => {
            let kept = entries.into_iter().filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(kept.collect())
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        other => Some(other),
    }
}
