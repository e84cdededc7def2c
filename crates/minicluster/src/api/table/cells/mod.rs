//! The cells of the built-in kinds.

mod cluster;
mod core;
mod networking;
mod pods;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::duration::ago;
use crate::api::convert::to_storage;
use crate::api::resource::Resource;

pub(super) use pods::pod_condition;

/// The text of empty cells.
const NONE: &str = "<none>";

/// The text of cells without a value that should be there.
const UNSET: &str = "<unset>";

/// Returns the cells of an object, in the order of its kind's columns.
pub(super) fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    // A row shows the stored object, regardless of the requested version.
    let object = &to_storage(resource, object.clone());
    let row = Row { object, now };
    let definition = &resource.definition;
    let cells = match (definition.group.as_str(), definition.resource.as_str()) {
        ("", kind) => core::cells(&row, kind),
        ("apps" | "batch" | "autoscaling" | "policy", kind) => workloads::cells(&row, kind),
        ("networking.k8s.io" | "discovery.k8s.io", kind) => networking::cells(&row, kind),
        ("storage.k8s.io", kind) => storage::cells(&row, kind),
        ("events.k8s.io", _) => Some(core::event(&row)),
        (_, kind) => cluster::cells(&row, kind),
    };
    cells.unwrap_or_else(|| vec![row.name(), row.age()])
}

/// An object to be shown.
struct Row<'a> {
    object: &'a Value,
    now: Timestamp,
}

impl<'a> Row<'a> {
    /// Returns the value at a pointer, null if there is none.
    fn at(&self, pointer: &str) -> &'a Value {
        self.object.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// Returns the text at a pointer, empty if there is none.
    fn text(&self, pointer: &str) -> &'a str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    /// Returns the text at a pointer, or else another.
    fn text_or(&self, pointer: &str, otherwise: &'a str) -> &'a str {
        Some(self.text(pointer)).filter(|text| !text.is_empty()).unwrap_or(otherwise)
    }

    fn number(&self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or_default()
    }

    fn list(&self, pointer: &str) -> &'a [Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns how many items or members there are.
    fn count(&self, pointer: &str) -> usize {
        match self.at(pointer) {
            Value::Array(items) => items.len(),
            Value::Object(members) => members.len(),
            _ => 0,
        }
    }

    fn name(&self) -> Value {
        json!(self.text("/metadata/name"))
    }

    fn age(&self) -> Value {
        json!(ago(self.at("/metadata/creationTimestamp").as_str(), self.now))
    }

    /// Returns how long ago the moment at a pointer was.
    fn ago(&self, pointer: &str) -> String {
        ago(self.at(pointer).as_str(), self.now)
    }

    /// Returns the moment of creation itself.
    fn created(&self) -> Value {
        self.at("/metadata/creationTimestamp").clone()
    }
}

/// Returns the texts of a field of each item, with commas.
fn joined(items: &[Value], field: &str) -> String {
    items.iter().map(|item| item[field].as_str().unwrap_or_default()).collect::<Vec<_>>().join(",")
}

/// Labels as `a=b,c=d`.
fn labels(labels: &Value) -> String {
    let members = labels.as_object().filter(|members| !members.is_empty());
    let Some(members) = members else { return NONE.to_owned() };
    members
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect::<Vec<_>>()
        .join(",")
}

/// Returns a selector of an object as text.
fn selector(value: &Value) -> String {
    match kube_rules::LabelSelector::from_object(value) {
        Some(selector) if !selector.is_empty() => selector.to_string(),
        _ => NONE.to_owned(),
    }
}

/// Returns a value as text; empty if there is none.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
