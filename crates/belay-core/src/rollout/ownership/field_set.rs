//! Sets of fields, as `managedFields` has them: `f:spec` for a field, `k:{"name":"app"}` for an item of a list, `.` for the field
//! itself.

use serde_json::{Map, Value};

use super::owned::names_item;

/// Returns the keys of a list's item: `k:{"name":"app"}`.
pub(super) fn keys_of(key: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(key.strip_prefix("k:")?).ok()
}

/// Returns the part of a value that a key of `managedFields` names.
pub(super) fn sent_at<'a>(value: Option<&'a Value>, key: &str) -> Option<&'a Value> {
    match key.strip_prefix("f:") {
        Some(name) => value?.get(name),
        None => value?.as_array()?.iter().find(|item| names_item(key, item)),
    }
}

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
    for (key, inner) in set.iter().filter(|(key, _)| *key != ".") {
        let inner = inner.as_object().filter(|inner| inner.keys().any(|key| key != "."));
        let is_whole_item = |inner: &Map<String, Value>| inner.contains_key(".");
        match (key.strip_prefix("f:"), &mut *value) {
            (Some(name), Value::Object(fields)) => match (inner, fields.get_mut(name)) {
                (Some(inner), Some(below)) => {
                    take_out(below, inner);
                    let is_empty = below.as_object().map_or_else(
                        || below.as_array().is_some_and(Vec::is_empty),
                        |fields| fields.is_empty() && inner.contains_key("."),
                    );
                    if is_empty {
                        fields.remove(name);
                    }
                }
                _ => drop(fields.remove(name)),
            },
            (None, Value::Array(items)) => match inner.filter(|inner| !is_whole_item(inner)) {
                Some(inner) => {
                    items.iter_mut().filter(|item| names_item(key, item)).for_each(|item| take_out(item, inner))
                }
                None => items.retain(|item| !names_item(key, item)),
            },
            _ => {}
        }
    }
}
