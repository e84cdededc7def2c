//! The allowed changes of a pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::super::value_ext::{ValueExt, repeated_later, restore};
use super::super::errors::{Errors, Path};
use super::volumes::PodSpecOwner;
use super::{only_pods, pod_spec};

const MAY_CHANGE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                          `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
                          to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                          previously negative)";

/// Checks that a changed pod, its metadata apart.
pub fn update(old: &Value, new: &Value, errors: &mut Errors) {
    let at = Path::root("spec");
    let (before, after) = (&old["spec"], &new["spec"]);
    pod_spec(after, PodSpecOwner::Pod, &at, errors);
    only_pods(after, &at, errors);
    for containers in ["containers", "initContainers"] {
        if !containers_kept(before, after, containers, &at, errors) {
            return;
        }
    }
    if !deadline(before, after, &at.field("activeDeadlineSeconds"), errors) {
        return;
    }
    tolerations_kept(before, after, &at.field("tolerations"), errors);
    gates_kept(before, after, &at.field("schedulingGates"), errors);
    if before == after {
        return;
    }
    let mut same = after.clone();
    for containers in ["containers", "initContainers"] {
        let Some(Value::Array(list)) = same.get_mut(containers) else { continue };
        for (container, old) in list.iter_mut().zip(before.list(containers)) {
            restore(container, old, "image");
        }
    }
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        restore(&mut same, before, name);
    }
    if before.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0)
        && after.int("terminationGracePeriodSeconds") == Some(1)
    {
        restore(&mut same, before, "terminationGracePeriodSeconds");
    }
    if !before.list("schedulingGates").is_empty() {
        gated(before, &mut same);
    }
    if same != *before {
        errors.forbidden(&at, &format!("{MAY_CHANGE}\n{}", changes(before, &same)));
    }
}

/// While a pod is gated, its node selector may grow.
fn gated(before: &Value, after: &mut Value) {
    let (old, new) = (before.entries("nodeSelector"), after.entries("nodeSelector"));
    if old.iter().all(|(key, value)| new.get(key) == Some(value)) {
        restore(after, before, "nodeSelector");
    }
}

/// Returns the fields that differ, one a line.
fn changes(before: &Value, after: &Value) -> String {
    let names =
        |value: &Value| value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let mut lines = Vec::new();
    for name in names(before).into_iter().chain(names(after)) {
        let line = format!("  {name}: {} -> {}", before[&name], after[&name]);
        if before[&name] != after[&name] && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

fn containers_kept(before: &Value, after: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) -> bool {
    let at = at.field(name);
    let (before, after) = (before.list(name), after.list(name));
    if before.len() != after.len() {
        errors.forbidden(&at, "pod updates may not add or remove containers");
        return false;
    }
    for (index, container) in after.iter().enumerate() {
        let image = container.text("image");
        if image.is_empty() {
            errors.required(&at.index(index).field("image"), "");
        }
    }
    true
}

fn deadline(before: &Value, after: &Value, at: &Path<'_>, errors: &mut Errors) -> bool {
    match (before.int("activeDeadlineSeconds"), after.int("activeDeadlineSeconds")) {
        (_, Some(new)) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.invalid(at, new, "must be between 0 and 2147483647, inclusive");
            false
        }
        (Some(old), Some(new)) if old < new => {
            errors.invalid(at, new, "must be less than or equal to previous value");
            false
        }
        (Some(_), None) => {
            errors.invalid(at, &Value::Null, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

fn tolerations_kept(before: &Value, after: &Value, at: &Path<'_>, errors: &mut Errors) {
    let same_but_seconds = |one: &Value, other: &Value| {
        ["key", "operator", "value", "effect"].iter().all(|name| one.get(name) == other.get(name))
    };
    for old in before.list("tolerations") {
        let kept = after
            .list("tolerations")
            .iter()
            .any(|new| new == old || (old.text("effect") == "NoExecute" && same_but_seconds(new, old)));
        if !kept {
            errors.forbidden(at, "existing toleration can not be modified except its tolerationSeconds");
            return;
        }
    }
}

fn gates_kept(before: &Value, after: &Value, at: &Path<'_>, errors: &mut Errors) {
    let gates = after.list("schedulingGates");
    let known: BTreeSet<String> = before.list("schedulingGates").iter().map(Value::to_string).collect();
    let again = repeated_later(gates.iter().map(Value::to_string));
    for (index, gate) in gates.iter().enumerate() {
        // One that is written twice is told where it stands last.
        if !known.contains(&gate.to_string()) && !again[index] {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", gate.text("name"));
            errors.forbidden(&at.index(index).field("name"), &detail);
        }
    }
}
