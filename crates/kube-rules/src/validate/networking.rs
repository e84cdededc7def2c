//! Ingresses, their classes, and network policies.

use std::net::IpAddr;

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::errors::{Errors, Path, Shown, immutable};
use super::ranges::{cidr, is_within, legacy_range, parse_legacy_range, range};
use super::{names, selector};

/// So long may the name of a controller be.
const LONGEST_CONTROLLER: usize = 250;
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];

/// Checks an Ingress, its metadata apart.
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
            errors.each_invalid(&at.field("host"), host, &host_name(host));
        }
        if let Some(http) = rule.some("http") {
            let at = at.field("http");
            ingress_paths(http.list("paths"), &at.field("paths"), errors);
        }
    }
    let tls = at.field("tls");
    for (index, one) in spec.list("tls").iter().enumerate() {
        let at = tls.index(index);
        let list = at.field("hosts");
        for (index, host) in one.list("hosts").iter().enumerate() {
            let host = host.as_str().unwrap_or_default();
            errors.each_invalid(&list.index(index), host, &host_name(host));
        }
        let secret = one.text("secretName");
        if !secret.is_empty() {
            errors.each_invalid(&at.field("secretName"), secret, &names::object_name(secret));
        }
    }
    if let Some(class) = spec.some("ingressClassName").and_then(Value::as_str) {
        errors.each_invalid(&at.field("ingressClassName"), class, &names::object_name(class));
    }
}

fn host_name(host: &str) -> names::NameProblem {
    if host.contains('*') { names::wildcard_subdomain(host) } else { names::dns_1123_subdomain(host) }
}

/// The texts that a path that is compared part by part may not contain, and may not end in.
const BAD_PATHS: (&[&str], &[&str]) = (&["//", "/./", "/../", "%2f", "%2F"], &["/..", "/."]);

fn ingress_paths(paths: &[Value], at: &Path<'_>, errors: &mut Errors) {
    if paths.is_empty() {
        errors.required(at, "");
    }
    for (index, path) in paths.iter().enumerate() {
        let at = at.index(index);
        let text = path.text("path");
        let text_at = at.field("path");
        match path.some("pathType").and_then(Value::as_str) {
            None => {
                // Without it, nothing else is checked.
                errors.required(&at.field("pathType"), "pathType must be specified");
                continue;
            }
            Some("Exact" | "Prefix") => {
                if !text.starts_with('/') {
                    errors.invalid(&text_at, text, "must be an absolute path");
                }
                if !text.is_empty() {
                    for bad in BAD_PATHS.0.iter().filter(|bad| text.contains(**bad)) {
                        errors.invalid(&text_at, text, &format!("must not contain '{bad}'"));
                    }
                    for bad in BAD_PATHS.1.iter().filter(|bad| text.ends_with(**bad)) {
                        errors.invalid(&text_at, text, &format!("cannot end with '{bad}'"));
                    }
                }
            }
            Some("ImplementationSpecific") => {
                if !text.is_empty() && !text.starts_with('/') {
                    errors.invalid(&text_at, text, "must be an absolute path");
                }
            }
            Some(ty) => errors.not_supported(&at.field("pathType"), ty, &PATH_TYPES),
        }
        ingress_backend(&path["backend"], &at.field("backend"), errors);
    }
}

fn ingress_backend(backend: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(service) = backend.some("service") else {
        match backend.some("resource") {
            Some(resource) => reference(resource, &at.field("resource"), errors),
            None => errors.invalid(at, "", "resource or service backend is required"),
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

/// Checks an object of any kind, by its name.
fn reference(object: &Value, at: &Path<'_>, errors: &mut Errors) {
    let group = object.text("apiGroup");
    if object.has("apiGroup") {
        errors.each_invalid(&at.field("apiGroup"), group, &names::dns_1123_subdomain(group));
    }
    names::kind_and_name(object, at, errors);
}

/// Checks an IngressClass, its metadata apart.
pub fn ingress_class(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let controller = spec.text("controller");
    let controller_at = at.field("controller");
    if controller.len() > LONGEST_CONTROLLER {
        errors.too_long(&controller_at, LONGEST_CONTROLLER);
    }
    names::domain_prefixed_path(controller, &controller_at, errors);
    let Some(parameters) = spec.some("parameters") else { return };
    let at = at.field("parameters");
    reference(parameters, &at, errors);
    let namespace = parameters.some("namespace").and_then(Value::as_str);
    match parameters.text("scope") {
        "" if !parameters.has("scope") => errors.required(&at.field("scope"), ""),
        "Cluster" => {
            if namespace.is_some() {
                let detail = "`parameters.scope` is set to 'Cluster'";
                errors.forbidden(&at.field("namespace"), detail);
            }
        }
        "Namespace" => match namespace {
            None => errors.required(&at.field("namespace"), "`parameters.scope` is set to 'Namespace'"),
            Some(name) => errors.each_invalid(&at.field("namespace"), name, &names::dns_1123_label(name)),
        },
        other => errors.not_supported(&at.field("scope"), other, &["Cluster", "Namespace"]),
    }
}

/// Checks a changed IngressClass.
pub fn ingress_class_update(old: &Value, new: &Value, errors: &mut Errors) {
    immutable(&old["spec"], &new["spec"], "controller", &Path::root("spec"), errors);
}

/// Checks an IPAddress, its metadata apart.
pub fn ip_address(object: &Value, errors: &mut Errors) {
    let at = Path::root("spec");
    let Some(parent) = object["spec"].some("parentRef") else {
        return errors.required(&at.field("parentRef"), "");
    };
    let at = at.field("parentRef");
    let group = parent.text("group");
    if !group.is_empty() {
        errors.each_invalid(&at.field("group"), group, &names::dns_1123_subdomain(group));
    }
    for name in ["resource", "name", "namespace"] {
        let text = parent.text(name);
        if text.is_empty() {
            if name != "namespace" {
                errors.required(&at.field(name), "");
            }
        } else {
            errors.each_invalid(&at.field(name), text, &names::path_segment(text));
        }
    }
}

/// Checks a changed IPAddress.
pub fn ip_address_update(old: &Value, new: &Value, errors: &mut Errors) {
    immutable(&old["spec"], &new["spec"], "parentRef", &Path::root("spec"), errors);
}

/// Checks a ServiceCIDR, its metadata apart.
pub fn service_range(object: &Value, errors: &mut Errors) {
    let (ranges, at) = (object["spec"].list("cidrs"), Path::root("spec.cidrs"));
    if ranges.is_empty() {
        return errors.required(&at, "at least one CIDR required");
    }
    if ranges.len() > 2 {
        let shown = Shown::Plain(object["spec"].to_string());
        return errors.invalid(&at, shown, "may only hold up to 2 values");
    }
    if let [one, other] = ranges {
        let family = |value: &Value| value.as_str().and_then(range).map(|(_, _, all)| all);
        match (family(one), family(other)) {
            (Some(one), Some(other)) if one == other => {
                let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
                errors.invalid(&at, &Value::from(ranges), detail);
            }
            (Some(_), Some(_)) => {}
            _ => errors.invalid(&at, &Value::from(ranges), "invalid CIDR value"),
        }
    }
    for (index, range) in ranges.iter().enumerate() {
        cidr(range.as_str().unwrap_or_default(), &at.index(index), errors);
    }
}

/// Checks a NetworkPolicy, its metadata apart.
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
    if spec.list("policyTypes").len() > 2 {
        return errors.invalid(&types, &spec["policyTypes"], "may not specify more than two policyTypes");
    }
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
                end_port(port, &at.field("endPort"), errors);
            }
            Value::String(name) => {
                end_port(port, &at.field("endPort"), errors);
                errors.each_invalid(&at.field("port"), name.as_str(), &names::port_name(name));
            }
            _ => end_port(port, &at.field("endPort"), errors),
        }
    }
}

fn end_port(port: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(end) = port.int("endPort") else { return };
    match &port["port"] {
        Value::Number(first) => {
            let first = first.as_i64().unwrap_or_default();
            if first > end {
                errors.invalid(at, first, "must be greater than or equal to `port`");
            }
            errors.each_invalid(at, end, &names::port_number(end));
        }
        Value::String(_) => errors.invalid(at, end, "may not be specified when `port` is non-numeric"),
        _ => errors.invalid(at, end, "may not be specified when `port` is not specified"),
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
        let text = block.text("cidr");
        if text.is_empty() {
            errors.required(&block_at.field("cidr"), "");
        } else {
            legacy_range(text, &block_at.field("cidr"), errors);
        }
        let list = block_at.field("except");
        // Without a range of its own, its exceptions are not checked.
        let excepted = if parse_legacy_range(text).is_some() { block.list("except") } else { &[] };
        for (index, except) in excepted.iter().enumerate() {
            let except = except.as_str().unwrap_or_default();
            legacy_range(except, &list.index(index), errors);
            if is_within(except, text) == Some(false) {
                errors.invalid(&list.index(index), except, "must be a strict subset of `cidr`");
            }
        }
        if several {
            errors.forbidden(at, "may not specify both ipBlock and another peer");
        }
    } else if !several {
        errors.required(at, "must specify a peer");
    }
}
