//! Warnings about addresses that are not written in the usual form.

use std::net::IpAddr;

use serde_json::Value;

use super::super::value_ext::ValueExt;

/// Warnings about the addresses in an object, its pods and its status apart.
pub fn of_kind(key: (&str, &str), object: &Value, said: &mut Vec<String>) {
    match key {
        ("", "Endpoints") => {
            for (index, subset) in object.list("subsets").iter().enumerate() {
                for part in ["addresses", "notReadyAddresses"] {
                    named(subset, part, &format!("subsets[{index}].{part}"), said);
                }
            }
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            for (index, endpoint) in object.list("endpoints").iter().enumerate() {
                plain(endpoint, "addresses", &format!("endpoints[{index}].addresses"), said);
            }
        }
        ("", "Node") => ranges(&object["spec"], "podCIDRs", "spec.podCIDRs", said),
        ("networking.k8s.io", "NetworkPolicy") => {
            for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
                for (index, rule) in object["spec"].list(rules).iter().enumerate() {
                    for (peer_index, peer) in rule.list(peers).iter().enumerate() {
                        let place = format!("spec.{rules}[{index}].{peers}[{peer_index}].ipBlock");
                        said.extend(range(peer["ipBlock"].text("cidr"), &format!("{place}.cidr")));
                        ranges(&peer["ipBlock"], "except", &format!("{place}.except"), said);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Warnings about the addresses in a status.
pub fn of_status(key: (&str, &str), object: &Value, said: &mut Vec<String>) {
    let status = &object["status"];
    match key {
        ("", "Pod") => {
            named(status, "podIPs", "status.podIPs", said);
            named(status, "hostIPs", "status.hostIPs", said);
        }
        ("", "Service") | ("networking.k8s.io", "Ingress") => {
            for (index, entry) in status["loadBalancer"].list("ingress").iter().enumerate() {
                said.extend(address(entry.text("ip"), &format!("status.loadBalancer.ingress[{index}]")));
            }
        }
        _ => {}
    }
}

/// Warnings about the addresses in the spec of a pod; `prefix` leads to it.
pub fn of_pod(prefix: &str, spec: &Value, said: &mut Vec<String>) {
    plain(&spec["dnsConfig"], "nameservers", &format!("{prefix}spec.dnsConfig.nameservers"), said);
    named(spec, "hostAliases", &format!("{prefix}spec.hostAliases"), said);
}

/// Addresses as a list of texts.
pub fn plain(of: &Value, list: &str, place: &str, said: &mut Vec<String>) {
    for (index, one) in of.list(list).iter().enumerate() {
        said.extend(address(one.as_str().unwrap_or_default(), &format!("{place}[{index}]")));
    }
}

/// Addresses that are each the `ip` of something.
fn named(of: &Value, list: &str, place: &str, said: &mut Vec<String>) {
    for (index, one) in of.list(list).iter().enumerate() {
        said.extend(address(one.text("ip"), &format!("{place}[{index}].ip")));
    }
}

/// Ranges as a list of texts.
pub fn ranges(of: &Value, list: &str, place: &str, said: &mut Vec<String>) {
    for (index, one) in of.list(list).iter().enumerate() {
        said.extend(range(one.as_str().unwrap_or_default().trim(), &format!("{place}[{index}]")));
    }
}

/// Returns the warning about an address.
pub fn address(text: &str, place: &str) -> Option<String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        let usual = address.to_string();
        let unusual = address.is_ipv6() && usual != text;
        return unusual
            .then(|| format!("{place}: IPv6 address {text:?} should be in RFC 5952 canonical format ({usual:?})"));
    }
    let usual = without_zeros(text)?;
    Some(format!("{place}: non-standard IP address {text:?} is invalid: use \"{usual}\""))
}

/// Returns an IPv4 address some of whose numbers begin with zeros, without these.
fn without_zeros(text: &str) -> Option<IpAddr> {
    let parts: Vec<String> =
        text.split('.').map(|part| part.parse::<u8>().map(|part| part.to_string()).ok()).collect::<Option<_>>()?;
    parts.join(".").parse().ok()
}

fn range(text: &str, place: &str) -> Option<String> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let usual = format!("{address}/{bits}");
    let unusual = address.is_ipv6() && usual != text;
    unusual.then(|| format!("{place}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({usual:?})"))
}
