//! Sets of fields, as `managedFields` has them: `f:spec` for a field, `k:{"name":"app"}` for an item of a list, `.` for the field
//! itself.

use serde_json::{Map, Value};

use super::list_items::{ItemKeys, keys_of};

/// Returns the place in words: `spec.ports[port=83,protocol=TCP].name`.
pub(super) fn text(path: &[String]) -> String {
    let mut text = String::new();
    path.iter().for_each(|key| push(&mut text, key));
    text
}

/// Adds a key of `managedFields` to a place in words.
pub(super) fn push(text: &mut String, key: &str) {
    match key.strip_prefix("f:") {
        Some(name) if text.is_empty() => text.push_str(name),
        Some(name) => text.push_str(&segment(name)),
        None => {
            let said = |(name, value): (String, Value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                format!("{name}={value}")
            };
            let keys: Vec<String> = keys_of(key).into_iter().flatten().map(said).collect();
            let inner = if keys.is_empty() { key.get(2..).unwrap_or_default().to_owned() } else { keys.join(",") };
            text.push_str(&format!("[{inner}]"));
        }
    }
}

/// Returns a name as part of a place in words.
pub(super) fn segment(name: &str) -> String {
    if name.contains(['.', '/']) { format!("[{name}]") } else { format!(".{name}") }
}

/// Adds a set of fields to another.
pub(super) fn join(fields: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, inner) in more {
        match (fields.get_mut(key), inner.as_object()) {
            (Some(Value::Object(known)), Some(inner)) => join(known, inner),
            (Some(_), _) => {}
            (None, _) => drop(fields.insert(key.clone(), inner.clone())),
        }
    }
}

/// Takes the fields of a set out of a value.
pub(super) fn take_out(value: &mut Value, set: &Map<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in set {
                if let Some(name) = key.strip_prefix("f:") {
                    take_out_field(fields, name, set_below(inner));
                }
            }
        }
        Value::Array(items) => {
            let keys = ItemKeys::of(set);
            items.retain_mut(|item| {
                let Some((_, inner)) = keys.naming(item) else { return true };
                let inner = set_below(inner).filter(|inner| !inner.contains_key("."));
                inner.is_some_and(|inner| {
                    take_out(item, inner);
                    true
                })
            });
        }
        _ => {}
    }
}

fn take_out_field(fields: &mut Map<String, Value>, name: &str, set: Option<&Map<String, Value>>) {
    let (Some(set), Some(below)) = (set, fields.get_mut(name)) else { return drop(fields.remove(name)) };
    take_out(below, set);
    let is_empty = match below {
        Value::Object(fields) => fields.is_empty() && set.contains_key("."),
        below => below.as_array().is_some_and(Vec::is_empty),
    };
    if is_empty {
        fields.remove(name);
    }
}

/// Returns the fields below one; `None` where all of it is meant.
fn set_below(inner: &Value) -> Option<&Map<String, Value>> {
    inner.as_object().filter(|inner| inner.keys().any(|key| key != "."))
}
