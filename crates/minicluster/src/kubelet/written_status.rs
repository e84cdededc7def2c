//! The status of a pod as it was last written, and its changes.

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Map, Value, json};

/// The status that was last written to the API server.
#[derive(Debug)]
pub enum WrittenStatus {
    /// The present state of the pod's life, which needs no copy: most pods stay as they are for most of the time.
    Current,
    /// This, as JSON. Empty for nothing.
    Text(Box<[u8]>),
}

impl WrittenStatus {
    /// This status was written.
    pub fn text(status: &PodStatus) -> WrittenStatus {
        WrittenStatus::Text(serde_json::to_vec(status).unwrap_or_default().into_boxed_slice())
    }

    /// Nothing was written.
    pub fn nothing() -> WrittenStatus {
        WrittenStatus::Text(Box::default())
    }

    /// Keeps a copy of the written status: the pod's status is about to change.
    pub fn keep(&mut self, status: impl FnOnce() -> PodStatus) {
        if matches!(self, WrittenStatus::Current) {
            *self = WrittenStatus::text(&status());
        }
    }

    /// Returns the patch that writes the current status; it counts as written from here on.
    pub fn change(&mut self, status: impl FnOnce() -> PodStatus) -> Map<String, Value> {
        let WrittenStatus::Text(before) = self else { return Map::new() };
        let status = status();
        let Ok(text) = serde_json::to_vec(&status) else { return Map::new() };
        let mut changed = Map::new();
        if *text != **before {
            let Ok(Value::Object(status)) = serde_json::to_value(status) else { return changed };
            changed = changes(&read(before), status);
        }
        *self = WrittenStatus::Current;
        changed
    }
}

/// Returns a status by its keys; of nothing, none.
fn read(text: &[u8]) -> Map<String, Value> {
    serde_json::from_slice(text).unwrap_or_default()
}

/// Returns the strategic merge patch from one status to another: whole keys, but of the conditions only those that
/// differ, and their order.
fn changes(before: &Map<String, Value>, status: Map<String, Value>) -> Map<String, Value> {
    let mut changed = Map::new();
    for (key, value) in status {
        let old = before.get(&key);
        if old == Some(&value) {
            continue;
        }
        let conditions = match value {
            Value::Array(conditions) if key == "conditions" => conditions,
            value => {
                changed.insert(key, value);
                continue;
            }
        };
        let known = old.and_then(Value::as_array);
        let before = |condition: &Value| known.into_iter().flatten().find(|old| old["type"] == condition["type"]);
        let order: Vec<Value> = conditions.iter().map(|condition| json!({"type": condition["type"]})).collect();
        let differ = conditions.into_iter().filter(|condition| before(condition) != Some(condition));
        let differ: Vec<Value> = differ.map(|condition| with_nulls(before(&condition), condition)).collect();
        if !differ.is_empty() {
            changed.insert("$setElementOrder/conditions".to_owned(), order.into());
            changed.insert(key, differ.into());
        }
    }
    changed
}

/// Returns a condition that says of each key that it had before and has no more that it is gone.
fn with_nulls(before: Option<&Value>, mut condition: Value) -> Value {
    for key in before.and_then(Value::as_object).into_iter().flat_map(Map::keys) {
        if condition.get(key).is_none() {
            condition[key] = Value::Null;
        }
    }
    condition
}
