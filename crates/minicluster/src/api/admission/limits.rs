//! Limit ranges: defaults for containers without a value, and bounds for values.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::resources::{ResourceAmounts, add, amount, amounts};
use super::{Admission, forbid, listed};
use crate::api::ApiError;
use crate::api::route::Target;
use crate::api::store::Scope;
use kube_rules::Quantity;

const NOTE: &str = "kubernetes.io/limit-ranger";

impl Admission {
    /// Gives a pod's containers the defaults of its namespace.
    pub(super) fn set_limits(&self, target: &Target, pod: &mut Value) {
        for range in &self.limits_of(target) {
            fill(pod, range);
        }
    }

    /// Holds a pod against the bounds of its namespace.
    pub(super) fn limit_pod(&self, target: &Target, pod: &Value) -> Result<(), ApiError> {
        let ranges = self.limits_of(target);
        let mut complaints = Vec::new();
        for limit in ranges.iter().flatten() {
            match limit["type"].as_str() {
                Some("Container") => {
                    for container in containers(pod) {
                        let (requests, limits) =
                            (amounts(&container["resources"]["requests"]), amounts(&container["resources"]["limits"]));
                        check(limit, "Container", &requests, &limits, &mut complaints);
                    }
                }
                Some("Pod") => {
                    let (requests, limits) = (total(pod, "requests"), total(pod, "limits"));
                    check(limit, "Pod", &requests, &limits, &mut complaints);
                }
                _ => {}
            }
        }
        if complaints.is_empty() { Ok(()) } else { Err(forbid(target, pod, &listed(&complaints))) }
    }

    /// Holds a claim against the bounds of its namespace.
    pub(super) fn limit_claim(&self, target: &Target, claim: &Value) -> Result<(), ApiError> {
        let wanted = amount(&claim["spec"]["resources"]["requests"]["storage"]);
        let mut complaints = Vec::new();
        for limit in self.limits_of(target).iter().flatten() {
            let Some(wanted) = wanted.as_ref().filter(|_| limit["type"] == "PersistentVolumeClaim") else { continue };
            for (field, word, wrong) in
                [("min", "minimum", Quantity::is_less as fn(&_, &_) -> _), ("max", "maximum", Quantity::is_more)]
            {
                if let Some(bound) = amount(&limit[field]["storage"]).filter(|bound| wrong(wanted, bound)) {
                    complaints.push(format!(
                        "{word} storage usage per PersistentVolumeClaim is {}, but request is {}",
                        bound.canonical(),
                        wanted.canonical()
                    ));
                }
            }
        }
        if complaints.is_empty() { Ok(()) } else { Err(forbid(target, claim, &listed(&complaints))) }
    }

    /// Returns the limits of a namespace, range by range.
    fn limits_of(&self, target: &Target) -> Vec<Vec<Value>> {
        let Some(namespace) = &target.namespace else { return Vec::new() };
        let ranges = self.store.all("", "limitranges", &Scope::Namespace(namespace.clone()));
        ranges.iter().map(|range| range.value()["spec"]["limits"].as_array().cloned().unwrap_or_default()).collect()
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers"].into_iter().flat_map(|part| pod["spec"][part].as_array().into_iter().flatten())
}

/// Returns the sum of all containers, or the largest of those that run before them.
fn total(pod: &Value, part: &str) -> ResourceAmounts {
    let list = |name: &str| pod["spec"][name].as_array().map_or(&[][..], Vec::as_slice);
    let mut sum = ResourceAmounts::new();
    for container in list("containers") {
        add(&mut sum, &amounts(&container["resources"][part]));
    }
    for container in list("initContainers") {
        super::resources::raise(&mut sum, &amounts(&container["resources"][part]));
    }
    sum
}

/// Fills in missing values of containers, and notes it on the pod.
fn fill(pod: &mut Value, limits: &[Value]) {
    let Some(limit) = limits.iter().find(|limit| limit["type"] == "Container") else { return };
    let mut notes = Vec::new();
    for (part, label) in [("containers", "container"), ("initContainers", "init container")] {
        for container in pod["spec"][part].as_array_mut().into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (field, defaults, word) in
                [("requests", &limit["defaultRequest"], "request"), ("limits", &limit["default"], "limit")]
            {
                let set = complete(container, field, defaults);
                if !set.is_empty() {
                    notes.push(format!("{} {word} for {label} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        pod["metadata"]["annotations"][NOTE] = json!(format!("LimitRanger plugin set: {}", notes.join("; ")));
    }
}

/// Adds the defaults that are missing; returns their names.
fn complete(container: &mut Value, field: &str, defaults: &Value) -> Vec<String> {
    let mut set = Vec::new();
    for (name, value) in defaults.as_object().into_iter().flatten() {
        if container["resources"][field].get(name).is_none() {
            container["resources"][field][name] = value.clone();
            set.push(name.clone());
        }
    }
    set
}

/// Holds amounts against the bounds of one limit.
fn check(
    limit: &Value,
    kind: &str,
    requests: &ResourceAmounts,
    limits: &ResourceAmounts,
    complaints: &mut Vec<String>,
) {
    for (name, bound) in amounts(&limit["min"]) {
        let start = format!("minimum {name} usage per {kind} is {}", bound.canonical());
        match (requests.get(&name), limits.get(&name)) {
            (None, _) => complaints.push(format!("{start}.  No request is specified")),
            (Some(request), _) if request.is_less(&bound) => {
                complaints.push(format!("{start}, but request is {}", request.canonical()));
            }
            (_, Some(limit)) if limit.is_less(&bound) => {
                complaints.push(format!("{start}, but limit is {}", limit.canonical()));
            }
            _ => {}
        }
    }
    for (name, bound) in amounts(&limit["max"]) {
        let start = format!("maximum {name} usage per {kind} is {}", bound.canonical());
        match (limits.get(&name), requests.get(&name)) {
            (None, _) => complaints.push(format!("{start}.  No limit is specified")),
            (Some(limit), _) if limit.is_more(&bound) => {
                complaints.push(format!("{start}, but limit is {}", limit.canonical()));
            }
            (_, Some(request)) if request.is_more(&bound) => {
                complaints.push(format!("{start}, but request is {}", request.canonical()));
            }
            _ => {}
        }
    }
    let ratios: BTreeMap<String, Quantity> = amounts(&limit["maxLimitRequestRatio"]);
    for (name, bound) in ratios {
        let start = format!("{name} max limit to request ratio per {kind} is {}", bound.canonical());
        let (request, limit) = (requests.get(&name), limits.get(&name));
        match (request.map(Quantity::thousandths), limit.map(Quantity::thousandths)) {
            (None | Some(0), _) => complaints.push(format!("{start}, but no request is specified or request is 0")),
            (_, None | Some(0)) => complaints.push(format!("{start}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let ratio = limit as f64 / request as f64;
                if ratio > bound.thousandths() as f64 / 1000.0 {
                    complaints.push(format!("{start}, but provided ratio is {ratio:.6}"));
                }
            }
        }
    }
}
