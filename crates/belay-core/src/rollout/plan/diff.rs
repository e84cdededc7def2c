//! The differences inside one object, for people: values of Secrets masked, the server's bookkeeping left out.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::rollout::marks;

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// The path, `spec.template.spec.containers[0].image`.
    pub path: String,
    /// The value before; `None` if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value after; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Returns an object as people compare it: without status and the server's counts and records, secrets masked.
#[must_use]
pub fn presentable(object: &Value) -> Value {
    let mut shown = without_bookkeeping(object);
    mask(&mut shown, &Value::Null);
    shown
}

/// Returns two objects as people compare them. A masked value that differs is marked on both sides, so that the
/// difference shows and the value does not.
#[must_use]
pub fn presentable_pair(before: &Value, after: &Value) -> (Value, Value) {
    let (before, after) = (without_bookkeeping(before), without_bookkeeping(after));
    let (mut shown_before, mut shown_after) = (before.clone(), after.clone());
    mask(&mut shown_before, &after);
    mask(&mut shown_after, &before);
    for (shown, which) in [(&mut shown_before, "before"), (&mut shown_after, "after")] {
        name_sides(shown, which);
    }
    (shown_before, shown_after)
}

/// Returns the fields in which two objects differ, in order of their paths.
#[must_use]
pub fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let (before, after) = presentable_pair(before, after);
    let mut found = Vec::new();
    compare(&before, &after, String::new(), &mut found);
    found
}

/// Returns true when a write would change anything that people or controllers could tell: all but the server's
/// bookkeeping.
#[must_use]
pub fn differs(before: &Value, after: &Value) -> bool {
    without_bookkeeping(before) != without_bookkeeping(after)
}

fn without_bookkeeping(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"] {
            metadata.remove(field);
        }
    }
    object
}

const MASK: &str = "*** ";
const CHANGED: &str = "*** (changed)";
const UNCHANGED: &str = "***";

/// Masks values that may be secret, saying only if they differ from `other`.
fn mask(object: &mut Value, other: &Value) {
    const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    if object["kind"] != "Secret" || object["apiVersion"] != "v1" {
        return;
    }
    for field in ["data", "stringData"] {
        let Some(values) = object.get_mut(field).and_then(Value::as_object_mut) else { continue };
        for (key, value) in values.iter_mut() {
            let same = other.get(field).and_then(|values| values.get(key)) == Some(value) || other.is_null();
            *value = json!(if same { UNCHANGED } else { CHANGED });
        }
    }
    if let Some(text) =
        object.pointer_mut("/metadata/annotations").and_then(|annotations| annotations.get_mut(LAST_APPLIED))
    {
        *text = json!(UNCHANGED);
    }
}

fn name_sides(object: &mut Value, which: &str) {
    if object["kind"] != "Secret" {
        return;
    }
    for field in ["data", "stringData"] {
        for (_, value) in object.get_mut(field).and_then(Value::as_object_mut).into_iter().flatten() {
            if *value == CHANGED {
                *value = json!(format!("{MASK}({which})"));
            }
        }
    }
}

fn compare(before: &Value, after: &Value, path: String, found: &mut Vec<Change>) {
    match (before, after) {
        _ if before == after => {}
        (Value::Object(one), Value::Object(other)) => compare_maps(one, other, &path, found),
        (Value::Array(one), Value::Array(other)) => {
            for index in 0..one.len().max(other.len()) {
                let path = format!("{path}[{index}]");
                match (one.get(index), other.get(index)) {
                    (Some(before), Some(after)) => compare(before, after, path, found),
                    (before, after) => found.push(Change { path, before: before.cloned(), after: after.cloned() }),
                }
            }
        }
        _ => found.push(Change { path, before: Some(before.clone()), after: Some(after.clone()) }),
    }
}

fn compare_maps(one: &Map<String, Value>, other: &Map<String, Value>, path: &str, found: &mut Vec<Change>) {
    let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    for name in names {
        let path = join(path, name);
        match (one.get(name), other.get(name)) {
            (Some(before), Some(after)) => compare(before, after, path, found),
            (before, after) => found.push(Change { path, before: before.cloned(), after: after.cloned() }),
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if name.contains(['.', '/']) {
        format!("{path}[{name}]")
    } else if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Returns true when only belay's own bookkeeping differs: its label and annotations. Shown in plans, so that a first
/// take-over does not look like a change of the workload.
#[must_use]
pub fn only_marks(changes: &[Change]) -> bool {
    let own = [marks::SOURCE, marks::COMMIT, marks::HOLD, marks::CHANGE_CAUSE];
    !changes.is_empty()
        && changes.iter().all(|change| match change.path.as_str() {
            "metadata.labels" | "metadata.annotations" => {
                let names = |side: &Option<Value>| {
                    side.as_ref()
                        .and_then(Value::as_object)
                        .map(|map| map.keys().cloned().collect::<Vec<_>>())
                        .unwrap_or_default()
                };
                names(&change.before).iter().chain(&names(&change.after)).all(|name| own.contains(&name.as_str()))
            }
            path => own.iter().any(|mark| path.ends_with(&format!("[{mark}]"))),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_show_that_they_differ_and_never_what_they_are() {
        let secret = |a: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": a}}, "data": {"a": a, "b": "c2FtZQ=="}})
        };
        let (before, after) = (secret("b2xk"), secret("bmV3"));
        let found = changes(&before, &after);
        assert_eq!(
            found,
            [Change {
                path: "data.a".to_owned(),
                before: Some(json!("*** (before)")),
                after: Some(json!("*** (after)"))
            }]
        );
        let (before, after) = presentable_pair(&before, &after);
        let text = format!("{before}{after}{}", presentable(&secret("b2xk")));
        for value in ["b2xk", "bmV3", "c2FtZQ"] {
            assert!(!text.contains(value), "{text}");
        }
    }

    #[test]
    fn paths_lead_to_what_differs() {
        let deployment = |image: &str| {
            json!({"kind": "Deployment", "metadata": {"generation": 1, "annotations": {"a/b.c": image}},
            "spec": {"containers": [{"image": image}]}, "status": {"replicas": image}})
        };
        let paths: Vec<String> =
            changes(&deployment("1"), &deployment("2")).into_iter().map(|change| change.path).collect();
        assert_eq!(paths, ["metadata.annotations[a/b.c]", "spec.containers[0].image"]);
        assert!(differs(&deployment("1"), &deployment("2")));
        let mut counted = deployment("1");
        counted["metadata"]["generation"] = json!(9);
        assert!(!differs(&deployment("1"), &counted));
    }

    #[test]
    fn a_take_over_is_told_from_a_change() {
        let before = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1}});
        let after = json!({"metadata": {"name": "web", "labels": {marks::SOURCE: "shop"}}, "spec": {"replicas": 1}});
        assert!(only_marks(&changes(&before, &after)));
        let after = json!({"metadata": {"name": "web", "labels": {marks::SOURCE: "shop", "team": "a"}}, "spec": {"replicas": 1}});
        assert!(!only_marks(&changes(&before, &after)));
    }
}
