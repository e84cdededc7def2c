//! The identity of a list's items.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::words::quote;
use super::field_set;
use super::shape::{Atom, atom};
use kube_facts::{List, ListKind};

/// Returns the element of an item in its list.
///
/// # Errors
/// For an item without an identity of its own.
pub fn element(list: &List, item: &Value) -> Result<String, String> {
    match &list.kind {
        ListKind::Map(keys) => by_keys(list, keys, item),
        ListKind::Set | ListKind::Atomic => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            value => Ok(field_set::item(value)),
        },
    }
}

/// The refusal of an item that nobody could identify.
pub const WITHOUT_KEYS: &str = "associative list with keys has an element that omits all key fields";

fn by_keys<'a>(list: &'a List, keys: &'a [String], item: &'a Value) -> Result<String, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let value = |key: &'a String| Some((key.as_str(), fields.get(key).or_else(|| default(list, key))?));
    let mut found = keys.iter().filter_map(value).peekable();
    if found.peek().is_none() {
        let keys: Vec<String> = keys.iter().map(|key| quote(key)).collect();
        let keys = keys.join(" ");
        return Err(format!("{WITHOUT_KEYS} [{keys}] (and doesn't have default values for any key fields)"));
    }
    Ok(field_set::keyed(found))
}

/// Returns true when an item has none of the keys of its list, nor defaults for them.
pub fn has_no_key(list: &List, item: &Value) -> bool {
    match (&list.kind, item) {
        (ListKind::Map(keys), Value::Object(fields)) => {
            !keys.iter().any(|key| fields.contains_key(key) || default(list, key).is_some())
        }
        _ => false,
    }
}

/// Returns a key that is not given has its default, `protocol: TCP`.
fn default<'a>(list: &'a List, key: &str) -> Option<&'a Value> {
    match atom(&list.items, None) {
        Atom::Struct(inner) => inner.fields.get(key)?.default.as_ref(),
        _ => None,
    }
}

/// The items of a list by element, in the order in which each comes first; several where a list holds one twice.
pub struct Indexed<'a> {
    /// The elements, each once.
    pub order: Vec<String>,
    /// The element of each item, in order. Items without an identity have none.
    pub each: Vec<Option<String>>,
    by_element: BTreeMap<String, Vec<&'a Value>>,
}

impl<'a> Indexed<'a> {
    /// Indexes a list; a value that is no list has no items.
    pub fn new(list: &List, value: Option<&'a Value>) -> Indexed<'a> {
        let mut indexed = Indexed { order: Vec::new(), each: Vec::new(), by_element: BTreeMap::new() };
        for item in value.and_then(Value::as_array).into_iter().flatten() {
            let element = element(list, item).ok();
            if let Some(element) = &element {
                let items = indexed.by_element.entry(element.clone()).or_default();
                if items.is_empty() {
                    indexed.order.push(element.clone());
                }
                items.push(item);
            }
            indexed.each.push(element);
        }
        indexed
    }

    /// Returns the items of an element.
    pub fn all(&self, element: &str) -> &[&'a Value] {
        self.by_element.get(element).map_or(&[], Vec::as_slice)
    }

    /// Returns the item of an element, if there is just one.
    pub fn only(&self, element: &str) -> Option<&'a Value> {
        match self.all(element) {
            [item] => Some(item),
            _ => None,
        }
    }

    /// Returns true when there is an item of the element.
    pub fn has(&self, element: &str) -> bool {
        self.by_element.contains_key(element)
    }
}
