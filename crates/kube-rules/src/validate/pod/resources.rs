//! The requests and limits of containers.

use std::cmp::Ordering;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::super::quantity::Quantity;
use super::super::super::value_ext::ValueExt;
use super::super::errors::{Errors, Path};
use super::super::names;

const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Resources that are counted in whole numbers.
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Requests and limits of a container.
pub fn container(resources: &Value, claims: &[&str], at: &Path<'_>, errors: &mut Errors) {
    requirements(resources, container_name, at, errors);
    claimed(resources, claims, at, errors);
}

/// Checks the devices that something uses, of those that the pod claims.
pub fn claimed(resources: &Value, claims: &[&str], at: &Path<'_>, errors: &mut Errors) {
    let list = at.field("claims");
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let names: BTreeSet<&str> = claims.iter().copied().collect();
    for (index, claim) in resources.list("claims").iter().enumerate() {
        let (name, request) = (claim.text("name"), claim.text("request"));
        let item = list.index(index);
        if name.is_empty() {
            errors.required(&item, "");
            continue;
        }
        let asked = seen.entry(name).or_default();
        let whole = asked.contains("");
        let shown = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        if asked.contains(request) {
            errors.duplicate(&item, shown.as_str());
        } else if whole || request.is_empty() && !asked.is_empty() {
            errors.duplicate(&item, name);
        } else {
            asked.insert(request);
        }
        // If all of a claim is used already, further requests of it are not checked.
        if !request.is_empty() && !whole {
            errors.each_invalid(&item.field("request"), request, &names::dns_1123_label(request));
        }
        if !names.contains(name) && !errors.is_full() {
            let known = match claims {
                [] => " which is empty".to_owned(),
                _ => format!(": {}", names.iter().copied().collect::<Vec<_>>().join(", ")),
            };
            errors.not_among(&item, name, &format!("must be one of the names in pod.spec.resourceClaims{known}"));
        }
    }
}

/// Requests and limits; `name` checks the names of resources.
pub fn requirements(resources: &Value, name: fn(&str, &Path<'_>, &mut Errors), at: &Path<'_>, errors: &mut Errors) {
    let (limits, requests) = (resources.entries("limits"), resources.entries("requests"));
    let (limits_at, requests_at) = (at.field("limits"), at.field("requests"));
    for (resource, amount) in limits {
        let at = limits_at.key(resource);
        name(resource, &at, errors);
        quantity(resource, amount, &at, errors);
        huge_pages(resource, amount, &at, errors);
    }
    for (resource, amount) in requests {
        let at = requests_at.key(resource);
        name(resource, &at, errors);
        quantity(resource, amount, &at, errors);
        huge_pages(resource, amount, &at, errors);
        let overcommits = may_overcommit(resource);
        let Some(limit) = limits.get(resource) else {
            if !overcommits {
                errors.required(&limits_at, "Limit must be set for non overcommitable resources");
            }
            continue;
        };
        let text = |amount: &Value| amount.as_str().unwrap_or_default().to_owned();
        let (asked, most) = (text(amount), text(limit));
        let (Ok(one), Ok(other)) = (Quantity::parse(&asked), Quantity::parse(&most)) else { continue };
        let order = one.compare(&other);
        if order != Ordering::Equal && !overcommits {
            errors.invalid(&requests_at, asked.as_str(), &format!("must be equal to {resource} limit of {most}"));
        } else if order == Ordering::Greater {
            errors.invalid(
                &requests_at,
                asked.as_str(),
                &format!("must be less than or equal to {resource} limit of {most}"),
            );
        }
    }
    let has = |names: &[&str]| limits.keys().chain(requests.keys()).any(|name| names.contains(&name.as_str()));
    let huge = limits.keys().chain(requests.keys()).any(|name| is_huge_pages(name));
    if huge && !has(&["cpu", "memory"]) {
        errors.forbidden(at, "HugePages require cpu or memory");
    }
}

/// Checks the requests of the containers together, against those of the pod, and the limit of each.
pub fn of_containers(of_the_pod: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let amount = |value: &Value| value.as_str().and_then(|text| Quantity::parse(text).ok());
    let requests_at = at.field("requests");
    for (resource, request) in of_the_pod.entries("requests") {
        let asked = spec
            .list("containers")
            .iter()
            .filter_map(|container| amount(&container["resources"]["requests"][resource]));
        let together = asked.reduce(|sum, more| sum.plus(&more));
        let (Some(together), Some(of_the_pod)) = (together, amount(request)) else { continue };
        if together.compare(&of_the_pod) == Ordering::Greater {
            let detail =
                format!("must be greater than or equal to aggregate container requests of {}", together.canonical());
            errors.invalid(&requests_at.key(resource), request, &detail);
        }
    }
    for (resource, limit) in of_the_pod.entries("limits") {
        for (index, container) in spec.list("containers").iter().enumerate() {
            let own = &container["resources"]["limits"][resource];
            let (Some(used), Some(most)) = (amount(own), amount(limit)) else { continue };
            if used.compare(&most) == Ordering::Greater {
                let list = at.field("containers");
                let container_at = list.index(index);
                let detail =
                    format!("must be less than or equal to pod limits of {}", limit.as_str().unwrap_or_default());
                errors.invalid(&container_at.key(resource).field("limits"), own, &detail);
            }
        }
    }
}

/// Checks huge pages come whole.
fn huge_pages(resource: &str, amount: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(size) = resource.strip_prefix("hugepages-") else { return };
    let text = amount.as_str().unwrap_or_default();
    let (Ok(amount), Ok(page)) = (Quantity::parse(text), Quantity::parse(size)) else { return };
    if page.sign() <= 0 || !page.is_whole() || amount.whole() % page.whole() != 0 {
        errors.invalid(at, text, &format!("{text} is not positive integer multiple of {resource}"));
    }
}

/// Checks an amount of a resource.
pub fn quantity(resource: &str, amount: &Value, at: &Path<'_>, errors: &mut Errors) {
    let text = amount.as_str().unwrap_or_default();
    let Ok(quantity) = Quantity::parse(text) else { return };
    if quantity.sign() < 0 {
        errors.invalid(at, text, "must be greater than or equal to 0");
    }
    let is_extended = resource.contains('/') && !is_native(resource);
    if (WHOLE.contains(&resource) || is_extended) && !quantity.is_whole() {
        errors.invalid(at, text, "must be an integer");
    }
}

/// Checks the name of a resource of any kind.
pub fn resource_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    let said = names::qualified_name(name);
    errors.each_invalid(at, name, &said);
    if said.is_empty() && !name.contains('/') && !is_standard(name) {
        errors.invalid(at, name, "must be a standard resource type or fully qualified");
    }
}

/// Checks the name of a resource that a container may have.
pub fn container_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    resource_name(name, at, errors);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_huge_pages(name) {
            errors.invalid(at, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(at, name, "doesn't follow extended resource name standard");
    }
}

/// Checks the name of a resource that a pod as a whole may have.
pub fn pod_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    let before = errors.0.len();
    resource_name(name, at, errors);
    if errors.0.len() == before && !matches!(name, "cpu" | "memory") && !is_huge_pages(name) {
        errors.not_supported(at, name, &["cpu", "hugepages-", "memory"]);
    }
}

fn is_standard(name: &str) -> bool {
    (!name.is_empty() && STANDARD.contains(&name)) || is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

/// Returns true when a resource is huge pages of some size.
pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Returns true when the limit of a resource may be higher than the request.
pub fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}
