//! The parameters that operations take, and the names that operations go by.

use serde_json::{Value, json};

/// Parameters of lists and watches.
pub(super) const LIST: [(&str, &str); 11] = [
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];

/// Parameters of the deletion of an object.
pub(super) const DELETE: [(&str, &str); 5] = [
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

/// Parameters of creations and updates.
pub(super) const WRITE: [(&str, &str); 3] =
    [("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];

/// Parameters in the query, sorted by name.
pub(super) fn queries(parameters: &[(&str, &str)]) -> Vec<Value> {
    let mut sorted = parameters.to_vec();
    sorted.sort_unstable();
    sorted.into_iter().map(|(name, ty)| query(name, ty)).collect()
}

/// Returns one parameter in the query.
pub(super) fn query(name: &str, ty: &str) -> Value {
    json!({ "name": name, "in": "query", "schema": { "type": ty, "uniqueItems": true } })
}

/// Returns one parameter in the path.
pub(super) fn in_path(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "uniqueItems": true } })
}

/// Parameters of both places, sorted by name.
pub(super) fn sorted(mut parameters: Vec<Value>) -> Vec<Value> {
    parameters.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    parameters
}

/// Returns a group as operations name it: `RbacAuthorization`, `Core`.
pub(super) fn group_name(group: &str) -> String {
    if group.is_empty() {
        return "Core".to_owned();
    }
    let short = group.strip_suffix(".k8s.io").unwrap_or(group);
    short.split(['.', '-']).map(capital).collect()
}

/// Returns a group as tags name it: `rbacAuthorization`, `core`.
pub(super) fn tag(group: &str) -> String {
    let name = group_name(group);
    let mut letters = name.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Returns a text with a capital letter at the beginning.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
