//! The objects that a quota is about.

use serde_json::Value;

use crate::api::json_pointer::text;
use crate::api::resource::Resource;
use kube_rules::quality_of_service;

/// Returns true when a quota counts an object: quotas with scopes count only the pods that these describe.
pub(super) fn covers(quota: &Value, resource: &Resource, object: &Value) -> bool {
    let scopes: Vec<&str> =
        quota["spec"]["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let expressions = quota["spec"]["scopeSelector"]["matchExpressions"].as_array().map_or(&[][..], Vec::as_slice);
    if scopes.is_empty() && expressions.is_empty() {
        return true;
    }
    if !resource.is("", "pods") {
        return false;
    }
    scopes.iter().all(|scope| describes(scope, "Exists", &[], object))
        && expressions.iter().all(|expression| {
            let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let values: Vec<&str> = values.collect();
            describes(text(expression, "/scopeName"), text(expression, "/operator"), &values, object)
        })
}

fn describes(scope: &str, operator: &str, values: &[&str], pod: &Value) -> bool {
    let ends = pod["spec"]["activeDeadlineSeconds"].is_number();
    let best_effort = quality_of_service(&pod["spec"]) == "BestEffort";
    match scope {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => {
            let class = text(pod, "/spec/priorityClassName");
            match operator {
                "In" => values.contains(&class),
                "NotIn" => !values.contains(&class),
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        "CrossNamespacePodAffinity" => crosses(&pod["spec"]["affinity"]),
        _ => false,
    }
}

/// Returns true when an affinity concerns pods of other namespaces.
fn crosses(affinity: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let required =
            affinity[*kind]["requiredDuringSchedulingIgnoredDuringExecution"].as_array().into_iter().flatten();
        let preferred =
            affinity[*kind]["preferredDuringSchedulingIgnoredDuringExecution"].as_array().into_iter().flatten();
        let terms = required.chain(preferred.map(|term| &term["podAffinityTerm"]));
        let mut terms = terms.filter(|term| {
            term["namespaces"].as_array().is_some_and(|list| !list.is_empty()) || term["namespaceSelector"].is_object()
        });
        terms.next().is_some()
    })
}
