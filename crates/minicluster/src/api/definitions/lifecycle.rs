//! The life of a definition: names accepted, established, served; deleted with its objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::names::accept;
use super::resources::resources;
use crate::api::ApiServer;
use crate::api::json_pointer::text;
use crate::api::options::DeleteOptions;
use crate::api::registry::Registry;
use crate::api::resource::Resource;
use crate::api::route::Target;
use crate::api::store::{self, GroupResource, Page, Scope, Stored};
use crate::api::time::rfc3339;
use crate::api::write_context::own_write_context;
use kube_rules::WriteContext;

/// The finalizer of a definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";

impl ApiServer {
    /// Follows a write: if it was to a definition, or removed an object of a custom kind, the served kinds and the
    /// status of definitions are brought up to date.
    pub(in crate::api) fn definitions_after(&self, group_resource: &GroupResource, removed: bool) {
        if *group_resource.group == *GROUP && *group_resource.resource == *PLURAL {
            while self.advance_definitions() {}
        } else if removed && !is_built_in(group_resource) {
            self.finish_definition(group_resource);
        }
    }

    /// Serves the existing definitions, as after a restart.
    pub(in crate::api) fn serve_definitions(&self) {
        if !self.definitions().is_empty() {
            self.serve_definitions_again();
        }
    }

    /// Serves what definitions there are now, and no others.
    pub(in crate::api) fn serve_definitions_again(&self) {
        while self.advance_definitions() {}
    }

    /// Takes every definition one step further and serves what is established; whether anything was written.
    fn advance_definitions(&self) -> bool {
        let stored = self.definitions();
        let values: Vec<Value> = stored.iter().map(|stored| stored.value()).collect();
        let mut registry = (*Registry::built_in()).clone();
        for value in values.iter().filter(|value| is_established(value)) {
            for resource in resources(value) {
                registry.add(resource);
            }
        }
        registry.settle_order();
        self.set_registry(registry);
        for (index, (stored, value)) in stored.iter().zip(&values).enumerate() {
            let others: Vec<&Value> =
                values.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other).collect();
            let next = if value["metadata"]["deletionTimestamp"].is_string() {
                self.terminating(value)
            } else {
                self.accepted(value, &others)
            };
            if next.is_some_and(|next| self.write_definition(stored, value, next)) {
                return true;
            }
            if value["metadata"]["deletionTimestamp"].is_string() && self.clear_definition(stored, value) {
                return true;
            }
        }
        false
    }

    fn definitions(&self) -> Vec<Arc<Stored>> {
        self.store().all(GROUP, PLURAL, &Scope::All)
    }

    /// A definition with its names accepted, then established; `None` if that is so already.
    fn accepted(&self, value: &Value, others: &[&Value]) -> Option<Value> {
        let accepted = accept(value, others);
        let now = rfc3339(self.now());
        let mut next = value.clone();
        next["status"]["acceptedNames"] = accepted.names;
        remember_stored_version(&mut next);
        let (status, reason, message) = match accepted.conflict {
            None => ("True", "NoConflicts", "no conflicts found".to_owned()),
            Some((reason, message)) => ("False", reason, message),
        };
        set_condition(&mut next, &now, ["NamesAccepted", status, reason, &message]);
        let established = if status == "True" {
            match condition(value, "Established") {
                Some("True") => None,
                Some(_) => Some(["True", "InitialNamesAccepted", "the initial names have been accepted"]),
                None => Some(["False", "Installing", "the initial names have been accepted"]),
            }
        } else if condition(value, "Established").is_none() {
            Some(["False", "NotAccepted", "not all names are accepted"])
        } else {
            None
        };
        if let Some([status, reason, message]) = established {
            set_condition(&mut next, &now, ["Established", status, reason, message]);
        }
        (next != *value).then_some(next)
    }

    /// Returns a definition whose objects are being deleted; `None` if it says so already.
    fn terminating(&self, value: &Value) -> Option<Value> {
        if !is_held_back(value) {
            return None;
        }
        let mut next = value.clone();
        let message = "CustomResource deletion is in progress";
        set_condition(&mut next, &rfc3339(self.now()), ["Terminating", "True", "InstanceDeletionInProgress", message]);
        (next != *value).then_some(next)
    }

    /// Writes the next step of a definition; returns `true` if it differs from the present one.
    fn write_definition(&self, stored: &Stored, old: &Value, next: Value) -> bool {
        let registry = self.registry();
        let Some(resource) = registry.any_version(GROUP, PLURAL) else { return false };
        let write = WriteContext { subresource: Some("status"), ..own_write_context(resource, self.now()) };
        // The rules of objects record the change; they have no objection to the server's own writes.
        let next = kube_rules::update(&write, old, next.clone()).map_or(next, |read| read.object);
        // A field that they leave out again (an empty list of versions) would be added for ever.
        if next == *old {
            return false;
        }
        let group_resource = resource.group_resource.clone();
        let change = store::StoreOp::put(group_resource, stored.path.to_string(), Some(stored.revision), next);
        // If somebody was faster, the next round sees their write.
        drop(self.store().write(vec![change]));
        true
    }

    /// Deletes the objects of a definition that is on its way out, and it with them if none is left. Returns true when
    /// anything was written.
    fn clear_definition(&self, stored: &Stored, value: &Value) -> bool {
        let group_resource = GroupResource {
            group: text(value, "/spec/group").into(),
            resource: text(value, "/spec/names/plural").into(),
        };
        let Ok(snapshot) = self.store().snapshot(&group_resource, &Scope::All, &Page::default()) else { return false };
        let registry = self.registry();
        let resource = registry.any_version(&group_resource.group, &group_resource.resource);
        for object in &snapshot.objects {
            let Some(resource) = resource else { break };
            let target = Target {
                resource: Arc::clone(resource),
                namespace: object.namespace().map(str::to_owned),
                name: Some(object.name().to_owned()),
                subresource: None,
                watch: false,
            };
            // An object with finalizers goes later; the last one takes the definition along.
            drop(self.delete_object(&target, &DeleteOptions::default()));
        }
        self.finish_definition(&group_resource) && self.store().get(&definitions_resource(), &stored.path).is_none()
    }

    /// Takes a definition away that is on its way out and has no objects left.
    fn finish_definition(&self, group_resource: &GroupResource) -> bool {
        let left = self.store().snapshot(group_resource, &Scope::All, &Page::default());
        if left.is_ok_and(|snapshot| !snapshot.objects.is_empty()) {
            return false;
        }
        let Some(stored) = self
            .definitions()
            .into_iter()
            .find(|stored| stored.name() == format!("{}.{}", group_resource.resource, group_resource.group))
        else {
            return false;
        };
        let value = stored.value();
        if !value["metadata"]["deletionTimestamp"].is_string() || !is_held_back(&value) {
            return false;
        }
        let path = stored.path.to_string();
        let end = if finalizers(&value).len() > 1 {
            store::StoreOp::put(definitions_resource(), path, Some(stored.revision), self.emptied(&value))
        } else {
            store::StoreOp::remove(definitions_resource(), path, stored.revision)
        };
        let done = self.store().write(vec![end]).is_ok();
        if done {
            while self.advance_definitions() {}
        }
        done
    }

    /// Returns a definition without objects, which others than the server still hold back.
    fn emptied(&self, value: &Value) -> Value {
        let now = self.now();
        let mut next = value.clone();
        let said = ["Terminating", "False", "InstanceDeletionCompleted", "removed all instances"];
        set_condition(&mut next, &rfc3339(now), said);
        let registry = self.registry();
        if let Some(resource) = registry.any_version(GROUP, PLURAL) {
            let write = WriteContext { subresource: Some("status"), ..own_write_context(resource, now) };
            // The rules of objects have no objection to the server's own writes.
            next = kube_rules::update(&write, value, next.clone()).map_or(next, |read| read.object);
        }
        let others: Vec<Value> = finalizers(value).iter().filter(|name| **name != CLEANUP).cloned().collect();
        next["metadata"]["finalizers"] = Value::Array(others);
        next
    }
}

/// Adds the finalizer of a definition's deletion: it waits for its objects.
pub fn hold_back(definition: &mut Value, now: &str) {
    if !is_held_back(definition) {
        let mut finalizers = finalizers(definition).to_vec();
        finalizers.push(json!(CLEANUP));
        definition["metadata"]["finalizers"] = Value::Array(finalizers);
    }
    definition["metadata"]["deletionTimestamp"] = json!(now);
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(definition, now, ["Terminating", "True", "InstanceDeletionPending", message]);
}

fn definitions_resource() -> GroupResource {
    GroupResource::new(GROUP, PLURAL)
}

fn finalizers(definition: &Value) -> &[Value] {
    definition["metadata"]["finalizers"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns true when a definition waits for its objects to go.
fn is_held_back(definition: &Value) -> bool {
    finalizers(definition).iter().any(|name| name == CLEANUP)
}

fn is_built_in(group_resource: &GroupResource) -> bool {
    Registry::built_in().any_version(&group_resource.group, &group_resource.resource).is_some()
}

fn is_established(definition: &Value) -> bool {
    condition(definition, "Established") == Some("True")
}

fn condition<'a>(definition: &'a Value, ty: &str) -> Option<&'a str> {
    let conditions = definition["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == ty)?["status"].as_str()
}

/// Keeps a former stored version in the list of them.
fn remember_stored_version(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let stored = versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone());
    let mut known = definition["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    for version in stored {
        if !known.contains(&version) {
            known.push(version);
        }
    }
    definition["status"]["storedVersions"] = Value::Array(known);
}

fn set_condition(definition: &mut Value, now: &str, [ty, status, reason, message]: [&str; 4]) {
    let condition = json!({
        "type": ty, "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
    });
    if !definition["status"]["conditions"].is_array() {
        definition["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = definition["status"]["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|known| known["type"] == ty) {
        Some(known) if known["status"] == status && known["reason"] == reason && known["message"] == message => {}
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

impl Resource {
    /// Returns true when this is the kind of definitions.
    #[must_use]
    pub fn is_definition(&self) -> bool {
        self.is(GROUP, PLURAL)
    }
}
