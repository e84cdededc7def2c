//! Changes that are expressed as the wanted pod template: one form for the manifest and for the cluster.

use serde_json::{Value, json};

use super::difference::{difference, json_patch};
use super::{Change, TEMPLATED, of};
use crate::cli::worktree::edit_op::{Op, at, pod_spec};
use crate::cluster::{Part, Patch};
use belay_core::manifest::ObjectKey;

/// An edit of an object's pods.
pub(super) trait PodEdit {
    /// Applies the change to the specification of the pods.
    fn make(&self, object: &ObjectKey, spec: &mut Value) -> anyhow::Result<()>;
    /// Returns the result, in kubectl's words: `resource requirements updated`.
    fn done(&self) -> &'static str;
    /// Returns the subject of a commit without the object: `Set resources`.
    fn did(&self) -> String;
}

/// It as a change.
pub(super) struct Pods<W>(pub W);

impl<W: PodEdit> Pods<W> {
    fn of(&self, object: &ObjectKey, value: &Value) -> anyhow::Result<Vec<Op>> {
        let Some(path) = pod_spec(object) else { return Ok(Vec::new()) };
        let before = at(value, &path);
        let mut after = before.clone();
        self.0.make(object, &mut after)?;
        Ok(difference(before, &after, &path))
    }
}

impl<W: PodEdit> Change for Pods<W> {
    fn ops(&self, object: &ObjectKey, value: &Value) -> anyhow::Result<Vec<Op>> {
        self.of(object, value)
    }

    fn patch(&self, object: &ObjectKey, value: &Value) -> anyhow::Result<Option<(Part, Patch)>> {
        let ops = self.of(object, value)?;
        let Some(path) = pod_spec(object).filter(|_| !ops.is_empty()) else { return Ok(None) };
        Ok(Some((Part::Whole, Patch::Json(json_patch(&ops, (&path, at(value, &path)))))))
    }

    fn done(&self) -> &'static str {
        self.0.done()
    }

    fn subject(&self, objects: &[ObjectKey]) -> String {
        format!("{} of {}", self.0.did(), of(objects))
    }

    fn kinds(&self) -> &'static [(&'static str, &'static str)] {
        TEMPLATED
    }
}

/// Does something to each container whose name fits, of those that run and those that begin.
///
/// # Errors
/// Fails when none fits; the error names the existing ones.
pub(super) fn each_container(
    object: &ObjectKey,
    spec: &mut Value,
    pattern: &str,
    mut change: impl FnMut(&mut Value) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // The same names as everywhere: of a whole object.
    let path = pod_spec(object).unwrap_or_default();
    let whole = path.iter().rev().fold(spec.clone(), |inner, step| match step {
        belay_core::manifest::edit::Step::Key(name) => json!({ name.as_str(): inner }),
        belay_core::manifest::edit::Step::Item(_) => inner,
    });
    for container in super::containers::matching(object, &whole, pattern)? {
        let list = spec[container.list].as_array_mut().into_iter().flatten();
        for found in list.filter(|found| found["name"] == container.name) {
            change(found)?;
        }
    }
    Ok(())
}

/// Returns the list of a key, made if there is none.
pub(super) fn list<'v>(value: &'v mut Value, name: &str) -> &'v mut Vec<Value> {
    if !value[name].is_array() {
        value[name] = json!([]);
    }
    value[name].as_array_mut().expect("it is one now")
}

/// Takes a key away that has nothing in it any more.
pub(super) fn without_empty(value: &mut Value, name: &str) {
    let empty = |value: &Value| {
        value.is_null()
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(|map| map.is_empty())
    };
    if value.get(name).is_some_and(empty)
        && let Some(map) = value.as_object_mut()
    {
        map.remove(name);
    }
}
