//! The status of a pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::super::value_ext::ValueExt;
use super::super::addresses::{legacy_address, parse_legacy};
use super::super::errors::{Errors, Path, Shown};
use super::super::names;

/// The fields with the states of containers.
const CONTAINERS: [&str; 2] = ["containerStatuses", "initContainerStatuses"];

/// Checks the changed status of a pod, its metadata apart.
pub fn status(old: &Value, new: &Value, errors: &mut Errors) {
    let at = Path::root("status");
    let (before, after) = (&old["status"], &new["status"]);
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
    for name in CONTAINERS {
        restarts(before.list(name), after.list(name), old["spec"].text("restartPolicy"), &at.field(name), errors);
    }
    addresses(after.list("podIPs"), &at.field("podIPs"), errors);
    let hosts = after.list("hostIPs");
    if let Some(first) = hosts.first().filter(|first| first.text("ip") != after.text("hostIP")) {
        let list = at.field("hostIPs");
        errors.invalid(&list.index(0).field("ip"), first.text("ip"), "must be equal to `hostIP`");
    }
    addresses(hosts, &at.field("hostIPs"), errors);
}

/// Returns true when the allowed status depends on the specification of its pod.
pub fn needs_spec(before: &Value) -> bool {
    let ended = |state: &Value| state["state"].has("terminated");
    CONTAINERS.iter().any(|name| before.list(name).iter().any(ended))
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
