//! Coming from `kubectl apply`: its annotation holds the applied object, so `kubectl apply --server-side` may take that
//! over.

use serde_json::{Value, json};

use super::super::WriteContext;
use super::super::read::api_version;
use super::super::value_ext::{ValueExt, remove};
use super::check;
use super::compare::compare;
use super::own;
use super::update::Conflict;
use kube_facts::Type;

/// The manager of `kubectl apply --server-side`.
pub const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// So much may all annotations be together.
const MOST_BYTES: usize = 256 * 1024;

/// Returns true when an object was applied on the client's side.
pub fn is_on(live: &Value) -> bool {
    !live["metadata"]["annotations"].text(ANNOTATION).is_empty()
}

/// Removes the conflicts about fields that were applied on the client's side and are still as they were: fields that
/// others have changed since are theirs.
pub fn forgive(live: &Value, conflicts: &mut Vec<Conflict>, write: &WriteContext<'_>, ty: &Type) {
    let text = live["metadata"]["annotations"].text(ANNOTATION);
    let Ok(last) = serde_json::from_str::<Value>(text) else { return };
    let same_version = last.text("apiVersion") == api_version(write.definition);
    if same_version && check::misfits(&last, ty).is_empty() {
        let mut applied = own::fields(&last, ty);
        let since = compare(&last, live, ty);
        [&since.modified, &since.added, &since.removed].into_iter().for_each(|changed| applied.subtract(changed));
        let paths = applied.paths();
        conflicts.retain(|conflict| !paths.contains(&conflict.path));
    }
}

/// Brings the annotation up to date with the applied object.
pub fn renew(object: &mut Value, applied: &Value) {
    let mut applied = applied.clone();
    if let Some(metadata) = applied["metadata"].as_object_mut() {
        {
            let name = "managedFields";
            metadata.remove(name);
        }
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(ANNOTATION);
        }
    }
    let text = format!("{applied}\n");
    let annotations = &mut object["metadata"]["annotations"];
    annotations[ANNOTATION] = json!(text);
    let size = |(key, value): (&String, &Value)| key.len() + value.as_str().unwrap_or_default().len();
    if annotations.as_object().into_iter().flatten().map(size).sum::<usize>() > MOST_BYTES {
        remove(annotations, ANNOTATION);
    }
}
