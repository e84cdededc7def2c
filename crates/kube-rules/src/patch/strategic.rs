//! Strategic merge patch: maps are merged, lists too where their type says by which key, with directives in between.

use serde_json::{Map, Value};

use super::super::read::duplicates;
use super::super::read::{Node, parse_json};
use super::super::words::go_type;
use super::directives::{
    DELETE_FROM, PATCH, SET_ORDER, broken, delete_from, retain_keys, unknown, without_directives, without_nulls,
};
use super::lists::{Items, ListPlaces, Strategy, check_order, in_order, kind, no_key, special};
use crate::api_error::ApiError;
use kube_facts::{Field, Type};

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
                Value::Array(merge_lists(old, new, &strategy)?)
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
        if let Some(merged) = merge_in_order(old, new, &order, &strategy)? {
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
    broken(format!("expected a []interface {{}}, but received a {}", go_type(value)))
}

/// Merges two lists.
///
/// # Errors
/// Fails when items lack the key, differ in kind or carry an unknown directive.
fn merge_lists(original: Vec<Value>, patch: Vec<Value>, strategy: &Strategy<'_>) -> Result<Vec<Value>, ApiError> {
    if !strategy.merges {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let kind = kind(&original, &patch)?;
    if kind == Items::Singles {
        let mut merged: Vec<Value> = Vec::new();
        for item in original.iter().chain(&patch) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        return in_order(merged, &ListPlaces::of(&patch, None), &ListPlaces::of(&original, None));
    }
    let key = strategy.merge_key()?;
    let (original, patch) = special(original, patch, key)?;
    let (ordered, server) = (ListPlaces::of(&patch, Some(key)), ListPlaces::of(&original, Some(key)));
    in_order(by_key(original, patch, key, strategy.items)?, &ordered, &server)
}

/// Merges two lists, either of which may not be there, in an order that the patch sets. Nothing if neither is there.
///
/// # Errors
/// As [`merge_lists`], and if the order does not fit the patch.
fn merge_in_order(
    original: Option<Vec<Value>>,
    patch: Option<Vec<Value>>,
    order: &[Value],
    strategy: &Strategy<'_>,
) -> Result<Option<Vec<Value>>, ApiError> {
    check_order(patch.as_deref().unwrap_or_default(), order, strategy.key)?;
    let server = ListPlaces::of(original.as_deref().unwrap_or_default(), strategy.key);
    let merged = match (original, patch) {
        (None, None) => return Ok(None),
        (Some(original), None) => original,
        (None, Some(patch)) => patch.into_iter().filter_map(without_directives).collect(),
        (Some(original), Some(patch)) => merge_lists(original, patch, strategy)?,
    };
    if let Some(key) = strategy.key {
        for (index, item) in order.iter().enumerate() {
            let Value::Object(item) = item else { return Err(broken(format!("value for key {index} is not a map"))) };
            if !item.contains_key(key) {
                return Err(no_key(item, key));
            }
        }
    }
    in_order(merged, &ListPlaces::of(order, strategy.key), &server).map(Some)
}

fn by_key(original: Vec<Value>, patch: Vec<Value>, key: &str, items: &Type) -> Result<Vec<Value>, ApiError> {
    let mut merged = original;
    for item in patch {
        let Value::Object(entries) = item else { continue };
        let value = entries.get(key).ok_or_else(|| no_key(&entries, key))?;
        match merged.iter_mut().find(|other| other.get(key) == Some(value)) {
            Some(Value::Object(other)) => *other = maps(std::mem::take(other), entries, items)?,
            _ => merged.push(Value::Object(entries)),
        }
    }
    Ok(merged)
}
