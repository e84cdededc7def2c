//! The items of lists and their keys in `managedFields` (`k:{"name":"app"}`, `v:"value"`), found by each other: a list may have
//! tens of thousands of items, and to compare each with each would take minutes.
//!
//! A key names an item if they agree in what the item has of the key. What a manifest leaves out of it has the server's default
//! (`protocol: TCP`).

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

/// The different names of keys that the items of one list may have. An API server gives all the same.
const NAMINGS: usize = 16;
/// The different sets of these names that items may leave out.
const LEFT_OUT: usize = 64;

/// Returns the keys of a list's item: `k:{"name":"app"}`.
pub(super) fn keys_of(key: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(key.strip_prefix("k:")?).ok()
}

/// The parts of a value, found by keys of `managedFields`.
pub(super) struct Below<'a> {
    value: Option<&'a Value>,
    values: RefCell<Option<HashMap<String, usize>>>,
    namings: RefCell<BTreeMap<Vec<String>, ItemsByKeys>>,
}

/// The items of a list by their values of some names: the first of each, and which of the names items have.
#[derive(Default)]
struct ItemsByKeys {
    there: Vec<Vec<bool>>,
    first: HashMap<String, usize>,
}

impl<'a> Below<'a> {
    pub(super) fn of(value: Option<&'a Value>) -> Below<'a> {
        Below { value, values: RefCell::default(), namings: RefCell::default() }
    }

    /// Returns the part of the value that a key of `managedFields` names.
    pub(super) fn at(&self, key: &str) -> Option<&'a Value> {
        let value = self.value?;
        if let Some(name) = key.strip_prefix("f:") {
            return value.get(name);
        }
        let items = value.as_array()?;
        if let Some(text) = key.strip_prefix("v:") {
            let wanted = serde_json::from_str::<Value>(text).ok()?.to_string();
            let mut values = self.values.borrow_mut();
            let first = values.get_or_insert_with(|| first_of(items.iter().map(Value::to_string)));
            return items.get(*first.get(&wanted)?);
        }
        let wanted = keys_of(key)?;
        let names: Vec<String> = wanted.keys().cloned().collect();
        let mut namings = self.namings.borrow_mut();
        if !namings.contains_key(&names) {
            if namings.len() == NAMINGS {
                return None;
            }
            namings.insert(names.clone(), ItemsByKeys::of(items, &names));
        }
        let by_keys = &namings[&names];
        let found = by_keys.there.iter().filter_map(|there| by_keys.first.get(&projected(&names, there, &wanted)));
        items.get(*found.min()?)
    }
}

impl ItemsByKeys {
    fn of(items: &[Value], names: &[String]) -> ItemsByKeys {
        let mut by_keys = ItemsByKeys::default();
        for (at, item) in items.iter().enumerate() {
            let Some((fields, there)) = names_there(names, item) else { continue };
            if !by_keys.there.contains(&there) {
                if by_keys.there.len() == LEFT_OUT {
                    continue;
                }
                by_keys.there.push(there.clone());
            }
            by_keys.first.entry(projected(names, &there, fields)).or_insert(at);
        }
        by_keys
    }
}

/// The keys of the items of a list, found by item.
pub(super) struct ItemKeys<'a> {
    keys: Vec<(&'a str, &'a Value)>,
    values: HashMap<String, usize>,
    namings: Vec<KeysOfNames>,
}

/// The keys of the same names.
struct KeysOfNames {
    names: Vec<String>,
    keys: Vec<(Map<String, Value>, usize)>,
    /// The first key of each value of the names that an item has.
    first: RefCell<HashMap<Vec<bool>, HashMap<String, usize>>>,
}

impl<'a> ItemKeys<'a> {
    pub(super) fn of(fields: &'a Map<String, Value>) -> ItemKeys<'a> {
        let keys: Vec<(&str, &Value)> = fields.iter().map(|(key, inner)| (key.as_str(), inner)).collect();
        let (mut values, mut by_names) = (HashMap::new(), BTreeMap::<Vec<String>, Vec<_>>::new());
        for (at, (key, _)) in keys.iter().enumerate() {
            if let Some(value) = key.strip_prefix("v:").and_then(|text| serde_json::from_str::<Value>(text).ok()) {
                values.entry(value.to_string()).or_insert(at);
            } else if let Some(wanted) = keys_of(key) {
                by_names.entry(wanted.keys().cloned().collect()).or_default().push((wanted, at));
            }
        }
        let of_names = |(names, keys)| KeysOfNames { names, keys, first: RefCell::default() };
        ItemKeys { keys, values, namings: by_names.into_iter().take(NAMINGS).map(of_names).collect() }
    }

    /// Returns the first key that names an item, with the fields below it.
    pub(super) fn naming(&self, item: &Value) -> Option<(&'a str, &'a Value)> {
        let by_value = if self.values.is_empty() { None } else { self.values.get(&item.to_string()).copied() };
        let by_names = self.namings.iter().filter_map(|naming| naming.first(item));
        self.keys.get(by_names.chain(by_value).min()?).copied()
    }
}

impl KeysOfNames {
    fn first(&self, item: &Value) -> Option<usize> {
        let (fields, there) = names_there(&self.names, item)?;
        let mut first = self.first.borrow_mut();
        if !first.contains_key(&there) {
            if first.len() == LEFT_OUT {
                return None;
            }
            let mut of_these = HashMap::new();
            for (wanted, at) in &self.keys {
                of_these.entry(projected(&self.names, &there, wanted)).or_insert(*at);
            }
            first.insert(there.clone(), of_these);
        }
        first[&there].get(&projected(&self.names, &there, fields)).copied()
    }
}

/// Returns the fields of an item, and which of these names it has; `None` where it has none.
fn names_there<'i>(names: &[String], item: &'i Value) -> Option<(&'i Map<String, Value>, Vec<bool>)> {
    let fields = item.as_object()?;
    let there: Vec<bool> = names.iter().map(|name| fields.contains_key(name)).collect();
    there.contains(&true).then_some((fields, there))
}

/// Returns the values of these names as one text.
fn projected(names: &[String], there: &[bool], fields: &Map<String, Value>) -> String {
    let parts = names.iter().zip(there).map(|(name, there)| match fields.get(name).filter(|_| *there) {
        // A text in JSON has no line break.
        Some(value) => format!("{value}\n"),
        None => "\n".to_owned(),
    });
    parts.collect()
}

fn first_of(texts: impl Iterator<Item = String>) -> HashMap<String, usize> {
    let mut first = HashMap::new();
    for (at, text) in texts.enumerate() {
        first.entry(text).or_insert(at);
    }
    first
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::rollout::ownership::owned::names_item;

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![Just(json!(1)), Just(json!("1")), Just(json!("a\nb")), Just(json!(null)), Just(json!({"a": [2]}))]
    }

    fn item() -> impl Strategy<Value = Value> {
        let field = |name: &'static str| proptest::option::of(scalar()).prop_map(move |value| (name, value));
        let object = (field("name"), field("port"), field("other")).prop_map(|(one, two, three)| {
            let fields = [one, two, three].into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Value::Object(fields.collect())
        });
        prop_oneof![3 => object, 1 => scalar()]
    }

    fn key() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => item().prop_map(|item| format!("k:{item}")),
            2 => item().prop_map(|item| format!("v:{item}")),
            1 => Just("k:".to_owned()),
            1 => Just(".".to_owned()),
            1 => Just("f:name".to_owned()),
        ]
    }

    proptest! {
        #[test]
        fn the_same_is_found_as_by_comparing_each(
            items in proptest::collection::vec(item(), 0..8),
            keys in proptest::collection::btree_set(key(), 0..4),
        ) {
            let fields: Map<String, Value> = keys.iter().map(|key| (key.clone(), json!({}))).collect();
            let (list, by_item) = (Value::Array(items.clone()), ItemKeys::of(&fields));
            let below = Below::of(Some(&list));
            for key in &keys {
                prop_assert_eq!(below.at(key), items.iter().find(|item| names_item(key, item)), "{}", key);
            }
            for item in &items {
                let each = fields.keys().map(String::as_str).find(|key| names_item(key, item));
                prop_assert_eq!(by_item.naming(item).map(|(key, _)| key), each, "{}", item);
            }
        }
    }
}
