//! The warnings about services.

use serde_json::Value;

use super::super::value_ext::ValueExt;
use super::addresses::{address, plain, ranges};

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";

/// Warnings about a service, new or changed.
pub fn warnings(service: &Value, said: &mut Vec<String>) {
    let spec = &service["spec"];
    if service["metadata"]["annotations"].has(HINTS) {
        said.push(format!("annotation {HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"));
    }
    let named = spec.text("type") == "ExternalName";
    let headless = !named && spec.list("clusterIPs").first().is_some_and(|first| first == "None");
    let outside = !spec.list("externalIPs").is_empty();
    if headless {
        let ignored = [
            ("loadBalancerIP", !spec.text("loadBalancerIP").is_empty()),
            ("externalIPs", outside),
            ("SessionAffinity", spec.text("sessionAffinity") != "None"),
        ];
        for (name, _) in ignored.iter().filter(|(_, given)| *given) {
            said.push(format!("spec.{name} is ignored for headless services"));
        }
    } else if !named {
        plain(spec, "clusterIPs", "spec.clusterIPs", said);
    }
    plain(spec, "externalIPs", "spec.externalIPs", said);
    if outside && named {
        said.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    } else if outside && !headless {
        said.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !named {
        said.extend(address(spec.text("loadBalancerIP"), "spec.loadBalancerIP"));
        ranges(spec, "loadBalancerSourceRanges", "spec.loadBalancerSourceRanges", said);
        if !spec.text("externalName").is_empty() {
            said.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::warnings;

    #[test]
    fn addresses_are_written_as_usual() {
        let service = json!({ "spec": {
            "type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "loadBalancerIP": "010.1.1.1",
            "loadBalancerSourceRanges": ["fd00:0::/64", "10.0.0.0/24"],
        } });
        let mut said = Vec::new();
        warnings(&service, &mut said);
        let expected = [
            "spec.loadBalancerIP: non-standard IP address \"010.1.1.1\" is invalid: use \"10.1.1.1\"",
            "spec.loadBalancerSourceRanges[0]: IPv6 CIDR value \"fd00:0::/64\" should be in RFC 5952 canonical format \
             (\"fd00::/64\")",
        ];
        assert_eq!(said, expected);
    }
}
