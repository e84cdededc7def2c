//! The first state of pods, and values that are derived from their requests.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::WriteContext;
use super::super::quantity::Quantity;
use super::super::times::{self, Precision};
use super::super::value_ext::{ValueExt, put_missing, remove, restore};

/// Returns the quality of service of a pod: `Guaranteed`, `Burstable` or `BestEffort`.
#[must_use]
pub fn quality_of_service(spec: &Value) -> &'static str {
    if spec["resources"].has("requests") || spec["resources"].has("limits") {
        return of_amounts(&spec["resources"]);
    }
    let containers: Vec<&Value> = ["initContainers", "containers"].iter().flat_map(|name| spec.list(name)).collect();
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    let mut guaranteed = true;
    for container in containers {
        let resources = &container["resources"];
        add(&mut requests, resources.entries("requests"));
        let limited = add(&mut limits, resources.entries("limits"));
        guaranteed &= limited == 2;
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let same =
        |(name, request): (&&str, &Vec<Quantity>)| limits.get(name).is_some_and(|limit| total(limit) == total(request));
    if guaranteed && requests.len() == limits.len() && requests.iter().all(same) { "Guaranteed" } else { "Burstable" }
}

fn of_amounts(resources: &Value) -> &'static str {
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    add(&mut requests, resources.entries("requests"));
    let limited = add(&mut limits, resources.entries("limits"));
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let same =
        |(name, request): (&&str, &Vec<Quantity>)| limits.get(name).is_some_and(|limit| total(limit) == total(request));
    if limited == 2 && requests.len() == limits.len() && requests.iter().all(same) { "Guaranteed" } else { "Burstable" }
}

/// Adds up processor and memory; how many of the two there are more than none of.
fn add(to: &mut BTreeMap<&'static str, Vec<Quantity>>, amounts: &serde_json::Map<String, Value>) -> usize {
    let mut found = 0;
    for name in ["cpu", "memory"] {
        let amount = amounts.get(name).and_then(Value::as_str).and_then(|text| Quantity::parse(text).ok());
        if let Some(amount) = amount.filter(|amount| amount.sign() > 0) {
            to.entry(name).or_default().push(amount);
            found += 1;
        }
    }
    found
}

fn total(amounts: &[Quantity]) -> i128 {
    amounts.iter().map(|amount| i128::from(amount.thousandths())).sum()
}

/// Sets a new pod's status, and the conditions of one that may not be scheduled yet.
pub fn create(write: &WriteContext<'_>, pod: &mut Value) {
    remove(pod, "status");
    take_label_keys(pod);
    pod["status"] = json!({ "phase": "Pending", "qosClass": quality_of_service(&pod["spec"]) });
    if !pod["spec"].list("schedulingGates").is_empty() {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": times::write(write.now, Precision::Seconds),
        }]);
    }
}

/// Turns `matchLabelKeys` into parts of the selectors that they belong to, by the pod's own labels.
fn take_label_keys(pod: &mut Value) {
    let labels = pod["metadata"].entries("labels").clone();
    let spec = &mut pod["spec"];
    for constraint in items_mut(spec, "topologySpreadConstraints") {
        add_keys(constraint, "matchLabelKeys", "In", &labels);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else { continue };
        for term in items_mut(terms, "requiredDuringSchedulingIgnoredDuringExecution") {
            add_keys(term, "matchLabelKeys", "In", &labels);
            add_keys(term, "mismatchLabelKeys", "NotIn", &labels);
        }
        for weighted in items_mut(terms, "preferredDuringSchedulingIgnoredDuringExecution") {
            add_keys(&mut weighted["podAffinityTerm"], "matchLabelKeys", "In", &labels);
            add_keys(&mut weighted["podAffinityTerm"], "mismatchLabelKeys", "NotIn", &labels);
        }
    }
}

fn items_mut<'a>(of: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    of.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

fn add_keys(term: &mut Value, keys: &str, operator: &str, labels: &serde_json::Map<String, Value>) {
    if !term.has("labelSelector") {
        return;
    }
    let keys: Vec<String> = term.list(keys).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    for key in keys {
        let Some(value) = labels.get(&key) else { continue };
        let selector = &mut term["labelSelector"];
        put_missing(selector, "matchExpressions", json!([]));
        if let Value::Array(expressions) = &mut selector["matchExpressions"] {
            expressions.push(json!({ "key": key, "operator": operator, "values": [value] }));
        }
    }
}

/// Takes away fields of features that are off.
pub fn drop_disabled(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    remove(spec, "schedulingGroup");
    for volume in items_mut(spec, "volumes") {
        let Some(projected) = volume.get_mut("projected") else { continue };
        for source in items_mut(projected, "sources") {
            remove(source, "clusterTrustBundle");
            remove(source, "podCertificate");
        }
    }
    for containers in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten() {
            if container["lifecycle"].has("stopSignal") {
                remove(&mut container["lifecycle"], "stopSignal");
                if container["lifecycle"].as_object().is_some_and(serde_json::Map::is_empty) {
                    remove(container, "lifecycle");
                }
            }
        }
    }
}

/// Restores the fields that a write of a pod's status leaves alone.
pub fn status(old: &Value, pod: &mut Value) {
    remove(&mut pod["metadata"], "deletionTimestamp");
    remove(&mut pod["status"], "nodeAllocatableResourceClaimStatuses");
    if pod["status"].text("qosClass").is_empty() {
        restore(&mut pod["status"], &old["status"], "qosClass");
    }
}

/// Adds the defaults of admission to every new pod.
pub fn admit(pod: &mut Value) {
    let spec = &mut pod["spec"];
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |toleration: &Value| {
            let effect = toleration.text("effect");
            (toleration.text("key") == key || toleration.text("key").is_empty())
                && (effect == "NoExecute" || effect.is_empty())
        };
        if !spec.list("tolerations").iter().any(tolerates) {
            put_missing(spec, "tolerations", json!([]));
            if let Value::Array(tolerations) = &mut spec["tolerations"] {
                tolerations.push(json!({
                    "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
                }));
            }
        }
    }
}
