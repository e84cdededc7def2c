//! Services.

mod families;

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::super::words::quote;
use super::addresses::{legacy_address, reachable};
use super::errors::{Errors, Path, Shown};
use super::ranges::legacy_range;
use super::{metadata, names};

pub use families::{before_all as families, update};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const A_DAY: i64 = 86_400;
const KUBELET_PORT: i64 = 10_250;
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";

/// Checks a service, its metadata apart.
pub fn service(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let ty = spec.text("type");
    let ports = spec.list("ports");
    let headless = is_headless(spec);
    let ports_at = at.field("ports");
    if ports.is_empty() && !headless && ty != "ExternalName" {
        errors.required(&ports_at, "");
    }
    match ty {
        "LoadBalancer" | "NodePort" => {
            for (index, _) in ports.iter().enumerate().filter(|(_, port)| port.int("port") == Some(KUBELET_PORT)) {
                let detail = format!("may not expose port {KUBELET_PORT} externally since it is used by kubelet");
                if ty == "LoadBalancer" {
                    errors.invalid(&ports_at.index(index).field("port"), KUBELET_PORT, &detail);
                }
            }
            if headless {
                let detail = format!("may not be set to 'None' for {ty} services");
                errors.invalid(&at.field("clusterIPs").index(0), "None", &detail);
            }
        }
        "ExternalName" => external_name(spec, &at, errors),
        _ => {}
    }
    each_port(spec, &ports_at, errors);
    metadata::labels(spec.entries("selector"), &at.field("selector"), errors);
    affinity(spec, &at, errors);
    families::related(spec, errors);
    external_addresses(spec, &at.field("externalIPs"), errors);
    if ty.is_empty() {
        errors.required(&at.field("type"), "");
    } else if !TYPES.contains(&ty) {
        errors.not_supported(&at.field("type"), ty, &TYPES);
    }
    if ty == "ClusterIP" {
        for (index, _) in ports.iter().enumerate().filter(|(_, port)| port.int("nodePort").is_some_and(|it| it != 0)) {
            errors.forbidden(&ports_at.index(index).field("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    twice(ports, &ports_at, errors);
    balancer(spec, &at, errors);
    policies(spec, &at, errors);
}

/// Returns true when a service has no address of its own.
fn is_headless(spec: &Value) -> bool {
    spec.list("clusterIPs").first().is_some_and(|first| first == "None")
}

fn external_addresses(spec: &Value, list: &Path<'_>, errors: &mut Errors) {
    for (index, address) in spec.list("externalIPs").iter().enumerate() {
        let (at, text) = (list.index(index), address.as_str().unwrap_or_default());
        let before = errors.0.len();
        legacy_address(text, &at, errors);
        if errors.0.len() == before {
            reachable(text, &at, errors);
        }
    }
}

/// Checks the fields that only services before a load balancer have.
fn balancer(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let is = spec.text("type") == "LoadBalancer";
    let ranges = spec.list("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        let list = at.field("LoadBalancerSourceRanges");
        if !is {
            errors.forbidden(&list, ONLY_BALANCED);
        }
        for (index, one) in ranges.iter().enumerate() {
            let text = one.as_str().unwrap_or_default().trim();
            legacy_range(text, &list.index(index), errors);
        }
    }
    if spec.has("allocateLoadBalancerNodePorts") && !is {
        errors.forbidden(&at.field("allocateLoadBalancerNodePorts"), ONLY_BALANCED);
    }
    balancer_class(spec, at, errors);
}

/// Checks the class of a service's load balancer.
fn balancer_class(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(class) = spec.some("loadBalancerClass").and_then(Value::as_str) else { return };
    let at = at.field("loadBalancerClass");
    if spec.text("type") == "LoadBalancer" {
        errors.each_invalid(&at, class, &names::qualified_name(class));
    } else {
        errors.forbidden(&at, ONLY_BALANCED);
    }
}

fn external_name(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec.has(name) && spec[name].as_array().is_none_or(|list| !list.is_empty()) {
            errors.forbidden(&at.field(name), "may not be set for ExternalName services");
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
    }
}

fn affinity(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let affinity = spec.text("sessionAffinity");
    if affinity.is_empty() {
        errors.required(&at.field("sessionAffinity"), "");
    } else if !["ClientIP", "None"].contains(&affinity) {
        errors.not_supported(&at.field("sessionAffinity"), affinity, &["ClientIP", "None"]);
    }
    if affinity == "None" && spec.has("sessionAffinityConfig") {
        errors.forbidden(&at.field("sessionAffinityConfig"), "must not be set when session affinity is None");
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

/// Ports that differ in nothing that distinguishes packets.
fn twice(ports: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut nodes = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let node = port.int("nodePort").unwrap_or_default();
        if node != 0 && !nodes.insert((port.text("protocol"), node)) {
            errors.duplicate(&at.index(index).field("nodePort"), node);
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let (protocol, number) = (port.text("protocol"), port.int("port").unwrap_or_default());
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
    let ty = spec.text("type");
    let balanced = matches!(ty, "NodePort" | "LoadBalancer");
    let external = balanced || (ty == "ClusterIP" && !spec.list("externalIPs").is_empty());
    let policy = spec.text("externalTrafficPolicy");
    let policy_at = at.field("externalTrafficPolicy");
    if !external {
        if !policy.is_empty() {
            errors.invalid(&policy_at, policy, "may only be set for externally-accessible services");
        }
    } else if policy.is_empty() {
        errors.required(&policy_at, "");
    } else if !POLICIES.contains(&policy) {
        errors.not_supported(&policy_at, policy, &POLICIES);
    }
    let port = spec.int("healthCheckNodePort").unwrap_or_default();
    if port != 0 && !(ty == "LoadBalancer" && policy == "Local") {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(&at.field("healthCheckNodePort"), port, detail);
    }
    let inside = spec.some("internalTrafficPolicy").and_then(Value::as_str);
    let inside_at = at.field("internalTrafficPolicy");
    match inside {
        None if balanced || ty == "ClusterIP" => errors.required(&inside_at, ""),
        Some(policy) if !POLICIES.contains(&policy) => errors.not_supported(&inside_at, policy, &POLICIES),
        _ => {}
    }
    errors.one_of(spec, "trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"], at);
}
