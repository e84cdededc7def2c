//! Services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::super::look::Look;
use super::super::words::quote;
use super::errors::{Errors, Path, Shown};
use super::{metadata, names};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const A_DAY: i64 = 86_400;

/// A service, its metadata apart.
pub fn service(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let ty = spec.text("type");
    let ports = spec.list("ports");
    if ports.is_empty() && spec.text("clusterIP") != "None" && ty != "ExternalName" {
        errors.required(&at.field("ports"), "");
    }
    if ty == "LoadBalancer" && spec.text("clusterIP") == "None" {
        errors.invalid(&at.field("clusterIPs").index(0), "None", "may not be set to 'None' for LoadBalancer services");
    }
    if ty == "ExternalName" {
        external_name(spec, &at, errors);
    }
    each_port(spec, &at.field("ports"), errors);
    metadata::labels(spec.entries("selector"), &at.field("selector"), errors);
    affinity(spec, &at, errors);
    for (index, address) in spec.list("externalIPs").iter().enumerate() {
        let text = address.as_str().unwrap_or_default();
        if text.parse::<IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(&at.field("externalIPs").index(index), text, detail);
        }
    }
    if ty.is_empty() {
        errors.required(&at.field("type"), "");
    } else if !TYPES.contains(&ty) {
        errors.not_supported(&at.field("type"), ty, &TYPES);
    }
    twice(ports, &at.field("ports"), errors);
    policies(spec, &at, errors);
}

fn external_name(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["clusterIPs", "clusterIP"] {
        let set = spec.text("clusterIP");
        if !set.is_empty() && set != "None" {
            errors.forbidden(&at.field(name), "may not be set for ExternalName services");
            break;
        }
    }
    let name = spec.text("externalName");
    let bare = name.strip_suffix('.').unwrap_or(name);
    if bare.is_empty() {
        errors.required(&at.field("externalName"), "");
    } else {
        errors.each_invalid(&at.field("externalName"), bare, &names::dns_1123_subdomain(bare));
    }
}

fn each_port(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let ports = spec.list("ports");
    let ty = spec.text("type");
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = at.index(index);
        let name = port.text("name");
        if name.is_empty() {
            if ports.len() > 1 {
                errors.required(&at.field("name"), "");
            }
        } else {
            errors.each_invalid(&at.field("name"), name, &names::dns_1123_label(name));
            if !seen.insert(name) {
                errors.duplicate(&at.field("name"), name);
            }
        }
        let number = port.int("port").unwrap_or_default();
        errors.each_invalid(&at.field("port"), number, &names::port_number(number));
        let protocol = port.text("protocol");
        if protocol.is_empty() {
            errors.required(&at.field("protocol"), "");
        } else if !PROTOCOLS.contains(&protocol) {
            errors.not_supported(&at.field("protocol"), protocol, &PROTOCOLS);
        }
        match &port["targetPort"] {
            Value::Number(number) => {
                let number = number.as_i64().unwrap_or_default();
                errors.each_invalid(&at.field("targetPort"), number, &names::port_number(number));
            }
            Value::String(text) => errors.each_invalid(&at.field("targetPort"), text.as_str(), &names::port_name(text)),
            _ => {}
        }
        if let Some(protocol) = port.some("appProtocol").and_then(Value::as_str) {
            errors.each_invalid(&at.field("appProtocol"), protocol, &names::qualified_name(protocol));
        }
        if matches!(ty, "ClusterIP" | "ExternalName") && port.int("nodePort").unwrap_or_default() != 0 {
            errors.forbidden(&at.field("nodePort"), &format!("may not be used when `type` is '{ty}'"));
        }
    }
}

fn affinity(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let affinity = spec.text("sessionAffinity");
    if affinity.is_empty() {
        errors.required(&at.field("sessionAffinity"), "");
    } else if !["ClientIP", "None"].contains(&affinity) {
        errors.not_supported(&at.field("sessionAffinity"), affinity, &["ClientIP", "None"]);
    }
    if affinity == "ClientIP" {
        let at = at.field("sessionAffinityConfig");
        let at = at.field("clientIP");
        let seconds = spec["sessionAffinityConfig"]["clientIP"].int("timeoutSeconds");
        match seconds {
            Some(seconds) if seconds <= 0 || seconds > A_DAY => {
                let detail = format!("must be greater than 0 and less than {A_DAY}");
                errors.invalid(&at.field("timeoutSeconds"), seconds, &detail);
            }
            _ => {}
        }
    }
}

/// Ports that differ in nothing by which a packet could be told.
fn twice(ports: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    let mut nodes = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let (protocol, number) = (port.text("protocol"), port.int("port").unwrap_or_default());
        let node = port.int("nodePort").unwrap_or_default();
        if node != 0 && !nodes.insert((protocol, node)) {
            errors.duplicate(&at.index(index).field("nodePort"), node);
        }
        if !seen.insert((protocol, number)) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
                quote(protocol)
            );
            errors.duplicate(&at.index(index), Shown::Plain(shown));
        }
    }
}

fn policies(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    const POLICIES: [&str; 2] = ["Cluster", "Local"];
    let external = matches!(spec.text("type"), "NodePort" | "LoadBalancer") || !spec.list("externalIPs").is_empty();
    if let Some(policy) = spec.some("externalTrafficPolicy").and_then(Value::as_str) {
        if !external {
            errors.invalid(
                &at.field("externalTrafficPolicy"),
                policy,
                "may only be set for externally-accessible services",
            );
        } else if !POLICIES.contains(&policy) {
            errors.not_supported(&at.field("externalTrafficPolicy"), policy, &POLICIES);
        }
    }
    if let Some(policy) = spec.some("internalTrafficPolicy").and_then(Value::as_str)
        && !POLICIES.contains(&policy)
    {
        errors.not_supported(&at.field("internalTrafficPolicy"), policy, &POLICIES);
    }
}
