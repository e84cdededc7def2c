//! Objects whose size is written through their scale.

use serde_json::Value;

use super::apply;
use super::canonical::EmptyLists;
use super::value_ext::ValueExt;
use super::write::{changed, complete};
use super::{ApiError, Read, WriteContext};

/// Returns an object after the size that a scale asks for was put into it. `change` makes the scale that is written of
/// the one that is there, `scale`; `put` puts its size into the object, where `path` is the way to it. Equal to `old`
/// where nothing changes.
///
/// The scale has managed fields of its own while it is written, and they are put back afterwards.
///
/// # Errors
/// Fails with the refusals of `change` and `put`; 422 with all causes.
pub fn rescale(
    write: &WriteContext<'_>,
    old: &Value,
    path: &[String],
    scale: Value,
    change: impl FnOnce(&Value) -> Result<Value, ApiError>,
    put: impl FnOnce(&Value) -> Result<Value, ApiError>,
) -> Result<Read, ApiError> {
    let mut before = scale;
    let owners = apply::of_scale(write.definition, old, path);
    if !owners.is_empty() {
        before["metadata"]["managedFields"] = Value::Array(owners);
    }
    let after = change(&before)?;
    let mut object = put(&after)?;
    apply::put_scale_back(write.definition, &mut object, after["metadata"].list("managedFields"), path);
    complete(write.definition, &mut object, EmptyLists::Stay);
    changed(write, old, object, Vec::new())
}

/// Returns a scale after `sent` was written over `before`, with who owns it.
pub fn written(write: &WriteContext<'_>, before: &Value, sent: Value) -> Value {
    let mut scale = sent;
    apply::track_update(write, Some(before), &mut scale);
    scale
}

/// Returns a scale after `sent` was applied to `before`, with who owns it.
///
/// # Errors
/// As [`super::apply`].
pub fn applied(write: &WriteContext<'_>, before: &Value, sent: &Value, force: bool) -> Result<Value, ApiError> {
    apply::apply(write, Some(before), sent, force)
}
