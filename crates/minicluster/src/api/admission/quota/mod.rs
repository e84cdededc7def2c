//! Resource quotas: the limits of a namespace, and its usage.
//!
//! A quota's status has the usage. It changes together with the objects that use something, in one write, so that it is
//! never wrong and nothing can slip past it.

mod scopes;
mod usage;

use serde_json::{Value, json};

use self::usage::{missing, usage};
use super::resources::{ResourceAmounts, add, amounts};
use super::{Admission, forbid, listed};
use crate::api::ApiError;
use crate::api::json_pointer::text;
use crate::api::registry::Registry;
use crate::api::route::Target;
use crate::api::store::{self, GroupResource, Scope, Stored};
use crate::api::write_context::own_write_context;
use kube_rules::{Quantity, WriteContext};

impl Admission {
    /// The changes of quotas that go with a change of an object, or why it can't be made.
    pub(super) fn quota_changes(
        &self,
        target: &Target,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<Vec<store::StoreOp>, ApiError> {
        let Some(namespace) = &target.namespace else { return Ok(Vec::new()) };
        let quotas = self.store.all("", "resourcequotas", &Scope::Namespace(namespace.clone()));
        let mut changes = Vec::new();
        for stored in quotas {
            let quota = stored.value();
            let counted = |object: Option<&Value>| -> ResourceAmounts {
                let object = object.filter(|object| scopes::covers(&quota, &target.resource, object));
                object.map(|object| usage(&target.resource, object)).unwrap_or_default()
            };
            let (before, after) = (counted(old), counted(new));
            let delta = delta(&quota, &before, &after);
            if let (None, Some(new)) = (old, new)
                && !after.is_empty()
                && let Some(why) = missing(&target.resource, new, &amounts(&quota["status"]["hard"]))
            {
                let why = format!("failed quota: {}: must specify {why}", stored.name());
                return Err(forbid(target, new, &why));
            }
            if delta.is_empty() {
                continue;
            }
            if let Some(why) = exceeded(&quota, &delta) {
                return Err(forbid(target, new.or(old).unwrap_or(&Value::Null), &why));
            }
            changes.extend(self.charged(&stored, &quota, &delta));
        }
        Ok(changes)
    }

    /// Returns true when anything is limited in the namespace of an object.
    pub fn has_quotas(&self, target: &Target) -> bool {
        let in_namespace =
            |namespace: &String| self.store.all("", "resourcequotas", &Scope::Namespace(namespace.clone()));
        target.namespace.as_ref().is_some_and(|namespace| !in_namespace(namespace).is_empty())
    }

    /// Returns a quota's status with the change.
    fn charged(&self, stored: &Stored, quota: &Value, delta: &ResourceAmounts) -> Option<store::StoreOp> {
        let mut next = quota.clone();
        let mut used = amounts(&quota["status"]["used"]);
        add(&mut used, delta);
        for name in delta.keys() {
            next["status"]["used"][name] = json!(used.get(name).map(Quantity::canonical));
        }
        self.quota_status(stored, quota, next, "kube-apiserver")
    }

    fn quota_status(&self, stored: &Stored, old: &Value, next: Value, manager: &str) -> Option<store::StoreOp> {
        let registry = Registry::built_in();
        let resource = registry.any_version("", "resourcequotas")?;
        let write =
            WriteContext { subresource: Some("status"), manager, ..own_write_context(resource, self.clock.now()) };
        let next = kube_rules::update(&write, old, next).ok()?.object;
        let (group_resource, path) = (resource.group_resource.clone(), stored.path.to_string());
        (next != *old).then(|| store::StoreOp::put(group_resource, path, Some(stored.revision), next))
    }

    /// Follows a write of a quota: if its status lacks a resource that its spec limits, the whole usage of its
    /// namespace is counted.
    pub fn quotas_after(&self, registry: &Registry, group_resource: &GroupResource, path: &str) {
        if !group_resource.group.is_empty() || *group_resource.resource != *"resourcequotas" {
            return;
        }
        // Others may write to it at the same time; they will count too.
        let Some(stored) = self.store.get(group_resource, path) else { return };
        let quota = stored.value();
        if quota["status"]["hard"] == quota["spec"]["hard"] {
            return;
        }
        let mut next = quota.clone();
        next["status"]["hard"] = quota["spec"]["hard"].clone();
        let used = self.counted(registry, &quota);
        let zero = Quantity::from_whole(0);
        let shown = amounts(&quota["spec"]["hard"]).into_keys().map(|name| {
            let amount = used.get(&name).unwrap_or(&zero).canonical();
            (name, Value::from(amount))
        });
        next["status"]["used"] = shown.collect();
        let change = self.quota_status(&stored, &quota, next, "kube-controller-manager");
        drop(self.store.write(change.into_iter().collect()));
    }

    /// Returns the usage of a quota's namespace for the limited resources.
    fn counted(&self, registry: &Registry, quota: &Value) -> ResourceAmounts {
        let namespace = text(quota, "/metadata/namespace").to_owned();
        let hard = amounts(&quota["spec"]["hard"]);
        let mut used = ResourceAmounts::new();
        for resource in registry.resources().filter(|resource| resource.is_stored_version()) {
            if !hard.keys().any(|name| usage::may_count(resource, name)) {
                continue;
            }
            let scope = Scope::Namespace(namespace.clone());
            let Ok(snapshot) = self.store.snapshot(&resource.group_resource, &scope, &store::Page::default()) else {
                continue;
            };
            for object in snapshot.objects {
                let object = object.value();
                if scopes::covers(quota, resource, &object) {
                    add(&mut used, &usage(resource, &object));
                }
            }
        }
        used
    }
}

/// Returns the change of the use that a quota limits.
fn delta(quota: &Value, before: &ResourceAmounts, after: &ResourceAmounts) -> ResourceAmounts {
    let zero = Quantity::from_whole(0);
    let hard = amounts(&quota["status"]["hard"]);
    let changed = hard.into_keys().filter_map(|name| {
        let (before, after) = (before.get(&name).unwrap_or(&zero), after.get(&name).unwrap_or(&zero));
        let more = after.minus(before);
        (more.sign() != 0).then_some((name, more))
    });
    changed.collect()
}

/// Returns why a quota forbids to use more, if it does.
fn exceeded(quota: &Value, delta: &ResourceAmounts) -> Option<String> {
    let (hard, used) = (amounts(&quota["status"]["hard"]), amounts(&quota["status"]["used"]));
    let zero = Quantity::from_whole(0);
    let mut over = [Vec::new(), Vec::new(), Vec::new()];
    for (name, more) in delta.iter().filter(|(_, more)| more.sign() > 0) {
        let (Some(bound), used) = (hard.get(name), used.get(name).unwrap_or(&zero)) else { continue };
        if used.plus(more).is_more(bound) {
            for (list, amount) in over.iter_mut().zip([more, used, bound]) {
                list.push(format!("{name}={}", amount.canonical()));
            }
        }
    }
    let [requested, used, limited] = over.map(|list| list.join(","));
    if requested.is_empty() {
        return None;
    }
    let name = text(quota, "/metadata/name");
    Some(listed(&[format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}")]))
}
