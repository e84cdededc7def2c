//! The ownership of an object's fields, and server-side apply, which is built on that.

mod check;
mod compare;
mod field_set;
mod items;
mod last_applied;
mod managers;
mod merge;
mod own;
mod remove;
mod reset;
mod scaled;
mod shape;
mod update;
mod writer;

use serde_json::{Map, Value, json};

use super::read::api_version;
use super::value_ext::{ValueExt, entries_of};
use super::{WriteContext, canonical};
use crate::api_error::ApiError;
use kube_facts::Type;
use managers::{MOST_UPDATERS, ManagerOperation, Managers, put_managed, take_managed};
use update::Conflict;
use writer::{manager, touch};

pub use check::lacks_keys;
pub use scaled::{of_scale, put_back as put_scale_back};

/// Brings `managedFields` of `new` up to date with its changes of `live`; `live` is nothing for a new object. Trouble
/// with them never refuses a write: the object then goes without.
pub fn track_update(write: &WriteContext<'_>, live: Option<&Value>, new: &mut Value) {
    match live.filter(|live| leaves_managed(write, live, new)) {
        Some(live) => track_in_place(write, live, new),
        None => track_anew(write, live, new),
    }
}

/// Returns true when a write leaves it to the server to say who owns the fields of an object with known owners.
fn leaves_managed(write: &WriteContext<'_>, live: &Value, new: &Value) -> bool {
    let stored = live["metadata"].list("managedFields");
    let sent = new["metadata"].get("managedFields");
    // Fields that were written in another version must be seen in that; if there are too many entries, or two of one
    // manager, some become one.
    let simple = write.definition.custom.is_none()
        && (1..MOST_UPDATERS).contains(&stored.len())
        && managers::are_distinct(stored);
    simple
        && (write.subresource.is_some() || sent.is_none_or(|sent| sent.as_array().is_some_and(|sent| sent == stored)))
}

/// Most writes change little, and most managers keep all they own.
fn track_in_place(write: &WriteContext<'_>, live: &Value, new: &mut Value) {
    let ty = &write.definition.schema;
    let stored = &live["metadata"]["managedFields"];
    if new["metadata"].get("managedFields") != Some(stored) {
        new["metadata"]["managedFields"] = stored.clone();
    }
    // They are the same in both, so that they are not among the differences.
    let changed = update::changed(live, new, ty, write);
    let Some(Value::Array(entries)) = take_managed(new) else { return };
    if check::lacks_keys(new, ty) {
        return;
    }
    if let Ok(entries) = update::update_entries(entries, changed, write) {
        put_managed(new, entries);
    }
}

fn track_anew(write: &WriteContext<'_>, live: Option<&Value>, new: &mut Value) {
    let sent = take_managed(new);
    let managers = known(write, live, sent.as_ref());
    let Some(mut managers) = managers.filter(|managers| live.is_none() || !managers.0.is_empty()) else { return };
    let ty = &write.definition.schema;
    let before = live.map_or_else(|| nothing(write, ty), without_managed);
    if check::lacks_keys(new, ty) {
        return;
    }
    if update::update(&mut managers, &before, new, ty, write).is_err() {
        return;
    }
    managers.cap();
    put_managed(new, managers.write());
}

/// Lays an applied object over `live`, with the owners of the fields.
///
/// # Errors
/// 400 for an object of another version or with managed fields of its own, 409 for conflicts, 500 where it does not fit
/// its type, all as the real server words them.
pub fn apply(write: &WriteContext<'_>, live: Option<&Value>, applied: &Value, force: bool) -> Result<Value, ApiError> {
    check_header(write, applied)?;
    let managed = live.map(|live| live["metadata"].list("managedFields")).unwrap_or_default();
    let mut managers = Managers::read(managed)
        .map_err(|error| ApiError::new(500, "", format!("failed to decode managed fields: {error}")))?;
    let ty = &write.definition.schema;
    let empty = nothing(write, ty);
    let before = live.map_or_else(|| empty.clone(), without_managed);
    if managers.0.is_empty() {
        let misfits = check::misfits(&before, ty);
        let without: Vec<String> = misfits.into_iter().filter(|misfit| misfit.contains(items::WITHOUT_KEYS)).collect();
        if !without.is_empty() {
            let message = format!(
                "failed to create manager for existing fields: failed to convert new object ({}) to smd typed: {}",
                named(write, &before),
                check::in_one(&without)
            );
            return Err(ApiError::new(500, "", message));
        }
        update::before_first_apply(&mut managers, &empty, &before, ty, write);
    }
    if applied["metadata"].get("managedFields").is_some_and(|managed| !managed.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let misfits = check::misfits(applied, ty);
    if !misfits.is_empty() {
        let message =
            format!("failed to create typed patch object ({}): {}", named(write, applied), check::in_one(&misfits));
        return Err(ApiError::new(500, "", message));
    }
    let mut result = update::apply(managers.clone(), &before, applied, ty, write, force);
    if let (Err(conflicts), Some(live), last_applied::KUBECTL) = (&mut result, live, write.manager) {
        last_applied::forgive(live, conflicts, write, ty);
        if conflicts.is_empty() {
            result = update::apply(managers.clone(), &before, applied, ty, write, true);
        }
    }
    let (merged, after) = result.map_err(|conflicts| conflict_error(&conflicts))?;
    let changed = merged != before;
    let mut object = if changed { typed(write, applied, merged)? } else { before };
    let mut after = after;
    let self_manager = manager(write, ManagerOperation::Apply);
    // A manager that only comes to own existing values has not changed anything at any time.
    if changed {
        touch(&mut after, &self_manager, write);
    }
    put_managed(&mut object, after.write());
    if write.manager == last_applied::KUBECTL && live.is_some_and(last_applied::is_on) {
        last_applied::renew(&mut object, applied);
    }
    Ok(object)
}

/// Returns the managers that an update starts from: those that the client sent, else those that are stored.
fn known(write: &WriteContext<'_>, live: Option<&Value>, sent: Option<&Value>) -> Option<Managers> {
    let stored = || {
        let stored = live.map(|live| live["metadata"].list("managedFields")).unwrap_or_default();
        Managers::read(stored).unwrap_or_default()
    };
    if write.subresource.is_some() {
        return Some(stored());
    }
    if managers::is_reset(sent) {
        return Some(Managers::default());
    }
    let sent = sent.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    match Managers::read(sent) {
        Ok(managers) if !managers.0.is_empty() => Some(managers),
        _ => Some(stored()),
    }
}

/// Returns an object of the kind in which nothing was ever set.
fn nothing(write: &WriteContext<'_>, ty: &Type) -> Value {
    if write.definition.custom.is_some() {
        return json!({ "apiVersion": api_version(write.definition), "kind": write.definition.kind });
    }
    let mut empty = canonical::zero(ty);
    empty["apiVersion"] = json!(api_version(write.definition));
    empty["kind"] = json!(write.definition.kind);
    empty
}

/// Returns a copy without managed fields, which are often most of an object.
fn without_managed(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let copy = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = unmanaged(metadata).map(|(name, value)| (name.clone(), value.clone()));
            (name.clone(), kept.collect())
        }
        value => (name.clone(), value.clone()),
    };
    fields.iter().map(copy).collect()
}

fn unmanaged(metadata: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    metadata.iter().filter(|(name, _)| *name != "managedFields")
}

fn check_header(write: &WriteContext<'_>, applied: &Value) -> Result<(), ApiError> {
    let (said, kind) = (applied.text("apiVersion"), applied.text("kind"));
    if said == api_version(write.definition) && kind == write.definition.kind {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("invalid object type: {}", gvk(said, kind))))
}

/// Returns `apps/v1, Kind=Deployment`
fn gvk(api_version: &str, kind: &str) -> String {
    match api_version.split_once('/') {
        Some(_) => format!("{api_version}, Kind={kind}"),
        None => format!("/{api_version}, Kind={kind}"),
    }
}

/// Returns `default/web; apps/v1, Kind=Deployment`
fn named(write: &WriteContext<'_>, applied: &Value) -> String {
    let metadata = &applied["metadata"];
    let kind = gvk(&api_version(write.definition), &write.definition.kind);
    format!("{}/{}; {kind}", metadata.text("namespace"), metadata.text("name"))
}

/// Returns a merged object as the kind's own type.
fn typed(write: &WriteContext<'_>, applied: &Value, merged: Value) -> Result<Value, ApiError> {
    if write.definition.custom.is_some() {
        return Ok(merged);
    }
    super::read::convert(write.definition, merged).map_err(|error| {
        let kind = gvk(&api_version(write.definition), &write.definition.kind);
        let decoding = if error.starts_with("illegal base64") { "error decoding from json: " } else { "" };
        let message = format!(
            "failed to convert new object ({}) to proper version: unable to convert unstructured object to {kind}: {decoding}{error}",
            named(write, applied)
        );
        ApiError::new(500, "", message)
    })
}

fn conflict_error(conflicts: &[Conflict]) -> ApiError {
    let message = match conflicts {
        [one] => format!("Apply failed with 1 conflict: conflict with {}: {}", one.manager, one.path),
        several => {
            let mut by_manager: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
            for conflict in several {
                by_manager.entry(&conflict.manager).or_default().push(&conflict.path);
            }
            let lines = by_manager.iter().flat_map(|(manager, paths)| {
                let paths = paths.iter().map(|path| format!("- {path}"));
                std::iter::once(format!("conflicts with {manager}:")).chain(paths)
            });
            let lines: Vec<String> = lines.collect();
            format!("Apply failed with {} conflicts: {}", several.len(), lines.join("\n"))
        }
    };
    let cause = |conflict: &Conflict| crate::api_error::Cause {
        reason: "FieldManagerConflict",
        message: format!("conflict with {}", conflict.manager),
        field: Some(conflict.path.clone()),
    };
    ApiError { causes: conflicts.iter().map(cause).collect(), ..ApiError::new(409, "Conflict", message) }
}

/// Returns true when two objects differ only in the times of managers' last writes.
pub fn same_but_times(one: &Value, other: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut entries = object["metadata"].list("managedFields").to_vec();
        for entry in &mut entries {
            if let Value::Object(entry) = entry {
                entry.remove("time");
            }
        }
        entries.sort_by_key(Value::to_string);
        entries
    };
    // Most writes differ there already.
    same_outside(&[], one, other) && timeless(one) == timeless(other)
}

/// Returns true when two objects differ only in status and managed fields.
pub fn same_but_status(one: &Value, other: &Value) -> bool {
    same_outside(&["status"], one, other)
}

/// Returns true when two objects differ only in some fields and managed fields.
fn same_outside(fields: &[&str], one: &Value, other: &Value) -> bool {
    let rest = |(name, _): &(&String, &Value)| *name != "metadata" && !fields.contains(&name.as_str());
    let (left, right) = (entries_of(Some(one)).iter().filter(rest), entries_of(Some(other)).iter().filter(rest));
    let same_metadata = match (one.get("metadata"), other.get("metadata")) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => unmanaged(one).eq(unmanaged(other)),
        (one, other) => one == other,
    };
    same_metadata && left.eq(right)
}
