//! Addresses of services: each is an object of its own, so that it can't be given out twice.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::Admission;
use crate::api::json_pointer::text;
use crate::api::registry::Registry;
use crate::api::route::Target;
use crate::api::store::{self, GroupResource, Scope, path};
use crate::api::time::rfc3339;
use crate::api::write_context::own_write_context;
use crate::api::{ApiError, Cause};
use kube_rules::{self, Allocate, Effect, HEALTH_CHECK, NODE_PORTS, assign_addresses, check_range, no_health_check};

/// The addresses of services: 65,534 of them.
pub const RANGE: &str = "10.0.0.0/16";

const FIRST: u32 = u32::from_be_bytes([10, 0, 0, 1]);
const ADDRESSES: u32 = 65_534;

/// The number of draws of an address before the next free one is searched for.
const DRAWS: usize = 16;

impl Admission {
    /// Gives a service its addresses and ports, and returns the necessary writes.
    pub(super) fn address_changes(
        &self,
        target: &Target,
        old: Option<&Value>,
        new: Option<&mut Value>,
        effect: Effect,
    ) -> Result<Vec<store::StoreOp>, ApiError> {
        let held: Vec<String> = old.map(addresses).unwrap_or_default();
        let kept = match new {
            None => Vec::new(),
            Some(service) => {
                self.assign(target, old, service, effect)?;
                addresses(service)
            }
        };
        let mut changes = Vec::new();
        for address in held.iter().filter(|address| !kept.contains(address)) {
            if let Some(known) = self.store.get(&group_resource(), address) {
                changes.push(store::StoreOp::remove(group_resource(), address.clone(), known.revision));
            }
        }
        for address in kept.into_iter().filter(|address| !held.contains(address)) {
            let object = self.address_object(target, &address)?;
            changes.push(store::StoreOp::put(group_resource(), address, None, object));
        }
        Ok(changes)
    }

    /// Gives a service the addresses and ports that it lacks; nothing is kept of that.
    pub(super) fn assign(
        &self,
        target: &Target,
        old: Option<&Value>,
        service: &mut Value,
        effect: Effect,
    ) -> Result<(), ApiError> {
        let own = path(target.namespace.as_deref(), target.name.as_deref().unwrap_or_default());
        let mut allocator = Allocator { admission: self, old, own, given: Vec::new(), effect };
        assign_addresses(service, old, &mut allocator).map_err(|refused| {
            if refused.field.ends_with(HEALTH_CHECK) {
                return no_health_check(refused.wanted.as_i64().unwrap_or_default(), &refused.why);
            }
            let address = refused.field.starts_with("spec.clusterIPs");
            let (field, value, why) = if address {
                let why =
                    format!("failed to allocate IP {}: {}", refused.wanted.as_str().unwrap_or_default(), refused.why);
                ("spec.clusterIPs".to_owned(), json!([refused.wanted]), why)
            } else {
                (refused.field, refused.wanted, refused.why)
            };
            let message = format!("Invalid value: {value}: {why}");
            let cause = Cause { reason: "FieldValueInvalid", message, field: Some(field) };
            let definition = &target.resource.definition;
            ApiError::invalid(&definition.group, &definition.kind, text(service, "/metadata/name"), vec![cause])
        })
    }

    fn address_object(&self, target: &Target, address: &str) -> Result<Value, ApiError> {
        let registry = Registry::built_in();
        let Some(resource) = registry.any_version("networking.k8s.io", "ipaddresses") else {
            return Err(ApiError::no_such_resource());
        };
        let now = self.clock.now();
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": {
                "name": address, "uid": self.random.uid(), "creationTimestamp": rfc3339(now),
                "labels": {
                    "ipaddress.kubernetes.io/ip-family": "IPv4",
                    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                },
            },
            "spec": { "parentRef": {
                "resource": "services", "namespace": target.namespace, "name": target.name,
            }},
        });
        Ok(kube_rules::create(&own_write_context(resource, now), object, &|_| Ok(()))?.object)
    }
}

/// Checks the name: an address names the service that it was given to, so a name that can't be named gets none.
pub(super) fn check_name(service: &Value) -> Result<(), ApiError> {
    let name = text(service, "/metadata/name");
    let problems = kube_rules::path_segment_problems(name);
    let spec = &service["spec"];
    let (wanted, ty) = (text(spec, "/clusterIP"), text(spec, "/type"));
    if problems.is_empty() || ty == "ExternalName" || wanted == "None" {
        return Ok(());
    }
    let (whose, address) = if wanted.is_empty() {
        (String::new(), Ipv4Addr::from(FIRST).to_string())
    } else {
        (format!(" {wanted}"), wanted.to_owned())
    };
    let why = problems.join(", ");
    let message = format!(
        "Invalid value: {}: failed to allocate IP{whose}: IPAddress.networking.k8s.io {address:?} is invalid: \
         spec.parentRef.name: Invalid value: {name:?}: {why}",
        spec["clusterIPs"]
    );
    let field = Some("spec.clusterIPs".to_owned());
    Err(ApiError::invalid("", "Service", name, vec![Cause { reason: "FieldValueInvalid", message, field }]))
}

/// Gives a service the ports that it could have, for the checks.
pub(super) fn lend_ports(tried: &Value, service: &mut Value) {
    let tried = tried["spec"]["ports"].as_array().into_iter().flatten();
    let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten();
    for (port, tried) in ports.zip(tried).filter(|(_, tried)| tried["nodePort"].is_i64()) {
        port["nodePort"] = tried["nodePort"].clone();
    }
}

/// Takes ports back that `asked` does not name: they are given out when the service is stored.
pub fn take_back_ports(asked: &Value, service: &mut Value) {
    let asked = asked["spec"]["ports"].as_array().into_iter().flatten();
    let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten();
    for (port, _) in ports.zip(asked).filter(|(_, asked)| asked["nodePort"].as_i64().unwrap_or_default() == 0) {
        if let Some(fields) = port.as_object_mut() {
            fields.remove("nodePort");
        }
    }
}

fn group_resource() -> GroupResource {
    GroupResource::new("networking.k8s.io", "ipaddresses")
}

/// Returns the addresses that a service holds.
fn addresses(service: &Value) -> Vec<String> {
    let list = service["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    list.filter(|address| *address != "None").map(str::to_owned).collect()
}

/// The ports of nodes that are given out: kept beside the services, so that nobody reads them all to find a free one.
#[derive(Debug, Default)]
pub struct NodePorts {
    /// The ports of each service, by its path.
    services: BTreeMap<String, Vec<i64>>,
    /// The number of services with each port.
    taken: BTreeMap<i64, usize>,
}

impl NodePorts {
    /// Returns those of the services that are stored.
    pub fn of(store: &store::Store) -> NodePorts {
        let mut all = NodePorts::default();
        for service in store.all("", "services", &Scope::All) {
            all.set(&service.path, ports(&service.value()));
        }
        all
    }

    /// Sets the ports of a service, and no others.
    pub fn set(&mut self, service: &str, ports: Vec<i64>) {
        for port in self.services.remove(service).unwrap_or_default() {
            if let Some(count) = self.taken.get_mut(&port) {
                *count -= 1;
                if *count == 0 {
                    self.taken.remove(&port);
                }
            }
        }
        for port in &ports {
            *self.taken.entry(*port).or_default() += 1;
        }
        if !ports.is_empty() {
            self.services.insert(service.to_owned(), ports);
        }
    }

    /// Returns true when a service other than this one has a port.
    fn is_taken(&self, port: i64, but_by: Option<&str>) -> bool {
        let own = but_by.and_then(|service| self.services.get(service)).map_or(&[][..], Vec::as_slice);
        let own = own.iter().filter(|known| **known == port).count();
        self.taken.get(&port).is_some_and(|count| *count > own)
    }
}

/// Returns the services in changes: the path of each and the ports that it has from then on.
pub fn written_ports(changes: &[store::StoreOp]) -> Vec<(String, Vec<i64>)> {
    let of_services = changes.iter().filter(|change| change.group_resource == services());
    of_services.map(|change| (change.path.clone(), change.object.as_ref().map(ports).unwrap_or_default())).collect()
}

fn services() -> GroupResource {
    GroupResource::new("", "services")
}

struct Allocator<'a> {
    admission: &'a Admission,
    old: Option<&'a Value>,
    /// The path of the service.
    own: String,
    /// The ports that the service has been given already.
    given: Vec<i64>,
    effect: Effect,
}

impl Allocator<'_> {
    fn is_free(&self, address: &str) -> bool {
        self.admission.store.get(&group_resource(), address).is_none()
    }

    fn is_taken(&self, port: i64) -> bool {
        let own = self.old.is_some().then_some(self.own.as_str());
        self.given.contains(&port) || self.admission.node_ports().is_taken(port, own)
    }
}

fn ports(service: &Value) -> Vec<i64> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let numbers = ports.filter_map(|port| port["nodePort"].as_i64());
    numbers.chain(service["spec"][HEALTH_CHECK].as_i64()).filter(|port| *port != 0).collect()
}

impl Allocate for Allocator<'_> {
    fn address(&mut self, wanted: Option<&str>) -> Result<String, String> {
        if let Some(wanted) = wanted {
            if self.old.is_some_and(|old| addresses(old).iter().any(|held| held == wanted)) {
                return Ok(wanted.to_owned());
            }
            let within = wanted
                .parse::<Ipv4Addr>()
                .is_ok_and(|address| u32::from(address).checked_sub(FIRST).is_some_and(|offset| offset < ADDRESSES));
            return match (within, self.effect == Effect::DryRun || self.is_free(wanted)) {
                (false, _) if self.effect == Effect::DryRun => Err(format!(
                    "the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {RANGE}"
                )),
                (false, _) => Err("the provided network does not match the current range".to_owned()),
                (true, false) => Err("provided IP is already allocated".to_owned()),
                (true, true) => Ok(wanted.to_owned()),
            };
        }
        let address = |offset: u32| Ipv4Addr::from(FIRST + offset % ADDRESSES).to_string();
        let mut start = 0;
        for _ in 0..DRAWS {
            // The first addresses are left to those who ask for them.
            start = 256 + u32::try_from(self.admission.random.below(u64::from(ADDRESSES - 256))).unwrap_or_default();
            if self.is_free(&address(start)) {
                return Ok(address(start));
            }
        }
        let next = (0..ADDRESSES).map(|step| address(start + step)).find(|address| self.is_free(address));
        next.ok_or_else(|| "range is full".to_owned())
    }

    fn node_port(&mut self, wanted: Option<i64>) -> Result<i64, String> {
        if let Some(wanted) = wanted {
            if self.effect == Effect::Stored {
                check_range(wanted)?;
            }
            if self.is_taken(wanted) {
                return Err("provided port is already allocated".to_owned());
            }
            self.given.push(wanted);
            return Ok(wanted);
        }
        let count = NODE_PORTS.end() - NODE_PORTS.start() + 1;
        let draw = self.admission.random.below(count.unsigned_abs());
        let start = i64::try_from(draw).unwrap_or_default();
        let free =
            (0..count).map(|step| NODE_PORTS.start() + (start + step) % count).find(|port| !self.is_taken(*port));
        let port = free.ok_or_else(|| "range is full".to_owned())?;
        self.given.push(port);
        Ok(port)
    }
}
