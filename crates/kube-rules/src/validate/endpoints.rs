//! Endpoints, and the slices of them.

use std::net::IpAddr;

use serde_json::Value;

use super::super::value_ext::{ValueExt, remove, repeated_texts};
use super::addresses::{legacy_address, parse_legacy, reachable};
use super::errors::{Errors, Path, immutable};
use super::names;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
/// So many endpoints, addresses, ports and zones may be in a slice.
const MOST: (usize, usize, usize, usize) = (1_000, 100, 20_000, 8);

/// Endpoints, their metadata apart.
pub fn endpoints(object: &Value, errors: &mut Errors) {
    let list = Path::root("subsets");
    for (index, subset) in object.list("subsets").iter().enumerate() {
        let at = list.index(index);
        if subset.list("addresses").is_empty() && subset.list("notReadyAddresses").is_empty() {
            errors.required(&at, "must specify `addresses` or `notReadyAddresses`");
        }
        for part in ["addresses", "notReadyAddresses"] {
            let list = at.field(part);
            for (index, address) in subset.list(part).iter().enumerate() {
                address_of(address, &list.index(index), errors);
            }
        }
        let ports = subset.list("ports");
        let list = at.field("ports");
        for (index, port) in ports.iter().enumerate() {
            port_of(port, ports.len() > 1, &list.index(index), errors);
        }
    }
}

fn address_of(address: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (ip, host) = (address.text("ip"), address.text("hostname"));
    legacy_address(ip, &at.field("ip"), errors);
    if !host.is_empty() {
        errors.each_invalid(&at.field("hostname"), host, &names::dns_1123_label(host));
    }
    let node = address.text("nodeName");
    if address.has("nodeName") {
        for detail in names::object_name(node) {
            errors.invalid(&at.field("nodeName"), node, &detail);
        }
    }
    reachable(ip, &at.field("ip"), errors);
}

fn port_of(port: &Value, must_be_named: bool, at: &Path<'_>, errors: &mut Errors) {
    let (name, number) = (port.text("name"), port.int("port").unwrap_or_default());
    if must_be_named && name.is_empty() {
        errors.required(&at.field("name"), "");
    } else if !name.is_empty() {
        errors.each_invalid(&at.field("name"), name, &names::dns_1123_label(name));
    }
    errors.each_invalid(&at.field("port"), number, &names::port_number(number));
    protocols(port, at, errors);
}

/// Checks the protocol of a port. If nothing is given, TCP has been written there already.
fn protocols(port: &Value, at: &Path<'_>, errors: &mut Errors) {
    errors.one_of(port, "protocol", &PROTOCOLS, at);
    if let Some(protocol) = port.some("appProtocol").and_then(Value::as_str) {
        errors.each_invalid(&at.field("appProtocol"), protocol, &names::qualified_name(protocol));
    }
}

/// Checks an EndpointSlice, its metadata apart.
pub fn slice(object: &Value, errors: &mut Errors) {
    let ty = object.text("addressType");
    let at = Path::root("addressType");
    if ty.is_empty() {
        errors.required(&at, "");
    } else if !TYPES.contains(&ty) {
        errors.not_supported(&at, ty, &TYPES);
    }
    slice_ports(object.list("ports"), &Path::root("ports"), errors);
    let (endpoints, list) = (object.list("endpoints"), Path::root("endpoints"));
    if endpoints.len() > MOST.0 {
        errors.too_many(&list, endpoints.len(), MOST.0);
    } else {
        for (index, endpoint) in endpoints.iter().enumerate() {
            slice_endpoint(endpoint, ty, &list.index(index), errors);
        }
    }
}

/// Checks a changed EndpointSlice. Endpoints that stay as they are are not checked again.
pub fn changed_slice(old: &Value, new: &Value, errors: &mut Errors) {
    let mut looked_at = new.clone();
    if old.list("endpoints") == new.list("endpoints") {
        remove(&mut looked_at, "endpoints");
    }
    slice(&looked_at, errors);
    immutable(old, new, "addressType", &Path::root(""), errors);
}

fn slice_endpoint(endpoint: &Value, ty: &str, at: &Path<'_>, errors: &mut Errors) {
    let addresses = endpoint.list("addresses");
    let list = at.field("addresses");
    if addresses.is_empty() {
        errors.required(&list, "must contain at least 1 address");
    } else if addresses.len() > MOST.1 {
        errors.too_many(&list, addresses.len(), MOST.1);
    }
    for (index, address) in addresses.iter().enumerate() {
        let text = address.as_str().unwrap_or_default();
        let at = list.index(index);
        match ty {
            "IPv4" | "IPv6" => {
                let before = errors.0.len();
                legacy_address(text, &at, errors);
                match parse_legacy(text).filter(|_| errors.0.len() == before) {
                    None => continue,
                    Some(address) => {
                        if ty == "IPv4" && address.is_ipv6() {
                            errors.invalid(&list, text, "must be an IPv4 address");
                        }
                        if ty == "IPv6" && address.is_ipv4() {
                            errors.invalid(&list, text, "must be an IPv6 address");
                        }
                    }
                }
                if ty == "IPv6"
                    && let Ok(address) = text.parse::<IpAddr>()
                    && address.to_string() != text
                {
                    errors.invalid(&at, text, &format!("must be in canonical form (\"{address}\")"));
                    continue;
                }
                reachable(text, &at, errors);
            }
            "FQDN" => names::full_domain(text, &at, errors),
            _ => {}
        }
    }
    if let Some(node) = endpoint.some("nodeName").and_then(Value::as_str) {
        errors.each_invalid(&at.field("nodeName"), node, &names::object_name(node));
    }
    if let Some(host) = endpoint.some("hostname").and_then(Value::as_str) {
        errors.each_invalid(&at.field("hostname"), host, &names::dns_1123_label(host));
    }
    if let Some(hints) = endpoint.some("hints") {
        slice_hints(hints, &at.field("hints"), errors);
    }
}

fn slice_hints(hints: &Value, at: &Path<'_>, errors: &mut Errors) {
    for part in ["forZones", "forNodes"] {
        let (list, given) = (at.field(part), hints.list(part));
        if given.len() > MOST.3 {
            errors.too_many(&list, given.len(), MOST.3);
            return;
        }
        let repeated = repeated_texts(given, "name");
        for (index, one) in given.iter().enumerate() {
            let name = one.text("name");
            let at = list.index(index);
            if repeated[index] {
                errors.duplicate(&at.field("name"), name);
            }
            let said = if part == "forZones" { names::label_value(name) } else { names::object_name(name) };
            errors.each_invalid(&at.field("name"), name, &said);
        }
    }
}

fn slice_ports(ports: &[Value], list: &Path<'_>, errors: &mut Errors) {
    if ports.len() > MOST.2 {
        errors.too_many(list, ports.len(), MOST.2);
        return;
    }
    let repeated = repeated_texts(ports, "name");
    for (index, port) in ports.iter().enumerate() {
        let (at, name) = (list.index(index), port.text("name"));
        if !name.is_empty() {
            errors.each_invalid(&at.field("name"), name, &names::dns_1123_label(name));
        }
        if repeated[index] {
            errors.duplicate(&at.field("name"), name);
        }
        protocols(port, &at, errors);
    }
}
