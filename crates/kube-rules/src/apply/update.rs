//! The changes of ownership: changed fields are the writer's, removed fields are nobody's, and applied fields are owned
//! by everyone who applies them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::read::api_version;
use super::super::{Custom, WriteContext, shape};
use super::check::misfits;
use super::compare::{Comparison, compare};
use super::field_set::FieldSet;
use super::managers::{self, Manager, ManagerOperation, Managers, Owned};
use super::merge::merge;
use super::remove::without;
use super::writer::{manager, owner_of_nothing, touch};
use super::{own, reset};
use kube_facts::Type;

/// A field that somebody else owns with another value.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The manager, as errors name it.
    pub manager: String,
    /// The field, `.spec.replicas`.
    pub path: String,
}

/// An object that does not fit a version in which somebody owns fields of it: the owners are unknown then.
#[derive(Debug)]
pub struct Misfit;

/// Records a write that is no apply.
///
/// # Errors
/// If the object, before or after, does not fit its type in the version of the write or of a manager. It happens only
/// to custom kinds, whose definition changes.
pub fn update(
    managers: &mut Managers,
    before: &Value,
    after: &Value,
    ty: &Type,
    write: &WriteContext<'_>,
) -> Result<(), Misfit> {
    let writer = manager(write, ManagerOperation::Update);
    if let Some(custom) = &write.definition.custom {
        fits([before, after], ty)?;
        take_away_elsewhere(managers, before, after, custom, write)?;
    }
    record(managers, writer, changed(before, after, ty, write), write);
    Ok(())
}

/// Returns the changes of a write to the fields that it reaches.
pub fn changed(before: &Value, after: &Value, ty: &Type, write: &WriteContext<'_>) -> Comparison {
    compare(before, after, ty).outside(reset::fields(write))
}

/// Records a write that is no apply in `managedFields`, of which only those are read to whom it matters.
///
/// # Errors
/// For entries that are not as the server writes them.
pub fn update_entries(
    entries: Vec<Value>,
    changed: Comparison,
    write: &WriteContext<'_>,
) -> Result<Vec<Value>, String> {
    if changed.is_empty() {
        return Ok(entries);
    }
    let writer = manager(write, ManagerOperation::Update);
    if changes_own_fields(&entries, &writer, &changed) {
        return Ok(managers::renewed(entries, &writer, write.now));
    }
    let matters = |entry: &Value| writer.has(entry) || changed.meets(&entry["fieldsV1"]);
    let (touched, others): (Vec<Value>, Vec<Value>) = entries.into_iter().partition(matters);
    let mut managers = Managers::read(&touched)?;
    record(&mut managers, writer, changed, write);
    Ok(managers.write_beside(others))
}

/// Returns true when all changes of a write are to fields that are the writer's already, and nobody else's: most writes
/// of a status.
fn changes_own_fields(entries: &[Value], writer: &Manager, changed: &Comparison) -> bool {
    let mut own = 0;
    let fits = entries.iter().all(|entry| {
        let fields = &entry["fieldsV1"];
        let is_own = writer.has(entry);
        own += usize::from(is_own);
        if is_own { changed.is_in(fields) } else { !changed.meets(fields) }
    });
    fits && own == 1
}

fn record(managers: &mut Managers, writer: Manager, changed: Comparison, write: &WriteContext<'_>) {
    if let Some(taken) = take(managers, changed) {
        let owned = managers.0.entry(writer.clone()).or_insert_with(|| owner_of_nothing(write));
        owned.fields.unite(taken);
        touch(managers, &writer, write);
    }
}

fn fits(objects: [&Value; 2], ty: &Type) -> Result<(), Misfit> {
    if objects.iter().all(|object| misfits(object, ty).is_empty()) { Ok(()) } else { Err(Misfit) }
}

/// Takes a changed field away from those who owned it in another version, as that version sees it. A manager that wrote
/// in a version that there is no more owns nothing.
fn take_away_elsewhere(
    managers: &mut Managers,
    before: &Value,
    after: &Value,
    custom: &Custom,
    write: &WriteContext<'_>,
) -> Result<(), Misfit> {
    let own = api_version(write.definition);
    let others: BTreeSet<String> =
        managers.0.values().map(|owned| owned.version.clone()).filter(|version| *version != own).collect();
    for version in others {
        let schema = version.rsplit_once('/').filter(|(group, _)| *group == write.definition.group);
        let Some(schema) = schema.and_then(|(_, name)| custom.versions.get(name)) else {
            managers.0.retain(|_, owned| owned.version != version);
            continue;
        };
        let ty = shape(schema);
        let [mut before, mut after] = [before.clone(), after.clone()];
        before["apiVersion"] = Value::from(version.as_str());
        after["apiVersion"] = Value::from(version.as_str());
        fits([&before, &after], &ty)?;
        let comparison = compare(&before, &after, &ty).outside(reset::fields(write));
        for owned in managers.0.values_mut().filter(|owned| owned.version == version) {
            owned.fields.subtract(&comparison.modified);
            owned.fields.subtract(&comparison.added);
            owned.fields.subtract(&comparison.removed);
        }
    }
    Ok(())
}

/// Fields from before anybody's ownership was recorded belong to an entry of its own.
pub fn before_first_apply(managers: &mut Managers, empty: &Value, live: &Value, ty: &Type, write: &WriteContext<'_>) {
    let writer = Manager { name: "before-first-apply".to_owned(), ..manager(write, ManagerOperation::Update) };
    if let Some(taken) = take(managers, changed(empty, live, ty, write)) {
        managers.0.insert(writer.clone(), Owned { fields: taken, ..owner_of_nothing(write) });
        touch(managers, &writer, write);
    }
}

/// Takes the changed fields away from all managers; returns the writer's fields, if there are any.
fn take(managers: &mut Managers, changed: Comparison) -> Option<FieldSet> {
    take_away(managers, &changed, None);
    let mut taken = changed.modified;
    taken.unite(changed.added);
    taken.subtract(reset::never_owned());
    (!taken.is_empty()).then_some(taken)
}

fn take_away(managers: &mut Managers, comparison: &Comparison, except: Option<&Manager>) {
    for (manager, owned) in &mut managers.0 {
        if Some(manager) != except {
            owned.fields.subtract(&comparison.modified);
            owned.fields.subtract(&comparison.added);
            owned.fields.subtract(&comparison.removed);
        }
    }
    managers.drop_empty();
}

/// Applies: returns the merged object, and its owners.
///
/// # Errors
/// The conflicts, unless forced.
pub fn apply(
    managers: Managers,
    live: &Value,
    applied: &Value,
    ty: &Type,
    write: &WriteContext<'_>,
    force: bool,
) -> Result<(Value, Managers), Vec<Conflict>> {
    let mut managers = managers;
    let applier = manager(write, ManagerOperation::Apply);
    let merged = merge(Some(live), Some(applied), ty).unwrap_or(Value::Null);
    let last = managers.0.get(&applier).cloned();
    let mut set = own::fields(applied, ty);
    set.leave(reset::fields(write));
    let time = last.as_ref().and_then(|last| last.time.clone());
    let version = api_version(write.definition);
    managers.0.insert(applier.clone(), Owned { fields: set, version, time });
    let merged = match &last {
        Some(last) if !last.fields.is_empty() => prune(&merged, &managers, &last.fields, ty),
        _ => merged,
    };
    let comparison = changed(live, &merged, ty, write);
    if !force {
        let conflicts = conflicts(&managers, &comparison, &applier);
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
    }
    take_away(&mut managers, &comparison, Some(&applier));
    if let Some(owned) = managers.0.get_mut(&applier) {
        owned.fields.subtract(reset::never_owned());
    }
    managers.drop_empty();
    Ok((merged, managers))
}

fn conflicts(managers: &Managers, comparison: &Comparison, applier: &Manager) -> Vec<Conflict> {
    let mut changed = comparison.modified.clone();
    changed.unite(comparison.added.clone());
    let mut conflicts = Vec::new();
    for (manager, owned) in managers.0.iter().filter(|(manager, _)| *manager != applier) {
        for path in owned.fields.intersection(&changed).paths() {
            conflicts.push(Conflict { manager: manager.shown(), path });
        }
    }
    conflicts
}

/// Removes fields that the applier applied last time and does not any more, unless somebody else owns them.
fn prune(merged: &Value, managers: &Managers, last: &FieldSet, ty: &Type) -> Value {
    let last = last.with_named_fields(ty);
    let pruned = without(merged, &last, ty);
    // Fields that were taken out with it, but are owned, are put back.
    let mut owned = FieldSet::default();
    for other in managers.0.values() {
        owned.unite(other.fields.clone());
    }
    let merged_fields = own::fields(merged, ty).with_named_fields(ty);
    let mut kept = own::fields(&pruned, ty).with_named_fields(ty);
    kept.unite(owned.with_named_fields(ty));
    let pruned = without(merged, &merged_fields.difference(&kept), ty);
    // Only fields that were the applier's own are gone now; all others stay.
    let pruned_fields = own::fields(&pruned, ty).with_named_fields(ty);
    without(merged, &merged_fields.difference(&pruned_fields).intersection(&last), ty)
}
