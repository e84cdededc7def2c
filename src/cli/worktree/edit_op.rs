//! One change in the text of a manifest.

use serde_json::Value;

use belay_core::manifest::ObjectKey;
use belay_core::manifest::edit::{New, Step};
use belay_core::rollout::pod_spec_path;

/// One change in the text of a manifest; paths begin at the object.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) enum Op {
    /// Another single value.
    Set(Vec<Step>, New),
    /// One more key.
    AddEntry(Vec<Step>, String, New),
    /// One more item.
    AddItem(Vec<Step>, New),
    /// One key less.
    RemoveEntry(Vec<Step>, String),
    /// One item less.
    RemoveItem(Vec<Step>, usize),
}

/// Returns a step of a path that is a key.
pub(in crate::cli) fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}

/// Returns the path of the pods' specification in an object.
pub(in crate::cli) fn pod_spec(object: &ObjectKey) -> Option<Vec<Step>> {
    Some(pod_spec_path(&object.group, &object.kind)?.iter().map(|name| key(name)).collect())
}

/// Returns the value at a path of keys and items.
pub(in crate::cli) fn at<'v>(value: &'v Value, path: &[Step]) -> &'v Value {
    path.iter().fold(value, |value, step| match step {
        Step::Key(name) => &value[name.as_str()],
        Step::Item(index) => &value[*index],
    })
}
