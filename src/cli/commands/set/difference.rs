//! The difference between two values: the fewest changes, for the text of a manifest and for the cluster.

use serde_json::{Value, json};

use crate::cli::worktree::edit_op::{Op, key};
use belay_core::manifest::edit::{New, Step};

/// Returns the changes that lead from `before` to `after`, both at `path`. Items of lists are matched by their key as
/// in Kubernetes, and keep their order; new ones come last.
pub(super) fn difference(before: &Value, after: &Value, path: &[Step]) -> Vec<Op> {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let mut ops = Vec::new();
            for (name, value) in new {
                match old.get(name) {
                    Some(there) if there == value => {}
                    Some(there) if same_shape(there, value) => {
                        ops.extend(difference(there, value, &below(path, key(name))))
                    }
                    there => {
                        if there.is_some() {
                            ops.push(Op::RemoveEntry(path.to_vec(), name.clone()));
                        }
                        ops.push(Op::AddEntry(path.to_vec(), name.clone(), new_of(value)));
                    }
                }
            }
            let gone = old.keys().filter(|name| !new.contains_key(*name));
            ops.extend(gone.map(|name| Op::RemoveEntry(path.to_vec(), name.clone())));
            ops
        }
        (Value::Array(old), Value::Array(new)) => of_lists(old, new, path),
        (old, new) if old == new => Vec::new(),
        (_, new) => vec![Op::Set(path.to_vec(), new_of(new))],
    }
}

fn of_lists(old: &[Value], new: &[Value], path: &[Step]) -> Vec<Op> {
    let mut ops = Vec::new();
    for (at, item) in old.iter().enumerate() {
        if let Some(value) = new.iter().find(|value| identity(value) == identity(item)) {
            ops.extend(difference(item, value, &below(path, Step::Item(at))));
        }
    }
    let added = new.iter().filter(|value| !old.iter().any(|item| identity(item) == identity(value)));
    ops.extend(added.map(|value| Op::AddItem(path.to_vec(), new_of(value))));
    // From the end, so that the places of the others stay.
    for (at, item) in old.iter().enumerate().rev() {
        if !new.iter().any(|value| identity(value) == identity(item)) {
            ops.push(Op::RemoveItem(path.to_vec(), at));
        }
    }
    ops
}

/// Returns the key by which Kubernetes matches the items of a pod's lists.
fn identity(item: &Value) -> Value {
    if item.get("mountPath").is_some() {
        return item["mountPath"].clone();
    }
    if item.get("containerPort").is_some() {
        return json!([item["containerPort"], item.get("protocol").unwrap_or(&json!("TCP"))]);
    }
    item.get("name").unwrap_or(item).clone()
}

/// Returns true when one can be made of the other by smaller changes.
fn same_shape(one: &Value, other: &Value) -> bool {
    let single = |value: &Value| !value.is_object() && !value.is_array() && !value.is_null();
    one.is_object() && other.is_object() || one.is_array() && other.is_array() || single(one) && single(other)
}

fn below(path: &[Step], step: Step) -> Vec<Step> {
    path.iter().cloned().chain([step]).collect()
}

/// Returns a value as it is written: the name of a thing first.
fn new_of(value: &Value) -> New {
    match value {
        Value::Object(entries) => {
            let mut entries: Vec<(String, New)> =
                entries.iter().map(|(name, value)| (name.clone(), new_of(value))).collect();
            entries.sort_by_key(|(name, _)| name != "name");
            New::Mapping(entries)
        }
        Value::Array(items) => New::List(items.iter().map(new_of).collect()),
        Value::Bool(value) => New::Boolean(*value),
        Value::Number(number) if number.is_i64() => New::Integer(number.as_i64().unwrap_or_default()),
        Value::String(text) => New::Text(text.clone()),
        other => New::Text(other.to_string()),
    }
}

/// Returns the same changes as operations of a JSON patch, done only if the values that they were made for are still
/// there.
pub(super) fn json_patch(ops: &[Op], guard: (&[Step], &Value)) -> Vec<Value> {
    let test = json!({"op": "test", "path": pointer(guard.0), "value": guard.1});
    let operation = |op: &Op| match op {
        Op::Set(path, new) => json!({"op": "replace", "path": pointer(path), "value": new.to_value()}),
        Op::AddEntry(path, name, new) => {
            json!({"op": "add", "path": pointer(&below(path, key(name))), "value": new.to_value()})
        }
        Op::AddItem(path, new) => json!({"op": "add", "path": pointer(path) + "/-", "value": new.to_value()}),
        Op::RemoveEntry(path, name) => json!({"op": "remove", "path": pointer(&below(path, key(name)))}),
        Op::RemoveItem(path, at) => json!({"op": "remove", "path": pointer(&below(path, Step::Item(*at)))}),
    };
    std::iter::once(test).chain(ops.iter().map(operation)).collect()
}

/// Returns a path as RFC 6901 writes it.
fn pointer(path: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Key(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        Step::Item(at) => format!("/{at}"),
    };
    path.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_changes_are_found() {
        let before = json!({"a": 1, "gone": true, "list": [{"name": "x", "v": 1}, {"name": "y"}], "m": {"k": "v"}});
        let after = json!({"a": 2, "list": [{"name": "x", "v": 2}, {"name": "z"}], "m": {"k": "v"}, "new": {"b": 1}});
        let root = [key("spec")];
        let patch = json_patch(&difference(&before, &after, &root), (&root, &before));
        let expected = json!([
            {"op": "test", "path": "/spec", "value": before},
            {"op": "replace", "path": "/spec/a", "value": 2},
            {"op": "replace", "path": "/spec/list/0/v", "value": 2},
            {"op": "add", "path": "/spec/list/-", "value": {"name": "z"}},
            {"op": "remove", "path": "/spec/list/1"},
            {"op": "add", "path": "/spec/new", "value": {"b": 1}},
            {"op": "remove", "path": "/spec/gone"},
        ]);
        assert_eq!(Value::from(patch), expected);
        assert_eq!(difference(&before, &before, &root), []);
        let odd = difference(&json!({"x": null}), &json!({"x": {"a": 1}}), &[]);
        assert_eq!(odd.len(), 2, "{odd:?}");
        assert_eq!(pointer(&[key("a/b~c")]), "/a~1b~0c");
    }
}
