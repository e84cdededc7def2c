//! Taking fields out of an object.

use serde_json::{Map, Value};

use super::field_set::{FieldSet, field};
use super::items::element;
use super::shape::{Atom, atom, entry_type, is_whole};
use kube_facts::Type;

/// Returns the value without some fields. Maps and lists that held nothing else become null.
pub fn without(value: &Value, fields: &FieldSet, ty: &Type) -> Value {
    let of = atom(ty, Some(value));
    match (of, value) {
        _ if is_whole(of) && (value.is_object() || value.is_array()) => Value::Null,
        (Atom::List(list), Value::Array(items)) => {
            let mut kept = Vec::with_capacity(items.len());
            for item in items {
                let element = element(list, item).unwrap_or_default();
                if fields.has(&element) {
                    continue;
                }
                kept.push(match fields.within(&element) {
                    Some(within) => without(item, within, &list.items),
                    None => item.clone(),
                });
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (_, Value::Object(entries)) => {
            let mut kept = Map::new();
            for (name, value) in entries {
                let element = field(name);
                if fields.has(&element) {
                    continue;
                }
                let left = match (fields.within(&element), entry_type(ty, name)) {
                    (Some(within), Some(inner)) => without(value, within, inner),
                    _ => value.clone(),
                };
                kept.insert(name.clone(), left);
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (_, value) => value.clone(),
    }
}
