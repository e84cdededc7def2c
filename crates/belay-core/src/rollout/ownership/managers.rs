//! The owner of a live object's fields, written over to belay.

use serde_json::{Value, json};

/// The way in which an object is taken over from `kubectl apply`, or from a person who has created it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// True when fields stay behind in the pod template, so that taking over is a rollout.
    pub in_template: bool,
    /// True when fields stay behind at all.
    pub leaves_fields: bool,
    /// The JSON patch that makes the fields belay's alone. It fails if the object has changed meanwhile.
    pub patch: Value,
}

/// Returns the JSON patch that gives an object these managers. It fails if the object has changed meanwhile.
pub(in crate::rollout) fn with_managers(live: &Value, managers: Vec<Value>) -> Value {
    json!([unchanged(live), {"op": "replace", "path": "/metadata/managedFields", "value": managers}])
}

/// Returns the operation of a JSON patch for which the server answers 409 if the object has changed since `live` was
/// read.
#[must_use]
pub fn unchanged(live: &Value) -> Value {
    json!({"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]})
}

/// Takes out the fields without any in them, each of which would be one of its own.
pub(in crate::rollout) fn drop_empty(fields: Option<&mut Value>) {
    if let Some(fields) = fields.and_then(Value::as_object_mut) {
        fields.retain(|_, inner| inner.as_object().is_none_or(|inner| !inner.is_empty()));
    }
}
