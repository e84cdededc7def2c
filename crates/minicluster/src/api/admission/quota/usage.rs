//! The use of an object, as quotas limit it.

use serde_json::Value;

use crate::api::admission::resources::{ResourceAmounts, amount, of_pod};
use crate::api::json_pointer::text;
use crate::api::resource::Resource;
use kube_rules::Quantity;

/// Core kinds that are also counted under their plain name.
const PLAIN: [&str; 6] =
    ["configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"];

/// Amounts that quotas know under a shorter name too.
const SHORT: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Returns the use of an object.
pub(super) fn usage(resource: &Resource, object: &Value) -> ResourceAmounts {
    let one = || Quantity::from_whole(1);
    let mut used = ResourceAmounts::from([(count_name(resource), one())]);
    if resource.is("", "pods") {
        if !has_ended(object) {
            used.insert("pods".to_owned(), one());
            used.extend(of_running_pod(object));
        }
        return used;
    }
    let plural = resource.definition.resource.as_str();
    if resource.definition.group.is_empty() && resource.custom.is_none() && PLAIN.contains(&plural) {
        used.insert(plural.to_owned(), one());
    }
    if resource.is("", "services") {
        let ports = object["spec"]["ports"].as_array().map_or(0, Vec::len);
        let ports = i64::try_from(ports).unwrap_or(i64::MAX);
        match text(object, "/spec/type") {
            "NodePort" => drop(used.insert("services.nodeports".to_owned(), Quantity::from_whole(ports))),
            "LoadBalancer" => {
                used.insert("services.loadbalancers".to_owned(), one());
                if object["spec"]["allocateLoadBalancerNodePorts"] != false {
                    used.insert("services.nodeports".to_owned(), Quantity::from_whole(ports));
                }
            }
            _ => {}
        }
    }
    if resource.is("", "persistentvolumeclaims") {
        let class = text(object, "/spec/storageClassName");
        let of_class = |name: &str| format!("{class}.storageclass.storage.k8s.io/{name}");
        if !class.is_empty() {
            used.insert(of_class("persistentvolumeclaims"), one());
        }
        if let Some(storage) = amount(&object["spec"]["resources"]["requests"]["storage"]) {
            if !class.is_empty() {
                used.insert(of_class("requests.storage"), storage.clone());
            }
            used.insert("requests.storage".to_owned(), storage);
        }
    }
    used
}

/// Returns true when objects of a resource may use something that a quota names.
pub(super) fn may_count(resource: &Resource, name: &str) -> bool {
    if name == count_name(resource) {
        return true;
    }
    let core = |plural: &str| resource.is("", plural);
    if name.starts_with("services") {
        return core("services");
    }
    if PLAIN.contains(&name) {
        return core(name);
    }
    if name == "requests.storage" || name.contains(".storageclass.storage.k8s.io/") {
        return core("persistentvolumeclaims");
    }
    core("pods") && !name.starts_with("count/")
}

/// Returns `count/deployments.apps`
fn count_name(resource: &Resource) -> String {
    let definition = &resource.definition;
    match definition.group.as_str() {
        "" => format!("count/{}", definition.resource),
        group => format!("count/{}.{group}", definition.resource),
    }
}

/// Returns the limited amounts that a pod's containers do not name; `None` if they name all.
pub(super) fn missing(resource: &Resource, object: &Value, hard: &ResourceAmounts) -> Option<String> {
    if !resource.is("", "pods") {
        return None;
    }
    let spec = &object["spec"];
    let containers: Vec<&Value> =
        ["containers", "initContainers"].iter().flat_map(|part| spec[*part].as_array().into_iter().flatten()).collect();
    let mut wrong = Vec::new();
    for name in hard.keys() {
        let (part, amount) = match name.split_once('.') {
            Some((part @ ("requests" | "limits"), amount)) => (part, amount),
            _ if SHORT.contains(&name.as_str()) => ("requests", name.as_str()),
            _ => continue,
        };
        if !SHORT.contains(&amount) || spec["resources"][part].get(amount).is_some() {
            continue;
        }
        let silent = containers.iter().filter(|container| container["resources"][part].get(amount).is_none());
        let silent: Vec<&str> = silent.map(|container| text(container, "/name")).collect();
        if !silent.is_empty() {
            wrong.push(format!("{name} for: {}", silent.join(",")));
        }
    }
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

fn of_running_pod(pod: &Value) -> ResourceAmounts {
    let mut used = ResourceAmounts::new();
    for (part, prefix) in [("requests", "requests."), ("limits", "limits.")] {
        for (name, amount) in of_pod(&pod["spec"], part) {
            if part == "requests" && (SHORT.contains(&name.as_str()) || name.starts_with("hugepages-")) {
                used.insert(name.clone(), amount.clone());
            }
            used.insert(format!("{prefix}{name}"), amount);
        }
    }
    used
}
