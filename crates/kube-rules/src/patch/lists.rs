//! Lists under a strategic merge patch.

use serde_json::{Map, Value};

use super::super::words::printed;
use super::strategic::{PATCH, broken, maps, unknown, without_directives};
use crate::api_error::ApiError;
use kube_facts::{Field, Type};

/// The way in which a list is merged.
pub struct Strategy<'a> {
    merges: bool,
    key: Option<&'a str>,
    items: &'a Type,
}

impl<'a> Strategy<'a> {
    /// Returns the strategy of a field; lists of unknown fields are replaced.
    pub fn of(field: Option<&'a Field>) -> Strategy<'a> {
        let patch = field.and_then(|field| field.patch.as_ref());
        let items = match field.map(|field| field.ty.resolve()) {
            Some(Type::List(list)) => &*list.items,
            _ => &Type::Any,
        };
        Strategy {
            merges: patch.is_some_and(|patch| patch.merge),
            key: patch.and_then(|patch| patch.merge_key.as_deref()),
            items,
        }
    }
}

/// The kind of a list's items.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Items {
    Maps,
    Singles,
}

/// Merges two lists.
///
/// # Errors
/// Fails when items lack the key, differ in kind or carry an unknown directive.
pub fn merge(original: Vec<Value>, patch: Vec<Value>, strategy: &Strategy<'_>) -> Result<Vec<Value>, ApiError> {
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
    let key = key(strategy)?;
    let (original, patch) = special(original, patch, key)?;
    let (ordered, server) = (ListPlaces::of(&patch, Some(key)), ListPlaces::of(&original, Some(key)));
    in_order(by_key(original, patch, key, strategy.items)?, &ordered, &server)
}

/// Merges two lists, either of which may not be there, in an order that the patch sets. Nothing if neither is there.
///
/// # Errors
/// As [`merge`], and if the order does not fit the patch.
pub fn ordered(
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
        (Some(original), Some(patch)) => merge(original, patch, strategy)?,
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

fn key<'a>(strategy: &Strategy<'a>) -> Result<&'a str, ApiError> {
    strategy.key.ok_or_else(|| broken("cannot merge lists without merge key"))
}

fn kind(original: &[Value], patch: &[Value]) -> Result<Items, ApiError> {
    let of = |value: &Value| match value {
        Value::Object(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Number(number) if number.is_i64() => 3,
        Value::Number(_) => 4,
        Value::Array(_) => 5,
        Value::Null => 6,
    };
    let mut kinds = original.iter().chain(patch).map(of);
    let first = kinds.next().unwrap_or_default();
    if first == 5 || kinds.clone().any(|kind| kind == 5) {
        return Err(broken("lists of lists are not supported"));
    }
    if kinds.any(|kind| kind != first) {
        let lists = printed(&Value::Array(vec![original.into(), patch.into()]));
        return Err(broken(format!("list element types are not identical: {lists}")));
    }
    Ok(if first == 0 { Items::Maps } else { Items::Singles })
}

/// Items of the patch that are directives: some to delete, or all to replace.
fn special(original: Vec<Value>, patch: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
    let (mut original, mut plain, mut replace) = (original, Vec::new(), false);
    for item in patch {
        let Value::Object(entries) = &item else { continue };
        let Some(directive) = entries.get(PATCH) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = entries.get(key).ok_or_else(|| no_key(entries, key))?;
                original.retain(|other| other.get(key) != Some(value));
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(broken("merging lists cannot yet be specified in the patch")),
            _ => return Err(unknown(directive, entries)),
        }
    }
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

fn no_key(item: &Map<String, Value>, key: &str) -> ApiError {
    let item = printed(&Value::Object(item.clone()));
    broken(format!("map: {item} does not contain declared merge key: {key}"))
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

/// Items of a list by their key, or as they are.
fn same(one: &Value, other: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => one.get(key).is_some_and(|value| other.get(key) == Some(value)),
        None => one == other,
    }
}

/// The places of a list's items, by their key or as they are.
struct ListPlaces<'a> {
    key: Option<&'a str>,
    items: Vec<Option<Value>>,
}

impl<'a> ListPlaces<'a> {
    fn of(list: &[Value], key: Option<&'a str>) -> ListPlaces<'a> {
        let known_by = |item: &Value| key.map_or(Some(item), |key| item.get(key)).cloned();
        ListPlaces { key, items: list.iter().map(known_by).collect() }
    }

    fn place(&self, item: &Value) -> Option<usize> {
        let known_by = self.key.map_or(Some(item), |key| item.get(key))?;
        self.items.iter().position(|other| other.as_ref() == Some(known_by))
    }
}

/// Items that the patch names stand in its order; the others keep their places among them as far as the server's order
/// defines them. An item without the key has no place.
fn in_order(merged: Vec<Value>, order: &ListPlaces<'_>, server: &ListPlaces<'_>) -> Result<Vec<Value>, ApiError> {
    if let Some(key) = order.key
        && let Some(item) = merged.iter().filter_map(Value::as_object).find(|item| !item.contains_key(key))
    {
        return Err(no_key(item, key));
    }
    let named = |item: &Value| order.place(item).is_some();
    let (mut patched, mut others): (Vec<Value>, Vec<Value>) = merged.into_iter().partition(named);
    patched.sort_by_cached_key(|item| order.place(item));
    others.sort_by_cached_key(|item| server.place(item));
    let mut patched = patched.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    let mut sorted = Vec::new();
    while let (Some(own), Some(theirs)) = (others.peek(), patched.peek()) {
        let before = match (server.place(own), server.place(theirs)) {
            (Some(own), Some(theirs)) => own < theirs,
            _ => false,
        };
        sorted.extend(if before { others.next() } else { patched.next() });
    }
    sorted.extend(patched);
    sorted.extend(others);
    Ok(sorted)
}

/// Checks that the items of a patch come in the order that it sets.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), ApiError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let kept = patch.iter().filter(|item| item.get(PATCH).is_none_or(|directive| directive != "delete"));
    let mut places = order.iter();
    for item in kept {
        let mut found = false;
        while let Some(place) = (!found).then(|| places.next()).flatten() {
            if let Some(key) = key {
                let keyless = |one: &&Value| one.as_object().is_some_and(|entries| !entries.contains_key(key));
                if let Some(entries) = [item, place].into_iter().find(keyless).and_then(Value::as_object) {
                    return Err(no_key(entries, key));
                }
            }
            found = same(place, item, key);
        }
        if !found {
            let (patch, order) = (printed(&Value::from(patch)), printed(&Value::from(order)));
            let message =
                format!("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n");
            return Err(broken(message));
        }
    }
    Ok(())
}
