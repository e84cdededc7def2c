//! The additions of a cluster's rules to new objects, and their refusals; and the objects that change together.
//!
//! Happens after the object is complete (defaults, managed fields), as in the real server.

mod certificates;
mod limits;
mod namespace;
mod priority;
mod quota;
mod resources;
mod runtime_class;
mod service_account;
mod services;
mod storage_class;

pub use services::{NodePorts, RANGE as SERVICE_RANGE, take_back_ports, written_ports};

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::ApiError;
use super::json_pointer::text;
use super::options::WriteOptions;
use super::route::Target;
use super::store::{self, Store};
use crate::{Clock, Random};
use kube_rules::{Effect, prepared_service};

/// The rules of a cluster, which depend on other stored objects.
#[derive(Debug)]
pub struct Admission {
    store: Store,
    clock: Clock,
    random: Random,
    /// True when pods need an existing ServiceAccount, and get its token mounted.
    service_accounts: bool,
    /// Held while a service is given ports and stored: no object stands for a port, as one does for an address.
    giving_out_ports: Mutex<()>,
    /// Held while services are written, so that it is always as they are.
    node_ports: Mutex<NodePorts>,
}

impl Admission {
    /// Returns the rules for a store.
    pub fn new(store: Store, clock: Clock, random: Random, service_accounts: bool) -> Admission {
        let node_ports = Mutex::new(NodePorts::of(&store));
        Admission { store, clock, random, service_accounts, giving_out_ports: Mutex::new(()), node_ports }
    }

    /// Keeps others from giving out ports, if a write gives out some.
    pub fn giving_out_ports(&self, target: &Target) -> Option<MutexGuard<'_, ()>> {
        let guard = || self.giving_out_ports.lock().unwrap_or_else(PoisonError::into_inner);
        target.resource.is("", "services").then(guard)
    }

    /// Returns the ports of nodes that services have.
    pub fn node_ports(&self) -> MutexGuard<'_, NodePorts> {
        self.node_ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks anew which ports of nodes services have.
    pub fn count_ports_again(&self) {
        *self.node_ports() = NodePorts::of(&self.store);
    }

    /// Adds to a new object what the cluster's rules add, before it is looked at by itself.
    ///
    /// # Errors
    /// As the real server refuses it.
    pub fn admit_new(&self, target: &Target, options: &WriteOptions, object: &mut Value) -> Result<(), ApiError> {
        let resource = &target.resource;
        let asks = resource.is("certificates.k8s.io", "certificatesigningrequests");
        if let Some(requester) = options.requester.as_ref().filter(|_| asks) {
            certificates::ask(object, requester);
        }
        if resource.is("", "pods") {
            self.set_limits(target, object);
            self.set_account(target, object)?;
            self.set_priority(object)?;
            self.set_runtime_class(object)?;
        } else if resource.is("", "persistentvolumeclaims") {
            self.set_storage_class(object);
        } else if resource.is("", "services") {
            // Addresses are given out before anything else is checked; these are not kept.
            let mut tried = prepared_service(object)?;
            services::check_name(&tried)?;
            self.assign(target, None, &mut tried, options.effect())?;
            services::lend_ports(&tried, object);
        }
        Ok(())
    }

    /// Refuses a new object, which is sound by itself, if the cluster's rules forbid it.
    ///
    /// # Errors
    /// As the real server refuses it.
    pub fn permit_new(&self, target: &Target, object: &Value) -> Result<(), ApiError> {
        let resource = &target.resource;
        if resource.is("", "pods") {
            self.limit_pod(target, object)?;
            self.check_overhead(object)
        } else if resource.is("", "persistentvolumeclaims") {
            self.limit_claim(target, object)
        } else if resource.is("scheduling.k8s.io", "priorityclasses") {
            self.one_default_priority(object)
        } else {
            Ok(())
        }
    }

    /// The changes that have to be made together with that of an object: the usage of its namespace, the addresses of
    /// services. `old` is the object as it is, `new` as it is to be.
    ///
    /// # Errors
    /// Fails when a quota is used up, or an address or port can't be had.
    pub fn side_effect_writes(
        &self,
        target: &Target,
        old: Option<&Value>,
        new: Option<&mut Value>,
        effect: Effect,
    ) -> Result<Vec<store::StoreOp>, ApiError> {
        let mut changes = self.quota_changes(target, old, new.as_deref())?;
        if target.resource.is("", "services") {
            changes.extend(self.address_changes(target, old, new, effect)?);
        }
        Ok(changes)
    }
}

/// Returns a refusal of an object.
fn forbid(target: &Target, object: &Value, why: &str) -> ApiError {
    let definition = &target.resource.definition;
    let name = text(object, "/metadata/name");
    ApiError::forbidden(&definition.group, &definition.resource, name, why)
}

/// Returns several complaints as one, as the real server writes them.
fn listed(complaints: &[String]) -> String {
    match complaints {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests;
