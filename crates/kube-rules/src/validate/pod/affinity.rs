//! The placement of a pod: affinity, tolerations, spreading.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::super::value_ext::{ValueExt, repeated_later};
use super::super::errors::{Errors, Path};
use super::super::{metadata, names, selector};

/// Checks the affinity of a pod.
pub fn affinity(affinity: &Value, at: &Path<'_>, errors: &mut Errors) {
    if affinity.is_null() {
        return;
    }
    if let Some(node) = affinity.some("nodeAffinity") {
        node_affinity(node, &at.field("nodeAffinity"), errors);
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = affinity.some(name) else { continue };
        let at = at.field(name);
        let required = at.field("requiredDuringSchedulingIgnoredDuringExecution");
        for (index, term) in terms.list("requiredDuringSchedulingIgnoredDuringExecution").iter().enumerate() {
            pod_term(term, &required.index(index), errors);
        }
        let preferred = at.field("preferredDuringSchedulingIgnoredDuringExecution");
        for (index, weighted) in terms.list("preferredDuringSchedulingIgnoredDuringExecution").iter().enumerate() {
            let at = preferred.index(index);
            weight(weighted, &at, errors);
            pod_term(&weighted["podAffinityTerm"], &at.field("podAffinityTerm"), errors);
        }
    }
}

fn weight(weighted: &Value, at: &Path<'_>, errors: &mut Errors) {
    let weight = weighted.int("weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.invalid(&at.field("weight"), weight, "must be in the range 1-100");
    }
}

fn node_affinity(affinity: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(required) = affinity.some("requiredDuringSchedulingIgnoredDuringExecution") {
        node_selector(required, &at.field("requiredDuringSchedulingIgnoredDuringExecution"), errors);
    }
    let preferred = at.field("preferredDuringSchedulingIgnoredDuringExecution");
    for (index, weighted) in affinity.list("preferredDuringSchedulingIgnoredDuringExecution").iter().enumerate() {
        let at = preferred.index(index);
        let value = weighted.int("weight").unwrap_or_default();
        if value <= 0 || value > 100 {
            errors.invalid(&at.field("weight"), value, "must be in the range 1-100");
        }
        node_term(&weighted["preference"], Values::Any, &at.field("preference"), errors);
    }
}

/// The allowed values of a requirement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    /// Values that a label may have.
    Labels,
    /// Anything: preferences are not checked.
    Any,
}

/// Checks a selector of nodes.
pub fn node_selector(selector: &Value, at: &Path<'_>, errors: &mut Errors) {
    let terms = selector.list("nodeSelectorTerms");
    let list = at.field("nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(&list, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        node_term(term, Values::Labels, &list.index(index), errors);
    }
}

fn node_term(term: &Value, values: Values, at: &Path<'_>, errors: &mut Errors) {
    let list = at.field("matchExpressions");
    for (index, requirement) in term.list("matchExpressions").iter().enumerate() {
        let at = list.index(index);
        node_requirement(requirement, &at, errors);
        let list = at.field("values");
        for (index, value) in requirement.list("values").iter().enumerate().filter(|_| values == Values::Labels) {
            let value = value.as_str().unwrap_or_default();
            errors.each_invalid(&list.index(index), value, &names::label_value(value));
        }
    }
    let list = at.field("matchFields");
    for (index, requirement) in term.list("matchFields").iter().enumerate() {
        let at = list.index(index);
        let (key, operator) = (requirement.text("key"), requirement.text("operator"));
        let values = requirement.list("values");
        match operator {
            "In" | "NotIn" => {
                if values.len() != 1 {
                    let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                    errors.required(&at.field("values"), detail);
                }
            }
            other => errors.invalid(&at.field("operator"), other, "not a valid selector operator"),
        }
        if key == "metadata.name" {
            for value in values {
                let value = value.as_str().unwrap_or_default();
                errors.each_invalid(&at.field("values").index(0), value, &names::object_name(value));
            }
        } else {
            errors.invalid(&at.field("key"), key, "not a valid field selector key");
        }
    }
}

fn node_requirement(requirement: &Value, at: &Path<'_>, errors: &mut Errors) {
    let values = requirement.list("values");
    match requirement.text("operator") {
        "In" | "NotIn" => {
            if values.is_empty() {
                errors.required(&at.field("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                errors.forbidden(
                    &at.field("values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
        }
        "Gt" | "Lt" => {
            if values.len() != 1 {
                errors.required(&at.field("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
        }
        other => errors.invalid(&at.field("operator"), other, "not a valid selector operator"),
    }
    let key = requirement.text("key");
    errors.each_invalid(&at.field("key"), key, &names::qualified_name(key));
}

fn pod_term(term: &Value, at: &Path<'_>, errors: &mut Errors) {
    selector::selector(&term["labelSelector"], &at.field("labelSelector"), errors);
    selector::selector(&term["namespaceSelector"], &at.field("namespaceSelector"), errors);
    for name in term.list("namespaces") {
        let name = name.as_str().unwrap_or_default();
        errors.each_invalid(&at.field("namespace"), name, &names::dns_1123_label(name));
    }
    for keys in ["matchLabelKeys", "mismatchLabelKeys"] {
        let list = at.field(keys);
        let given = term.list(keys);
        if !given.is_empty() && !term.has("labelSelector") {
            errors.forbidden(&list, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in given.iter().enumerate() {
            let key = key.as_str().unwrap_or_default();
            errors.each_invalid(&list.index(index), key, &names::qualified_name(key));
        }
    }
    let mismatched: BTreeSet<String> = term.list("mismatchLabelKeys").iter().map(Value::to_string).collect();
    let list = at.field("matchLabelKeys");
    for (index, key) in term.list("matchLabelKeys").iter().enumerate() {
        if mismatched.contains(&key.to_string()) {
            errors.invalid(&list.index(index), key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
    selected_twice(term, at, errors);
    let topology = term.text("topologyKey");
    if topology.is_empty() {
        errors.required(&at.field("topologyKey"), "can not be empty");
    }
    errors.each_invalid(&at.field("topologyKey"), topology, &names::qualified_name(topology));
}

/// Checks that a key of a pod's own labels may be selected by once, as the server itself does.
fn selected_twice(term: &Value, at: &Path<'_>, errors: &mut Errors) {
    let selector = &term["labelSelector"];
    let keys = term.list("matchLabelKeys");
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let expressions = selector.list("matchExpressions").iter().map(|one| one.text("key"));
    for key in selector.entries("matchLabels").keys().map(String::as_str).chain(expressions) {
        *times.entry(key).or_default() += 1;
    }
    let again = repeated_later(keys.iter().map(|key| key.as_str()));
    for (index, key) in keys.iter().enumerate() {
        let key = key.as_str().unwrap_or_default();
        if times.get(key).is_some_and(|times| *times > 1) && !again[index] {
            errors.invalid(&at.index(index), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

/// Checks the tolerations of a pod.
pub fn tolerations(tolerations: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let at = at.index(index);
        let (key, operator) = (toleration.text("key"), toleration.text("operator"));
        let effect = toleration.text("effect");
        if !key.is_empty() {
            errors.each_invalid(&at.field("key"), key, &names::qualified_name(key));
        }
        if key.is_empty() && operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&at.field("operator"), operator, detail);
        }
        if let Some(seconds) = toleration.some("tolerationSeconds")
            && effect != "NoExecute"
        {
            let _ = seconds;
            errors.invalid(&at.field("effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
        }
        let value = toleration.text("value");
        match operator {
            "Equal" | "" => errors.each_invalid(&at.field("operator"), value, &names::label_value(value)),
            "Exists" => {
                if !value.is_empty() {
                    errors.invalid(&at.field("operator"), value, "value must be empty when `operator` is 'Exists'");
                }
            }
            other @ ("Lt" | "Gt") => {
                // Known, but off.
                errors.not_supported(&at.field("operator"), other, &["Equal", "Exists", "Lt", "Gt"]);
            }
            other => errors.not_supported(&at.field("operator"), other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            taint_effect(effect, &at.field("effect"), errors);
        }
    }
}

/// Checks the effect of a taint.
pub fn taint_effect(effect: &str, at: &Path<'_>, errors: &mut Errors) {
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        errors.not_supported(at, effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    }
}

/// Checks the spreading of pods over a topology.
pub fn spread(constraints: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let pairs = constraints.iter().map(|one| (one.text("topologyKey"), one.text("whenUnsatisfiable")));
    let again = repeated_later(pairs);
    for (index, constraint) in constraints.iter().enumerate() {
        let item = at.index(index);
        let skew = constraint.int("maxSkew").unwrap_or_default();
        if skew <= 0 {
            errors.invalid(&item.field("maxSkew"), skew, "must be greater than zero");
        }
        let topology = constraint.text("topologyKey");
        if topology.is_empty() {
            errors.required(&item.field("topologyKey"), "can not be empty");
        }
        let action = constraint.text("whenUnsatisfiable");
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            errors.not_supported(&item.field("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]);
        }
        if again[index] {
            let text = format!("{{{topology}, {action}}}");
            errors.duplicate(&item.field("{topologyKey, whenUnsatisfiable}"), text.as_str());
        }
        if let Some(domains) = constraint.int("minDomains") {
            if domains <= 0 {
                errors.invalid(&item.field("minDomains"), domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(&item.field("minDomains"), domains, &detail);
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = constraint.some(name).and_then(Value::as_str)
                && !["Honor", "Ignore"].contains(&policy)
            {
                errors.not_supported(&item.field(name), policy, &["Honor", "Ignore"]);
            }
        }
        match_label_keys(constraint, &item, errors);
        selected_twice(constraint, &item, errors);
        selector::selector(&constraint["labelSelector"], &item.field("labelSelector"), errors);
    }
}

fn match_label_keys(constraint: &Value, at: &Path<'_>, errors: &mut Errors) {
    let keys = constraint.list("matchLabelKeys");
    let list = at.field("matchLabelKeys");
    if keys.is_empty() {
        return;
    }
    if !constraint.has("labelSelector") {
        errors.forbidden(&list, "must not be specified when labelSelector is not set");
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        let key = key.as_str().unwrap_or_default();
        errors.each_invalid(&list.index(index), key, &names::qualified_name(key));
    }
}

/// Labels of nodes that a pod asks for.
pub fn node_labels(selector: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Value::Object(labels) = selector {
        metadata::labels(labels, at, errors);
    }
}
