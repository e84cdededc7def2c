//! The use of objects, as quotas limit it. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;
use kube_rules::Quantity;

use super::Amounts;
use crate::controllers::pod::{Pod, PodContainer};

/// The resources that quotas know under their plain names as requests.
const SHORT: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Kinds that are counted under their plain names as well. Pods, services and claims are counted elsewhere.
const PLAIN: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];
const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Returns the use of a pod: one that has ended is only counted.
pub fn of_pod(pod: &Pod) -> Amounts {
    let mut used = Amounts::from([("count/pods".to_owned(), Quantity::from_whole(1))]);
    if pod.is_finished() {
        return used;
    }
    used.insert("pods".to_owned(), Quantity::from_whole(1));
    for (name, amount) in of_containers(pod, requests) {
        if SHORT.contains(&name.as_str()) || name.starts_with("hugepages-") {
            used.insert(name.clone(), amount.clone());
        }
        used.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in of_containers(pod, limits) {
        used.insert(format!("limits.{name}"), amount);
    }
    used
}

/// Returns the use of a service.
pub fn of_service(service: &Service) -> Amounts {
    let mut used = Amounts::new();
    for name in ["services", "count/services"] {
        used.insert(name.to_owned(), Quantity::from_whole(1));
    }
    let Some(spec) = &service.spec else { return used };
    let ports = i64::try_from(spec.ports.as_ref().map_or(0, Vec::len)).unwrap_or(i64::MAX);
    let has_node_ports = match spec.type_.as_deref() {
        Some("NodePort") => true,
        Some("LoadBalancer") => {
            used.insert("services.loadbalancers".to_owned(), Quantity::from_whole(1));
            spec.allocate_load_balancer_node_ports != Some(false)
        }
        _ => false,
    };
    if has_node_ports {
        used.insert("services.nodeports".to_owned(), Quantity::from_whole(ports));
    }
    used
}

/// Returns the use of a claim.
pub fn of_claim(claim: &PersistentVolumeClaim) -> Amounts {
    let mut used = Amounts::new();
    for name in ["persistentvolumeclaims", "count/persistentvolumeclaims"] {
        used.insert(name.to_owned(), Quantity::from_whole(1));
    }
    let Some(spec) = &claim.spec else { return used };
    let class = spec.storage_class_name.as_deref().filter(|class| !class.is_empty());
    if let Some(class) = class {
        used.insert(format!("{class}{STORAGE_CLASS}persistentvolumeclaims"), Quantity::from_whole(1));
    }
    let asked = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()?.get("storage"));
    if let Some(storage) = asked.and_then(|amount| Quantity::parse(&amount.0).ok()) {
        if let Some(class) = class {
            used.insert(format!("{class}{STORAGE_CLASS}requests.storage"), storage.clone());
        }
        used.insert("requests.storage".to_owned(), storage);
    }
    used
}

/// Returns true when a quota's name is a number of objects that are neither pods, services nor claims.
pub fn is_counted_by_number(name: &str) -> bool {
    let counted_elsewhere = ["count/pods", "count/services", "count/persistentvolumeclaims"];
    PLAIN.contains(&name) || (name.starts_with("count/") && !counted_elsewhere.contains(&name))
}

/// Returns true when `name` in a quota means the number of objects of this kind.
pub fn names(name: &str, group: &str, plural: &str) -> bool {
    match name.strip_prefix("count/") {
        Some(counted) if group.is_empty() => counted == plural,
        Some(counted) => counted.strip_prefix(plural).and_then(|rest| rest.strip_prefix('.')) == Some(group),
        None => group.is_empty() && name == plural,
    }
}

/// Returns true when a scope of a quota covers a pod.
pub fn describes(scope: &str, operator: &str, values: &[String], pod: &Pod) -> bool {
    let ends = pod.spec.active_deadline_seconds.is_some();
    match scope {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => {
            let class = pod.spec.priority_class_name.as_deref().unwrap_or_default();
            match operator {
                "In" => values.iter().any(|value| value == class),
                "NotIn" => !values.iter().any(|value| value == class),
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => false,
    }
}

fn is_best_effort(pod: &Pod) -> bool {
    let all = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    all.flat_map(|container| [requests(container), limits(container)])
        .all(|amounts| amounts.is_none_or(BTreeMap::is_empty))
}

type ResourceUsage = BTreeMap<String, Written>;

fn requests(container: &PodContainer) -> Option<&ResourceUsage> {
    container.resources.as_ref()?.requests.as_ref()
}

fn limits(container: &PodContainer) -> Option<&ResourceUsage> {
    container.resources.as_ref()?.limits.as_ref()
}

/// Returns the sum over the containers and those that run beside them, or the need of the init containers if that is
/// more.
fn of_containers(pod: &Pod, part: fn(&PodContainer) -> Option<&ResourceUsage>) -> Amounts {
    let mut running = Amounts::new();
    for container in &pod.spec.containers {
        add(&mut running, part(container));
    }
    let (mut beside, mut peak) = (Amounts::new(), Amounts::new());
    for container in &pod.spec.init_containers {
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut beside, part(container));
            raise(&mut peak, &beside);
        } else {
            let mut now = beside.clone();
            add(&mut now, part(container));
            raise(&mut peak, &now);
        }
    }
    for (name, amount) in beside {
        let sum = running.entry(name).or_insert(Quantity::ZERO);
        *sum = sum.plus(&amount);
    }
    raise(&mut running, &peak);
    add(&mut running, pod.spec.overhead.as_ref());
    running
}

fn add(sum: &mut Amounts, more: Option<&ResourceUsage>) {
    for (name, amount) in more.into_iter().flatten() {
        if let Ok(amount) = Quantity::parse(&amount.0) {
            let sum = sum.entry(name.clone()).or_insert(Quantity::ZERO);
            *sum = sum.plus(&amount);
        }
    }
}

fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let known = to.entry(name.clone()).or_insert(Quantity::ZERO);
        if known.is_less(amount) {
            *known = amount.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pod, describes, names, of_pod};
    use serde_json::{Value, json};

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    #[test]
    fn a_pod_uses_its_sum_or_its_peak() {
        let container = |cpu: &str| json!({ "name": cpu, "resources": { "requests": { "cpu": cpu } } });
        let used = of_pod(&pod(json!({
            "containers": [container("100m"), container("200m")], "initContainers": [container("1")],
        })));
        assert_eq!(used["cpu"].to_string(), "1");
        assert_eq!(used["requests.cpu"].to_string(), "1");
        assert_eq!(used["pods"].to_string(), "1");
        assert!(!used.contains_key("limits.cpu"));
    }

    #[test]
    fn scopes_take_pods_in() {
        let plain = pod(json!({ "containers": [{ "name": "a" }] }));
        assert!(describes("BestEffort", "Exists", &[], &plain) && describes("NotTerminating", "Exists", &[], &plain));
        assert!(!describes("PriorityClass", "Exists", &[], &plain));
        assert!(describes("PriorityClass", "NotIn", &["high".to_owned()], &plain));
    }

    #[test]
    fn kinds_are_named_with_their_group() {
        assert!(names("count/replicasets.apps", "apps", "replicasets") && names("secrets", "", "secrets"));
        assert!(names("count/secrets", "", "secrets") && !names("count/replicasets.apps", "extensions", "replicasets"));
    }
}
