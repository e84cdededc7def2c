//! The status of a pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::super::value_ext::{ValueExt, repeated_texts, repeats, texts};
use super::super::addresses::{legacy_address, parse_legacy};
use super::super::errors::{Errors, Path, Shown};
use super::super::names;

const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];
/// The fields with the states of containers, and the fields of the containers.
const CONTAINERS: [(&str, &str); 2] =
    [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")];
const EPHEMERAL: &str = "ephemeralContainerStatuses";
/// The largest number of a user or group.
const LARGEST_ID: i64 = i32::MAX as i64;

/// Checks that a changed status of a pod, its metadata apart.
pub fn status(old: &Value, new: &Value, errors: &mut Errors) {
    let at = Path::root("status");
    let (before, after, spec) = (&old["status"], &new["status"], &new["spec"]);
    let list = at.field("conditions");
    for (index, condition) in after.list("conditions").iter().enumerate() {
        let (at, ty) = (list.index(index), condition.text("type"));
        generation(condition, &at, errors);
        // The field has this spelling there.
        errors.each_invalid(&at.field("Type"), ty, &names::qualified_name(ty));
    }
    let nominated = after.text("nominatedNodeName");
    if !nominated.is_empty() && nominated != before.text("nominatedNodeName") {
        errors.each_invalid(&at.field("nominatedNodeName"), nominated, &names::object_name(nominated));
    }
    generation(after, &at, errors);
    if before.text("qosClass") != after.text("qosClass") {
        errors.invalid(&at.field("qosClass"), after.text("qosClass"), "field is immutable");
    }
    for (name, _) in CONTAINERS {
        restarts(before.list(name), after.list(name), old["spec"].text("restartPolicy"), &at.field(name), errors);
    }
    claims(spec, after, &at, errors);
    extended_claim(spec, after, &at.field("extendedResourceClaimStatus"), errors);
    addresses(after.list("podIPs"), &at.field("podIPs"), errors);
    let hosts = after.list("hostIPs");
    if let Some(first) = hosts.first().filter(|first| first.text("ip") != after.text("hostIP")) {
        let list = at.field("hostIPs");
        errors.invalid(&list.index(0).field("ip"), first.text("ip"), "must be equal to `hostIP`");
    }
    addresses(hosts, &at.field("hostIPs"), errors);
    for name in ["containerStatuses", "initContainerStatuses", EPHEMERAL] {
        users(after.list(name), &at.field(name), errors);
    }
    for (name, containers) in CONTAINERS {
        allocated(spec, containers, after.list(name), &at.field(name), errors);
    }
    let list = at.field(EPHEMERAL);
    for (index, state) in after.list(EPHEMERAL).iter().enumerate() {
        if !state.list("allocatedResourcesStatus").is_empty() {
            let at = list.index(index);
            errors.forbidden(&at.field("allocatedResourcesStatus"), "must not be specified in container status");
        }
    }
}

/// Returns true when the allowed status depends on the specification of its pod.
pub fn needs_spec(before: &Value, after: &Value) -> bool {
    let ended = |state: &Value| state["state"].has("terminated");
    let names_devices = |state: &Value| state.has("allocatedResourcesStatus");
    let any = |status: &Value, is: &dyn Fn(&Value) -> bool| {
        CONTAINERS.iter().any(|(name, _)| status.list(name).iter().any(is))
    };
    ["resourceClaimStatuses", "extendedResourceClaimStatus"].iter().any(|name| after.has(name))
        || any(before, &ended)
        || any(after, &names_devices)
}

fn generation(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(generation) = of.int("observedGeneration").filter(|generation| *generation < 0) {
        errors.invalid(&at.field("observedGeneration"), generation, "must be a non-negative integer");
    }
}

/// Checks a container that ended for good does not run again.
fn restarts(before: &[Value], after: &[Value], policy: &str, at: &Path<'_>, errors: &mut Errors) {
    if policy == "Always" {
        return;
    }
    let running: Vec<&Value> = after.iter().filter(|new| !new["state"].has("terminated")).collect();
    let running: BTreeSet<&str> = running.into_iter().map(|new| new.text("name")).collect();
    for (index, old) in before.iter().enumerate() {
        let Some(ended) = old["state"].some("terminated") else { continue };
        if ended.int("exitCode").unwrap_or_default() != 0 && policy == "OnFailure" {
            continue;
        }
        if running.contains(old.text("name")) {
            let at = at.index(index);
            errors.forbidden(&at.field("state"), "may not be transitioned to non-terminated state");
        }
    }
}

/// Checks the states of the claims that the pod names.
fn claims(spec: &Value, status: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.field("resourceClaimStatuses");
    let given = status.list("resourceClaimStatuses");
    let (known, repeated) = (texts(spec.list("resourceClaims"), "name"), repeated_texts(given, "name"));
    for (index, claim) in given.iter().enumerate() {
        let (at, name) = (list.index(index), claim.text("name"));
        if !known.contains(name) {
            errors.invalid(&at.field("name"), name, "must match the name of an entry in `spec.resourceClaims`");
        }
        if repeated[index] {
            errors.duplicate(&at.field("name"), name);
        }
        if let Some(name) = claim.some("resourceClaimName").and_then(Value::as_str) {
            errors.each_invalid(&at.field("resourceClaimName"), name, &names::object_name(name));
        }
    }
}

/// Checks the claim that was made for resources that devices stand behind.
fn extended_claim(spec: &Value, status: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(claim) = status.some("extendedResourceClaimStatus") else { return };
    let (list, mappings) = (at.field("requestMappings"), claim.list("requestMappings"));
    if mappings.is_empty() {
        errors.required(&list, "at least one request mapping is required");
    }
    const PARTS: [&str; 3] = ["containerName", "resourceName", "requestName"];
    let repeated = repeats(mappings.iter().map(|mapping| PARTS.map(|part| mapping.text(part))));
    for (index, mapping) in mappings.iter().enumerate() {
        let at_mapping = list.index(index);
        if repeated[index] {
            for part in PARTS {
                errors.duplicate(&at_mapping.field(part), mapping.text(part));
            }
            continue;
        }
        let (container, resource) = (mapping.text("containerName"), mapping.text("resourceName"));
        let mut of_the_pod = ["initContainers", "containers"].iter().flat_map(|name| spec.list(name));
        match of_the_pod.find(|known| known.text("name") == container) {
            None => {
                let detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.invalid(&at_mapping.field("containerName"), container, detail);
            }
            Some(known) if !known["resources"].entries("requests").contains_key(resource) => {
                let detail = "must match the extended resource name of an entry in \
                              spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.invalid(&at_mapping.field("resourceName"), resource, detail);
            }
            Some(_) => {}
        }
        let request = mapping.text("requestName");
        errors.each_invalid(&at.field("requestName"), request, &names::dns_1123_label(request));
    }
    let (name, name_at) = (claim.text("resourceClaimName"), at.field("resourceClaimName"));
    if name.is_empty() {
        errors.required(&name_at, "");
    } else {
        errors.each_invalid(&name_at, name, &names::object_name(name));
    }
}

/// Addresses, at most one of each family.
fn addresses(given: &[Value], list: &Path<'_>, errors: &mut Errors) {
    for (index, address) in given.iter().enumerate() {
        legacy_address(address.text("ip"), &list.index(index), errors);
    }
    if given.len() < 2 {
        return;
    }
    let parsed: Vec<_> = given.iter().map(|address| parse_legacy(address.text("ip"))).collect();
    if let Some(index) = parsed.iter().position(Option::is_none) {
        let text = given[index].text("ip");
        errors.internal(list, &format!("failed to check for dual stack with error:invalid IP[{index}]: {text}"));
    }
    let both = match parsed[..] {
        [Some(one), Some(other)] => one.is_ipv4() != other.is_ipv4(),
        _ => false,
    };
    if !both {
        let shown: Vec<Value> = given.iter().map(|address| serde_json::json!({ "IP": address.text("ip") })).collect();
        let shown = Shown::Plain(Value::from(shown).to_string());
        errors.invalid(list, shown, "may specify no more than one IP for each IP family");
    }
}

/// Checks the users of containers.
fn users(states: &[Value], list: &Path<'_>, errors: &mut Errors) {
    for (index, state) in states.iter().enumerate() {
        let Some(user) = state["user"].some("linux") else { continue };
        let at = list.index(index);
        let at = at.field("user.linux");
        let mut check = |number: i64, at: &Path<'_>| {
            if !(0..=LARGEST_ID).contains(&number) {
                errors.invalid(at, number, "must be between 0 and 2147483647, inclusive");
            }
        };
        for name in ["uid", "gid"] {
            check(user.int(name).unwrap_or_default(), &at.field(name));
        }
        let groups = at.field("supplementalGroups");
        for (index, group) in user.list("supplementalGroups").iter().enumerate() {
            check(group.as_i64().unwrap_or_default(), &groups.index(index));
        }
    }
}

/// Checks the states of the devices that containers have, each of which they asked for.
fn allocated(spec: &Value, containers: &str, states: &[Value], list: &Path<'_>, errors: &mut Errors) {
    let mut known: BTreeMap<&str, &Value> = BTreeMap::new();
    for container in spec.list(containers) {
        known.entry(container.text("name")).or_insert(container);
    }
    for (index, state) in states.iter().enumerate() {
        let at = list.index(index);
        let resources_at = at.field("allocatedResourcesStatus");
        let container = known.get(state.text("name"));
        for (index, resource) in state.list("allocatedResourcesStatus").iter().enumerate() {
            let at = resources_at.index(index);
            if let Some(container) = container {
                asked_for(&container["resources"], resource.text("name"), &at.field("name"), errors);
            }
            let (devices, list) = (resource.list("resources"), at.field("resources"));
            let repeated = repeated_texts(devices, "resourceID");
            for (index, device) in devices.iter().enumerate() {
                let (at, health, id) = (list.index(index), device.text("health"), device.text("resourceID"));
                if !HEALTH.contains(&health) {
                    errors.not_supported(&at.field("health"), health, &HEALTH);
                }
                if repeated[index] {
                    errors.duplicate(&at.field("resourceID"), id);
                }
            }
        }
    }
}

fn asked_for(resources: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    if let Some(wanted) = name.strip_prefix("claim:") {
        let is_claim = |claim: &Value| match claim.text("request") {
            "" => claim.text("name") == wanted,
            request => format!("{}/{request}", claim.text("name")) == wanted,
        };
        if !resources.list("claims").iter().any(is_claim) {
            let detail = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or \
                          'claim:<claimName>' if request is empty";
            errors.invalid(at, name, detail);
        }
    } else if !resources.entries("requests").contains_key(name) {
        errors.invalid(at, name, "must match one of the container's resource requests");
    }
}
