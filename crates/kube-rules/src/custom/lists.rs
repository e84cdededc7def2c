//! Lists whose items must differ: sets, and lists with keys.

use serde_json::{Map, Value};

use super::super::validate::{Errors, Path};
use super::schema::Schema;
use kube_facts::ListKind;

/// Checks every item that is in its list already.
pub fn duplicates(value: &Value, schema: &Schema, at: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                if let Some(inner) = schema.field(name) {
                    let at = if schema.fields.contains_key(name) { at.field(name) } else { at.key(name) };
                    duplicates(value, inner, &at, errors);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list {
                Some(ListKind::Set) => each_once(items, |item| item.clone(), at, errors),
                Some(ListKind::Map(keys)) => each_once(items, |item| keys_of(item, keys), at, errors),
                _ => {}
            }
            if let Some(inner) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    duplicates(item, inner, &at.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn each_once(items: &[Value], key: impl Fn(&Value) -> Value, at: &Path<'_>, errors: &mut Errors) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let key = key(item);
        if !seen.insert(key.to_string()) {
            errors.duplicate(&at.index(index), &key);
        }
    }
}

fn keys_of(item: &Value, keys: &[String]) -> Value {
    let present = keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())));
    Value::Object(present.collect::<Map<_, _>>())
}
