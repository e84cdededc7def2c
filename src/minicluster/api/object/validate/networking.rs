//! Ingresses, their classes, and network policies.

use std::net::IpAddr;

use serde_json::Value;

use super::super::look::Look;
use super::errors::{Errors, Path, Shown};
use super::{names, selector};

const NOT_A_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];

/// An Ingress, its metadata apart.
pub fn ingress(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    if spec.list("rules").is_empty() && !spec.has("defaultBackend") {
        errors.invalid(&at, Shown::Plain("null".to_owned()), "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(backend) = spec.some("defaultBackend") {
        ingress_backend(backend, &at.field("defaultBackend"), errors);
    }
    let rules = at.field("rules");
    for (index, rule) in spec.list("rules").iter().enumerate() {
        let at = rules.index(index);
        let host = rule.text("host");
        if host.parse::<IpAddr>().is_ok() {
            errors.invalid(&at.field("host"), host, "must be a DNS name, not an IP address");
        } else if !host.is_empty() {
            let said =
                if host.contains('*') { names::wildcard_subdomain(host) } else { names::dns_1123_subdomain(host) };
            errors.each_invalid(&at.field("host"), host, &said);
        }
        if let Some(http) = rule.some("http") {
            let at = at.field("http");
            ingress_paths(http.list("paths"), &at.field("paths"), errors);
        }
    }
}

fn ingress_paths(paths: &[Value], at: &Path<'_>, errors: &mut Errors) {
    if paths.is_empty() {
        errors.required(at, "");
    }
    for (index, path) in paths.iter().enumerate() {
        let at = at.index(index);
        let text = path.text("path");
        match path.text("pathType") {
            "" => {
                // Without it, nothing else is looked at.
                errors.required(&at.field("pathType"), "pathType must be specified");
                continue;
            }
            "Exact" | "Prefix" if !text.starts_with('/') => {
                errors.invalid(&at.field("path"), text, "must be an absolute path");
            }
            "ImplementationSpecific" if !text.is_empty() && !text.starts_with('/') => {
                errors.invalid(&at.field("path"), text, "must be an absolute path");
            }
            ty if !PATH_TYPES.contains(&ty) => errors.not_supported(&at.field("pathType"), ty, &PATH_TYPES),
            _ => {}
        }
        ingress_backend(&path["backend"], &at.field("backend"), errors);
    }
}

fn ingress_backend(backend: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(service) = backend.some("service") else {
        if !backend.has("resource") {
            errors.invalid(at, "", "resource or service backend is required");
        }
        return;
    };
    if backend.has("resource") {
        errors.invalid(at, "", "cannot set both resource and service backends");
        return;
    }
    let name = service.text("name");
    let name_at = at.field("service.name");
    if name.is_empty() {
        errors.required(&name_at, "");
    } else {
        errors.each_invalid(&name_at, name, &names::dns_1123_label(name));
    }
    let (port, number) = (service["port"].text("name"), service["port"].int("number").unwrap_or_default());
    match (port, number) {
        ("", 0) => errors.required(at, "port name or number is required"),
        ("", number) => errors.each_invalid(&at.field("service.port.number"), number, &names::port_number(number)),
        (name, 0) => errors.each_invalid(&at.field("service.port.name"), name, &names::port_name(name)),
        _ => errors.invalid(at, "", "cannot set both port name & port number"),
    }
}

/// An IngressClass, its metadata apart.
pub fn ingress_class(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let controller = spec.text("controller");
    let whole = controller.split_once('/').is_some_and(|(domain, path)| {
        !path.is_empty() && !domain.is_empty() && names::dns_1123_subdomain(domain).is_empty()
    });
    if controller.is_empty() {
        errors.required(&at.field("controller"), "");
    } else if !whole {
        errors.invalid(&at.field("controller"), controller, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    }
    if let Some(parameters) = spec.some("parameters") {
        let at = at.field("parameters");
        for name in ["kind", "name"] {
            if parameters.text(name).is_empty() {
                errors.required(&at.field(name), "");
            }
        }
    }
}

/// A NetworkPolicy, its metadata apart.
pub fn network_policy(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    selector::selector(&spec["podSelector"], &at.field("podSelector"), errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = at.field(direction);
        for (index, rule) in spec.list(direction).iter().enumerate() {
            let at = rules.index(index);
            policy_ports(rule.list("ports"), &at.field("ports"), errors);
            let list = at.field(peers);
            for (index, peer) in rule.list(peers).iter().enumerate() {
                policy_peer(peer, &list.index(index), errors);
            }
        }
    }
    let types = at.field("policyTypes");
    for (index, ty) in spec.list("policyTypes").iter().enumerate() {
        let ty = ty.as_str().unwrap_or_default();
        if !["Ingress", "Egress"].contains(&ty) {
            errors.not_supported(&types.index(index), ty, &["Ingress", "Egress"]);
        }
    }
}

fn policy_ports(ports: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (index, port) in ports.iter().enumerate() {
        let at = at.index(index);
        let protocol = port.text("protocol");
        if port.has("protocol") && !["TCP", "UDP", "SCTP"].contains(&protocol) {
            errors.not_supported(&at.field("protocol"), protocol, &["TCP", "UDP", "SCTP"]);
        }
        match &port["port"] {
            Value::Number(number) => {
                let number = number.as_i64().unwrap_or_default();
                errors.each_invalid(&at.field("port"), number, &names::port_number(number));
            }
            Value::String(name) => errors.each_invalid(&at.field("port"), name.as_str(), &names::port_name(name)),
            _ => {}
        }
    }
}

fn policy_peer(peer: &Value, at: &Path<'_>, errors: &mut Errors) {
    let selectors = ["podSelector", "namespaceSelector"];
    for name in selectors.iter().filter(|name| peer.has(name)) {
        selector::selector(&peer[*name], &at.field(name), errors);
    }
    let several = selectors.iter().any(|name| peer.has(name));
    if let Some(block) = peer.some("ipBlock") {
        let block_at = at.field("ipBlock");
        let own = range(block.text("cidr"));
        if own.is_none() {
            errors.invalid(&block_at.field("cidr"), block.text("cidr"), NOT_A_RANGE);
        }
        let list = block_at.field("except");
        for (index, except) in block.list("except").iter().enumerate() {
            let text = except.as_str().unwrap_or_default();
            match (range(text), own) {
                (None, _) => errors.invalid(&list.index(index), text, NOT_A_RANGE),
                (Some(inner), Some(own)) if !is_within(inner, own) => {
                    errors.invalid(&list.index(index), text, "must be a strict subset of `cidr`");
                }
                _ => {}
            }
        }
        if several {
            errors.forbidden(at, "may not specify both ipBlock and another peer");
        }
    } else if !several {
        errors.required(at, "must specify a peer");
    }
}

/// An address range: its first address as a number of 128 bits, how many bits are fixed, and how many there are.
fn range(text: &str) -> Option<(u128, u32, u32)> {
    let (address, bits) = text.split_once('/')?;
    let bits: u32 = bits.parse().ok()?;
    let (number, all) = match address.parse::<IpAddr>().ok()? {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    (bits <= all).then(|| (number & u128::MAX.checked_shl(128 - bits).unwrap_or_default(), bits, all))
}

fn is_within(inner: (u128, u32, u32), outer: (u128, u32, u32)) -> bool {
    let mask = u128::MAX.checked_shl(128 - outer.1).unwrap_or_default();
    inner.2 == outer.2 && inner.1 > outer.1 && inner.0 & mask == outer.0
}
