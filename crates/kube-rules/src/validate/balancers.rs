//! The status of load balancers.

use std::net::IpAddr;

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::addresses::legacy_address;
use super::errors::{Errors, Path};
use super::names;

const MODES: [&str; 2] = ["Proxy", "VIP"];

/// Checks the status of an Ingress.
pub fn of_ingress(object: &Value, errors: &mut Errors) {
    let list = Path::root("status.loadBalancer.ingress");
    for (index, entry) in object["status"]["loadBalancer"].list("ingress").iter().enumerate() {
        let at = list.index(index);
        address(entry, &at, errors);
        host(entry, &at, errors);
    }
}

/// Checks the status of a Service.
pub fn of_service(object: &Value, errors: &mut Errors) {
    let list = Path::root("status.loadBalancer.ingress");
    let entries = object["status"]["loadBalancer"].list("ingress");
    if !entries.is_empty() && object["spec"].text("type") != "LoadBalancer" {
        return errors.forbidden(&list, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    for (index, entry) in entries.iter().enumerate() {
        let at = list.index(index);
        address(entry, &at, errors);
        mode(entry, &at.field("ipMode"), errors);
        host(entry, &at, errors);
    }
}

fn address(entry: &Value, at: &Path<'_>, errors: &mut Errors) {
    let address = entry.text("ip");
    if !address.is_empty() {
        legacy_address(address, &at.field("ip"), errors);
    }
}

/// Checks if the address is the balancer's own, or one that traffic only goes through.
fn mode(entry: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(mode) = entry.some("ipMode").and_then(Value::as_str) else { return };
    if entry.text("ip").is_empty() {
        errors.forbidden(at, "may not be specified when `ip` is not set");
    } else if !MODES.contains(&mode) {
        errors.not_supported(at, mode, &MODES);
    }
}

fn host(entry: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (host, at) = (entry.text("hostname"), at.field("hostname"));
    if host.is_empty() {
        return;
    }
    errors.each_invalid(&at, host, &names::dns_1123_subdomain(host));
    if host.parse::<IpAddr>().is_ok() {
        errors.invalid(&at, host, "must be a DNS name, not an IP address");
    }
}
