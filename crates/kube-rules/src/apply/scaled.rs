//! The ownership of an object's size, as the scale subresource has it: a Scale has managed fields of its own, made from
//! those of the object behind it and put back into them afterwards.

use serde_json::Value;

use super::super::read::api_version;
use super::super::value_ext::ValueExt;
use super::super::{Custom, Definition};
use super::field_set::{FieldSet, field};
use super::managers::{Manager, ManagerOperation, Managers, Owned, put_managed, take_managed};

/// The version in which scales are spoken.
const SPOKEN: &str = "autoscaling/v1";

/// Returns the managed fields of an object's scale, as entries: who owns the size of the object. `path` is where that
/// is in it.
pub fn of_scale(definition: &Definition, object: &Value, path: &[String]) -> Vec<Value> {
    let path = fields_of(path);
    let mut spoken = Managers::default();
    for (manager, owned) in known(object).0 {
        if !is_served(definition, &owned.version) || path.intersection(&owned.fields).is_empty() {
            continue;
        }
        let fields = FieldSet::of(&["f:spec f:replicas"]);
        spoken.0.insert(as_spoken(manager), Owned { fields, version: SPOKEN.to_owned(), time: owned.time });
    }
    spoken.write()
}

/// Puts the managed fields of a scale that was written, `scale`, into those of the object behind it, as it was.
///
/// The real server takes managers for the same only if they are so in both versions, so the moment of who updates is lost.
pub fn put_back(definition: &Definition, object: &mut Value, scale: &[Value], path: &[String]) {
    let path = fields_of(path);
    let mut spoken = Managers::read(scale).unwrap_or_default();
    let before = known(object);
    let times: std::collections::BTreeMap<Manager, Option<String>> =
        before.0.iter().map(|(manager, owned)| (manager.clone(), owned.time.clone())).collect();
    let mut after = Managers::default();
    for (manager, mut owned) in before.0 {
        if !is_served(definition, &owned.version) {
            continue;
        }
        if !path.intersection(&owned.fields).is_empty() && spoken.0.remove(&manager).is_none() {
            owned.fields.subtract(&path);
        }
        if !owned.fields.is_empty() {
            after.0.insert(manager, owned);
        }
    }
    for (manager, owned) in spoken.0 {
        if owned.fields.within("f:spec").is_some_and(|spec| spec.has("f:replicas")) {
            let time = times.get(&manager).cloned().flatten();
            after.0.insert(manager, Owned { fields: path.clone(), version: api_version(definition), time });
        }
    }
    take_managed(object);
    put_managed(object, after.write());
}

fn fields_of(path: &[String]) -> FieldSet {
    let mut fields = FieldSet::default();
    fields.insert(&path.iter().map(|name| field(name)).collect::<Vec<_>>());
    fields
}

fn known(object: &Value) -> Managers {
    Managers::read(object["metadata"].list("managedFields")).unwrap_or_default()
}

/// Returns a manager as the managed fields of a scale identify it.
fn as_spoken(manager: Manager) -> Manager {
    match manager.operation {
        ManagerOperation::Apply => manager,
        ManagerOperation::Update => Manager { version: SPOKEN.to_owned(), ..manager },
    }
}

/// Returns true when there is such a version of the kind; fields that were written in another are forgotten.
fn is_served(definition: &Definition, version: &str) -> bool {
    match &definition.custom {
        None => true,
        Some(Custom { versions, .. }) => version
            .rsplit_once('/')
            .is_some_and(|(group, name)| group == definition.group && versions.contains_key(name)),
    }
}
