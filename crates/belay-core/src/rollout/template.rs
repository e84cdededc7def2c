//! When two pod templates are the same.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::marks;
use crate::manifest::hex;

/// Labels that controllers add to a template of their own: they tell revisions apart, they don't make them.
const ADDED_BY_CONTROLLERS: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

/// Returns true when two pod templates, both as the API server gives them, make the same pods: equal but for the labels
/// that controllers add, and for fields that are empty in one and absent in the other.
#[must_use]
pub fn same_template(one: &Value, other: &Value) -> bool {
    comparable(one) == comparable(other)
}

/// Returns a template without the labels that controllers add, ready to be applied again.
#[must_use]
pub fn without_controllers_labels(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.retain(|name, _| !ADDED_BY_CONTROLLERS.contains(&name.as_str()));
    }
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !value.is_null());
    }
    template
}

/// Returns a pod template without the time of a restart.
#[must_use]
pub fn without_restart(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(annotations) = template.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(marks::RESTARTED_AT);
    }
    template
}

/// Returns a short name for a template: the same for templates that are the same. 64 bits of SHA-256, in hexadecimal.
#[must_use]
pub fn template_hash(template: &Value) -> String {
    hex(&Sha256::digest(comparable(template).to_string())[..8])
}

fn comparable(template: &Value) -> Value {
    without_empty(&without_controllers_labels(template)).unwrap_or_default()
}

/// Returns the value without nulls, empty lists and empty maps, all the way down; `None` if nothing is left. Keys
/// sorted.
fn without_empty(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(members) => {
            let mut kept: Vec<_> =
                members.iter().filter_map(|(key, value)| Some((key.clone(), without_empty(value)?))).collect();
            kept.sort_by(|(one, _), (other, _)| one.cmp(other));
            (!kept.is_empty()).then(|| kept.into_iter().collect::<Map<_, _>>().into())
        }
        // An item keeps its place even when it is empty: `emptyDir: {}` in a list of volumes is one.
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => Some(items.iter().map(|item| without_empty(item).unwrap_or_default()).collect()),
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_hash_label_and_empty_fields_make_no_difference() {
        let one = json!({"metadata": {"labels": {"app": "web"}, "annotations": {}}, "spec": {"containers": [{"name": "a", "env": []}]}});
        let other = json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "5d7"}, "creationTimestamp": null},
            "spec": {"containers": [{"name": "a"}]}});
        assert!(same_template(&one, &other));
        assert_eq!(template_hash(&one), template_hash(&other));
    }

    #[test]
    fn an_image_makes_a_difference() {
        let image = |image: &str| json!({"spec": {"containers": [{"name": "a", "image": image}]}});
        assert!(!same_template(&image("web:1"), &image("web:2")));
        assert_ne!(template_hash(&image("web:1")), template_hash(&image("web:2")));
    }
}
