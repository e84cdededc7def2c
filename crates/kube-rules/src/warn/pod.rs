//! The warnings about pods and pod templates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::quantity::Quantity;
use super::super::value_ext::ValueExt;
use super::super::words::quote;
use super::addresses;
use super::deprecated_volumes::DEPRECATED_VOLUMES;
use super::nodes::{Weight, node_term, old};

/// The most warnings of ports: more than an answer has room for.
const MOST: usize = 4_096;
/// Annotations that became fields.
const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];

/// Warnings about a pod or a template; `prefix` leads to it, `spec.template.`.
pub fn warnings(prefix: &str, pod: &Value, warnings: &mut Vec<String>) {
    let spec = &pod["spec"];
    placement(prefix, spec, warnings);
    for (key, said) in OLD_ANNOTATIONS {
        if pod["metadata"]["annotations"].has(key) {
            warnings.push(format!("{prefix}metadata.annotations[{key}]: {said}"));
        }
    }
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        for (plugin, said) in DEPRECATED_VOLUMES.iter().filter(|(plugin, _)| volume.has(plugin)) {
            warnings.push(format!("{prefix}spec.volumes[{index}].{plugin}: {said}"));
        }
    }
    repeated(prefix, spec, "hostAliases", "ip", warnings);
    repeated(prefix, spec, "imagePullSecrets", "name", warnings);
    for (index, secret) in spec.list("imagePullSecrets").iter().enumerate() {
        if secret.text("name").is_empty() {
            warnings.push(format!("{prefix}spec.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    for resource in ["memory", "ephemeral-storage"] {
        fraction(&spec["overhead"], resource, &format!("{prefix}spec.overhead"), warnings);
    }
    for (at, container) in containers(prefix, spec) {
        for resource in ["memory", "ephemeral-storage"] {
            for amounts in ["limits", "requests"] {
                fraction(&container["resources"][amounts], resource, &format!("{at}.resources.{amounts}"), warnings);
            }
        }
        hidden(&at, container, warnings);
    }
    ports(prefix, spec, warnings);
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let said = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{prefix}spec.terminationGracePeriodSeconds: {said}"));
    }
    affinity(prefix, spec, warnings);
    addresses::of_pod(prefix, spec, warnings);
}

/// Returns every container and the way to it.
fn containers<'a>(prefix: &str, spec: &'a Value) -> Vec<(String, &'a Value)> {
    let kinds = ["initContainers", "containers", "ephemeralContainers"];
    let of_kind = |kind: &'static str| {
        let items = spec.list(kind).iter().enumerate();
        items.map(move |(index, container)| (format!("{prefix}spec.{kind}[{index}]"), container))
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

fn placement(prefix: &str, spec: &Value, warnings: &mut Vec<String>) {
    for key in spec.entries("nodeSelector").keys() {
        if let Some(said) = old(key) {
            warnings.push(format!("{prefix}spec.nodeSelector[{key}]: {said}"));
        }
    }
    let nodes = &spec["affinity"]["nodeAffinity"];
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in nodes[required].list("nodeSelectorTerms").iter().enumerate() {
        let at = format!("{prefix}spec.affinity.nodeAffinity.{required}.nodeSelectorTerms[{index}]");
        node_term(term, &at, Weight::Required, warnings);
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (index, weighted) in nodes.list(preferred).iter().enumerate() {
        let at = format!("{prefix}spec.affinity.nodeAffinity.{preferred}[{index}].preference");
        node_term(&weighted["preference"], &at, Weight::Preferred, warnings);
    }
    for (index, constraint) in spec.list("topologySpreadConstraints").iter().enumerate() {
        let at = format!("{prefix}spec.topologySpreadConstraints[{index}]");
        if let Some(said) = old(constraint.text("topologyKey")) {
            warnings.push(format!("{at}.topologyKey: {said}"));
        }
        if !constraint.has("labelSelector") {
            warnings.push(format!("{at}.labelSelector: a null labelSelector results in matching no pod"));
        }
    }
}

fn repeated(prefix: &str, spec: &Value, list: &str, key: &str, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, item) in spec.list(list).iter().enumerate() {
        let value = item.text(key);
        if !seen.insert(value) {
            warnings.push(format!("{prefix}spec.{list}[{index}].{key}: duplicate {key} {}", quote(value)));
        }
    }
}

/// Bytes come whole.
fn fraction(amounts: &Value, resource: &str, at: &str, warnings: &mut Vec<String>) {
    let Some(text) = amounts.get(resource).and_then(Value::as_str) else { return };
    if Quantity::parse(text).is_ok_and(|amount| !amount.is_whole()) {
        let said = format!("fractional byte value {} is invalid, must be an integer", quote(text));
        warnings.push(format!("{at}[{resource}]: {said}"));
    }
}

/// Warns of a variable that is set twice, unless the second value is made of the first.
fn hidden(at: &str, container: &Value, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, variable) in container.list("env").iter().enumerate() {
        let name = variable.text("name");
        let refers = !variable.has("valueFrom") && variable.text("value").contains(&format!("$({name})"));
        if !seen.insert(name) && !refers {
            let said = format!("hides previous definition of {}, which may be dropped when using apply", quote(name));
            warnings.push(format!("{at}.env[{index}]: {said}"));
        }
    }
}

fn ports(prefix: &str, spec: &Value, warnings: &mut Vec<String>) {
    let mut known: BTreeMap<(i64, &str), PortsBefore<'_>> = BTreeMap::new();
    for (container_at, container) in containers(prefix, spec) {
        for (index, port) in container.list("ports").iter().enumerate() {
            let at = format!("{container_at}.ports[{index}]");
            let (host_ip, host_port) = (port.text("hostIP"), port.int("hostPort").unwrap_or_default());
            let number = port.int("containerPort").unwrap_or_default();
            if !host_ip.is_empty() && host_port == 0 {
                warnings.push(format!(
                    "{at}: hostIP set without hostPort: {{Name:{} HostPort:{host_port} ContainerPort:{number} Protocol:{} \
                     HostIP:{host_ip}}}",
                    port.text("name"),
                    port.text("protocol")
                ));
            }
            let before = known.entry((number, port.text("protocol"))).or_default();
            for other in before.meeting(host_ip, host_port) {
                if warnings.len() >= MOST {
                    return;
                }
                let (other_at, other_ip, other_port) = &before.ports[other];
                let what = if host_ip == *other_ip && host_port == *other_port {
                    "duplicate"
                } else if host_port == 0 || *other_port == 0 {
                    "overlapping"
                } else {
                    "dangerously ambiguous"
                };
                warnings.push(format!("{at}: {what} port definition with {other_at}"));
            }
            before.push(at, host_ip, host_port);
        }
    }
}

/// The ports of one number and protocol that were looked at before.
#[derive(Default)]
struct PortsBefore<'a> {
    /// The place of each, its address and its number on the host.
    ports: Vec<(String, &'a str, i64)>,
    /// The same by number on the host and address.
    by_host: BTreeMap<i64, BTreeMap<&'a str, Vec<usize>>>,
}

impl<'a> PortsBefore<'a> {
    fn push(&mut self, at: String, host_ip: &'a str, host_port: i64) {
        let index = self.ports.len();
        self.ports.push((at, host_ip, host_port));
        self.by_host.entry(host_port).or_default().entry(host_ip).or_default().push(index);
    }

    /// Those that a port has something to do with, in their order: with another number or address of the host it has not.
    fn meeting(&self, host_ip: &str, host_port: i64) -> BTreeSet<usize> {
        if host_port == 0 {
            return (0..self.ports.len().min(MOST)).collect();
        }
        let anywhere = self.by_host.get(&0).into_iter().flat_map(BTreeMap::values);
        let same_port = self.by_host.get(&host_port).into_iter().flatten();
        let same = same_port.filter(|(ip, _)| **ip == host_ip || ip.is_empty() != host_ip.is_empty());
        anywhere.chain(same.map(|(_, ports)| ports)).flatten().copied().take(MOST).collect()
    }
}

fn affinity(prefix: &str, spec: &Value, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let at = format!("{prefix}spec.affinity.{kind}");
        let terms = &spec["affinity"][kind];
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (index, term) in terms.list(required).iter().enumerate() {
            if !term.has("labelSelector") {
                let said = "a null labelSelector results in matching no pod";
                warnings.push(format!("{at}.{required}[{index}].labelSelector: {said}"));
            }
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (index, weighted) in terms.list(preferred).iter().enumerate() {
            if !weighted["podAffinityTerm"].has("labelSelector") {
                let said = "a null labelSelector results in matching no pod";
                warnings.push(format!("{at}.{preferred}[{index}].podAffinityTerm.labelSelector: {said}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::value_ext::LOOKS;
    use super::*;

    fn said(ports: impl IntoIterator<Item = Value>) -> Vec<String> {
        let spec = json!({ "containers": [{ "ports": ports.into_iter().collect::<Value>() }] });
        let mut said = Vec::new();
        super::ports("", &spec, &mut said);
        said
    }

    #[test]
    fn ports_that_meet_are_told() {
        let port = |ip: &str, port: i64| json!({ "containerPort": 1, "hostIP": ip, "hostPort": port });
        let ports = [port("", 7), port("1.1.1.1", 7), port("2.2.2.2", 7), port("", 8), port("", 0), port("1.1.1.1", 7)];
        let at = |index: usize, what: &str, other: usize| {
            format!("spec.containers[0].ports[{index}]: {what} port definition with spec.containers[0].ports[{other}]")
        };
        let mut expected = vec![at(1, "dangerously ambiguous", 0), at(2, "dangerously ambiguous", 0)];
        expected.extend((0..4).map(|other| at(4, "overlapping", other)));
        expected.extend([at(5, "dangerously ambiguous", 0), at(5, "duplicate", 1), at(5, "overlapping", 4)]);
        assert_eq!(said(ports), expected);
    }

    #[test]
    fn each_port_is_looked_at_once() {
        const PORTS: usize = 2_000;
        let before = LOOKS.get();
        let different = |number: usize| json!({ "containerPort": 1, "hostPort": number + 1 });
        assert_eq!(said((0..PORTS).map(different)), Vec::<String>::new());
        assert!(LOOKS.get() - before < 20 * PORTS as u64, "{} fields are looked for", LOOKS.get() - before);
        assert_eq!(said((0..PORTS).map(|_| json!({ "containerPort": 1 }))).len(), MOST);
    }
}
