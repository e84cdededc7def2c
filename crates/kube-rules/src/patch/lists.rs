//! Lists under a strategic merge patch.

use serde_json::{Map, Value};

use super::super::words::printed;
use super::directives::{PATCH, broken, unknown};
use crate::api_error::ApiError;
use kube_facts::{Field, Type};

/// The way in which a list is merged.
pub struct Strategy<'a> {
    /// True when the lists are merged; else the newer one replaces the older.
    pub merges: bool,
    /// The field by which items that are maps are known.
    pub key: Option<&'a str>,
    /// The type of the items.
    pub items: &'a Type,
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

    /// Returns the key by which items are known.
    ///
    /// # Errors
    /// 500 if the type has none.
    pub fn merge_key(&self) -> Result<&'a str, ApiError> {
        self.key.ok_or_else(|| broken("cannot merge lists without merge key"))
    }
}

/// The kind of a list's items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Items {
    /// Maps, known by a key.
    Maps,
    /// Single values.
    Singles,
}

/// Returns the kind of the items of two lists.
///
/// # Errors
/// 500 for lists of lists, and for items of several kinds.
pub fn kind(original: &[Value], patch: &[Value]) -> Result<Items, ApiError> {
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

/// Applies those items of the patch that are directives: some to delete, or all to replace. Returns the rest of both lists.
///
/// # Errors
/// 500 for a directive that is unknown, or lacks the key.
pub fn special(original: Vec<Value>, patch: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
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

/// Returns 500 for an item without the key.
pub fn no_key(item: &Map<String, Value>, key: &str) -> ApiError {
    let item = printed(&Value::Object(item.clone()));
    broken(format!("map: {item} does not contain declared merge key: {key}"))
}

/// Items of a list by their key, or as they are.
fn same(one: &Value, other: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => one.get(key).is_some_and(|value| other.get(key) == Some(value)),
        None => one == other,
    }
}

/// The places of a list's items, by their key or as they are.
pub struct ListPlaces<'a> {
    key: Option<&'a str>,
    items: Vec<Option<Value>>,
}

impl<'a> ListPlaces<'a> {
    /// Returns the places of a list's items.
    pub fn of(list: &[Value], key: Option<&'a str>) -> ListPlaces<'a> {
        let known_by = |item: &Value| key.map_or(Some(item), |key| item.get(key)).cloned();
        ListPlaces { key, items: list.iter().map(known_by).collect() }
    }

    fn place(&self, item: &Value) -> Option<usize> {
        let known_by = self.key.map_or(Some(item), |key| item.get(key))?;
        self.items.iter().position(|other| other.as_ref() == Some(known_by))
    }
}

/// Sorts a merged list: items that the patch names stand in its order; the others keep their places among them as far as
/// the server's order defines them.
///
/// # Errors
/// 500 for an item without the key, which has no place.
pub fn in_order(merged: Vec<Value>, order: &ListPlaces<'_>, server: &ListPlaces<'_>) -> Result<Vec<Value>, ApiError> {
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
///
/// # Errors
/// 500 if they come in another one, or lack the key.
pub fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), ApiError> {
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
