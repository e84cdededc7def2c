//! The directives of a strategic merge patch, between the values.

use serde_json::{Map, Value};

use super::super::words::printed;
use crate::api_error::ApiError;

/// The directive for a map or an item: `replace`, `delete`, `merge`.
pub const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
/// The directive for the single values that a list loses.
pub const DELETE_FROM: &str = "$deleteFromPrimitiveList";
/// The directive for the order of a list.
pub const SET_ORDER: &str = "$setElementOrder";
const BAD_RETAIN_KEYS: &str = "invalid patch format of retainKeys";

/// Returns 500: the real server's answer to most broken patches.
pub fn broken(message: impl Into<String>) -> ApiError {
    ApiError::new(500, "", message)
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

/// Drops keys that the patch does not list.
///
/// # Errors
/// 400 for a list that is none, or that leaves out a key of the patch.
pub fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), ApiError> {
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

/// Takes the single values that a patch names out of a list.
///
/// # Errors
/// 400 for a directive that names no list.
pub fn delete_from(original: &mut Map<String, Value>, directive: &str, values: Value) -> Result<(), ApiError> {
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
pub fn without_nulls(value: Value) -> Value {
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
