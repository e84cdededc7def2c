//! The surroundings of the workload: nodes that its pods fit on, and the objects that its pods name. Objects that are
//! not in its files are assumed to exist, and reported.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use serde_json::{Map, Value, json};

use super::input::SimulationInput;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::service_account;
use minicluster::NodeSpec;

/// Nodes, unless more are needed or it is said.
const NODES: usize = 3;
/// Nodes there are at most, unless it is said.
const MOST_NODES: usize = 5000;
/// Pods for which a node has room beside others, as on a real one.
const PODS: usize = 100;

/// The objects that exist before the workload comes.
pub(super) struct Surroundings {
    pub nodes: Vec<NodeSpec>,
    /// Objects to create, in order.
    pub provided: Vec<(ObjectKey, Value)>,
    /// Those of them that no file holds.
    pub assumed: Vec<String>,
}

/// Collects the objects around a workload before and after its change.
pub(super) fn set(
    scene: &SimulationInput,
    before: Option<&Value>,
    after: &Value,
    nodes: Option<NonZeroUsize>,
) -> Surroundings {
    let both: Vec<&Value> = before.into_iter().chain([after]).collect();
    let mut provided = Vec::new();
    let mut assumed = Vec::new();
    let namespace = scene.key.namespace.clone().unwrap_or_default();
    let namespaces: BTreeSet<&String> =
        scene.others.iter().filter_map(|(key, _)| key.namespace.as_ref()).chain([&namespace]).collect();
    for name in namespaces {
        provided.push(object("", "v1", "Namespace", None, name, Value::Null));
    }
    let mut others: Vec<_> = scene.others.iter().filter(|(key, _)| key.kind != "Namespace").cloned().collect();
    // Definitions and configuration first; the rest as it is written.
    others.sort_by_key(|(key, _)| match key.kind.as_str() {
        "CustomResourceDefinition" | "PriorityClass" => 0,
        "ConfigMap" | "Secret" | "ServiceAccount" => 1,
        _ => 2,
    });
    provided.extend(others);
    for (kind, name, keys) in named(&both) {
        let there = scene.others.iter().any(|(key, _)| key.kind == kind && key.name == name);
        if !there {
            assumed.push(format!("{kind} {name}"));
            provided.push(stand_in(kind, &namespace, &name, &keys));
        }
    }
    Surroundings { nodes: fitting(&both, nodes), provided, assumed }
}

fn object(
    group: &str,
    version: &str,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
    more: Value,
) -> (ObjectKey, Value) {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if let Value::Object(more) = more {
        value.as_object_mut().into_iter().for_each(|object| object.extend(more.clone()));
    }
    let key = ObjectKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    (key, value)
}

fn stand_in(kind: &str, namespace: &str, name: &str, keys: &BTreeSet<String>) -> (ObjectKey, Value) {
    let values: Map<String, Value> = keys.iter().map(|key| (key.clone(), json!(""))).collect();
    match kind {
        "PriorityClass" => object("scheduling.k8s.io", "v1", kind, None, name, json!({"value": 0})),
        "RuntimeClass" => object("node.k8s.io", "v1", kind, None, name, json!({"handler": "simulated"})),
        "ServiceAccount" => object("", "v1", kind, Some(namespace), name, Value::Null),
        "Secret" => object("", "v1", kind, Some(namespace), name, json!({"stringData": values})),
        _ => object("", "v1", kind, Some(namespace), name, json!({"data": values})),
    }
}

/// Returns the objects that the pods of these workloads can't do without: kind, name, keys.
fn named(workloads: &[&Value]) -> Vec<(&'static str, String, BTreeSet<String>)> {
    let mut found: BTreeMap<(&'static str, String), BTreeSet<String>> = BTreeMap::new();
    let mut add = |kind: &'static str, name: &Value, key: &Value| {
        if let Some(name) = name.as_str().filter(|name| !name.is_empty()) {
            let keys = found.entry((kind, name.to_owned())).or_default();
            keys.extend(key.as_str().map(str::to_owned));
        }
    };
    for workload in workloads {
        let spec = &workload["spec"]["template"]["spec"];
        if spec["priorityClassName"].as_str().is_none_or(|name| !name.starts_with("system-")) {
            add("PriorityClass", &spec["priorityClassName"], &Value::Null);
        }
        add("RuntimeClass", &spec["runtimeClassName"], &Value::Null);
        if let Some((field, _)) = service_account(spec).filter(|(_, name)| *name != "default") {
            add("ServiceAccount", &spec[field], &Value::Null);
        }
        let containers = ["containers", "initContainers"].into_iter().flat_map(|list| items(&spec[list]));
        for container in containers {
            for source in items(&container["envFrom"]) {
                add("ConfigMap", &source["configMapRef"]["name"], &Value::Null);
                add("Secret", &source["secretRef"]["name"], &Value::Null);
            }
            for source in items(&container["env"]).map(|variable| &variable["valueFrom"]) {
                let (map, secret) = (&source["configMapKeyRef"], &source["secretKeyRef"]);
                add("ConfigMap", &map["name"], &map["key"]);
                add("Secret", &secret["name"], &secret["key"]);
            }
        }
        for volume in items(&spec["volumes"]) {
            let sources = items(&volume["projected"]["sources"]).chain([volume]);
            for source in sources {
                for (kind, field, name) in [
                    ("ConfigMap", "configMap", "name"),
                    ("Secret", "secret", "secretName"),
                    ("Secret", "secret", "name"),
                ] {
                    add(kind, &source[field][name], &Value::Null);
                    items(&source[field]["items"]).for_each(|item| add(kind, &source[field][name], &item["key"]));
                }
            }
        }
    }
    found.into_iter().map(|((kind, name), keys)| (kind, name, keys)).collect()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Nodes on which the pods fit, whatever they ask for.
fn fitting(workloads: &[&Value], wanted: Option<NonZeroUsize>) -> Vec<NodeSpec> {
    let mut labels = BTreeMap::new();
    let mut resources = BTreeMap::new();
    let mut alone = false;
    let mut pods = 0;
    for workload in workloads {
        let spec = &workload["spec"]["template"]["spec"];
        for (name, value) in spec["nodeSelector"].as_object().into_iter().flatten() {
            labels.insert(name.clone(), value.as_str().unwrap_or_default().to_owned());
        }
        let terms = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        for expression in items(&terms["nodeSelectorTerms"]).take(1).flat_map(|term| items(&term["matchExpressions"])) {
            let (Some(key), operator) = (expression["key"].as_str(), expression["operator"].as_str()) else { continue };
            if matches!(operator, Some("In" | "Exists")) {
                let value = expression["values"][0].as_str().unwrap_or_default();
                labels.insert(key.to_owned(), value.to_owned());
            }
        }
        for container in ["containers", "initContainers"].into_iter().flat_map(|list| items(&spec[list])) {
            let requests = ["requests", "limits"]
                .into_iter()
                .flat_map(|list| container["resources"][list].as_object().into_iter().flatten().map(|(name, _)| name));
            let extended = requests.filter(|name| name.contains('/'));
            resources.extend(extended.map(|name| (name.clone(), "1M".to_owned())));
            alone |= items(&container["ports"]).any(|port| port["hostPort"].is_u64());
        }
        alone |= spec["hostNetwork"] == true;
        let apart = &spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        alone |= items(apart).next().is_some();
        pods = pods.max(most_pods(workload));
    }
    let needed = if alone { pods + 1 } else { pods.div_ceil(PODS) + 1 };
    let count = wanted.map_or(needed.clamp(NODES, MOST_NODES), NonZeroUsize::get);
    let node = |mut node: NodeSpec| {
        let zone = node.name.bytes().next_back().unwrap_or_default() % 3;
        let zone = ["zone-a", "zone-b", "zone-c"][usize::from(zone)];
        node.labels.insert("topology.kubernetes.io/zone".to_owned(), zone.to_owned());
        node.labels.extend(labels.clone());
        node.resources.extend(resources.clone());
        NodeSpec { cpu: "1M".to_owned(), memory: "1Pi".to_owned(), ..node }
    };
    NodeSpec::several(count).into_iter().map(node).collect()
}

/// Returns the largest number of pods of a workload at once, those that are being deleted included.
fn most_pods(workload: &Value) -> usize {
    let replicas = match workload["kind"].as_str() {
        Some("Job") => workload["spec"]["parallelism"].as_u64(),
        Some("DaemonSet") => Some(0),
        _ => workload["spec"]["replicas"].as_u64(),
    };
    let surge = &workload["spec"]["strategy"]["rollingUpdate"]["maxSurge"];
    let replicas = usize::try_from(replicas.unwrap_or(1)).unwrap_or(usize::MAX);
    // Old pods stop while new ones start.
    replicas.saturating_mul(2).saturating_add(usize::try_from(surge.as_u64().unwrap_or(0)).unwrap_or(usize::MAX))
}
