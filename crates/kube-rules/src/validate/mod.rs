//! Validates an object: all faults together, in the real server's order and words.

mod addresses;
mod apps;
mod apps_update;
mod autoscaling;
mod budgets;
mod config;
mod counts;
mod definitions;
mod endpoints;
mod errors;
mod events;
mod failure_policy;
mod jobs;
mod kinds;
mod metadata;
mod names;
mod networking;
mod nodes;
mod pod;
mod policies;
mod quotas;
mod ranges;
mod registrations;
mod rights;
mod selector;
mod service;
mod storage;

use serde_json::Value;

use super::{Definition, custom};

pub use errors::{Errors, Path};
use kinds::Order;
pub use metadata::{NameScope, embedded as embedded_metadata};
pub use names::NameProblem;
pub use pod::status_needs_spec as pod_status_needs_spec;
pub use service::families as service_families;

/// Kinds whose finalizers need not be known or have a domain.
const FREE_FINALIZERS: [&str; 11] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "APIService",
    "RuntimeClass",
    "CustomResourceDefinition",
    "Lease",
    "PodDisruptionBudget",
];
/// Kinds that do not check metadata themselves: it is checked last, and only if nothing else is wrong.
const LATE_METADATA: [(&str, &str); 2] = [("policy", "PodDisruptionBudget"), ("", "Event")];
/// Kinds whose `generateName` is not checked in a change.
const KEPT_NAMES: [&str; 23] = [
    "PodTemplate",
    "ReplicationController",
    "ResourceQuota",
    "Service",
    "DaemonSet",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "CronJob",
    "NetworkPolicy",
    "ServiceCIDR",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "PriorityClass",
    "CSIDriver",
    "DeviceClass",
    "ResourceSlice",
    "CustomResourceDefinition",
    "Lease",
    "PodDisruptionBudget",
];

/// Returns the faults of a new object.
pub fn create(definition: &Definition, object: &Value) -> Errors {
    let mut errors = Errors::new();
    let at = Path::root("metadata");
    let scope = if definition.namespaced { NameScope::Namespaced } else { NameScope::Cluster };
    if let Some(custom) = &definition.custom {
        custom::header(definition, object, &mut errors);
        if errors.is_empty() {
            metadata::create(&object["metadata"], scope, name_check(definition), &at, &mut errors);
            custom::create(custom, object, &mut errors);
        }
        return errors;
    }
    let late = LATE_METADATA.contains(&key(definition));
    match key(definition) {
        ("apiregistration.k8s.io", _) => registrations::api_service_name(object, &mut errors),
        ("events.k8s.io", _) => events::newer(object, &mut errors),
        _ => {}
    }
    if !late {
        metadata::create(&object["metadata"], scope, name_check(definition), &at, &mut errors);
    }
    if !FREE_FINALIZERS.contains(&definition.kind.as_str()) && !late {
        metadata::finalizer_names(&object["metadata"], &at, &mut errors);
    }
    match key(definition) {
        ("", "Pod") => pod::create(object, &mut errors),
        ("apps", "StatefulSet") => apps::new_stateful_set(object, &mut errors),
        ("apps", "ControllerRevision") => budgets::new_revision(object, &mut errors),
        ("events.k8s.io", "Event") => {
            events::newer_alone(object, &mut errors);
        }
        kind => kinds::of(kind).check(object, &mut errors),
    }
    // Names without a rule of their own must be parts of a path.
    if errors.is_empty() {
        metadata::create(&object["metadata"], scope, names::path_segment, &at, &mut errors);
    }
    errors
}

/// Returns the faults of a changed object. `subresource` is the one that it was written through.
pub fn update(definition: &Definition, subresource: Option<&str>, old: &Value, new: &Value) -> Errors {
    let mut errors = Errors::new();
    let at = Path::root("metadata");
    if let Some(custom) = &definition.custom {
        custom::header(definition, new, &mut errors);
        if errors.is_empty() {
            metadata_twice(new, old, &at, &mut errors);
            custom::update(custom, subresource, old, new, &mut errors);
        }
        return errors;
    }
    metadata_twice(new, old, &at, &mut errors);
    let kind = definition.kind.as_str();
    if definition.group == "events.k8s.io" {
        // Changed ones are checked like new ones, the older part of it first.
        events::newer(new, &mut errors);
        metadata::create(&new["metadata"], NameScope::Namespaced, name_check(definition), &at, &mut errors);
    }
    if !FREE_FINALIZERS.contains(&kind) && !LATE_METADATA.contains(&key(definition)) {
        metadata::finalizer_names(&new["metadata"], &at, &mut errors);
    }
    if subresource.is_none() && !KEPT_NAMES.contains(&kind) {
        metadata::prefix(&new["metadata"], name_check(definition), &at, &mut errors);
    }
    match (subresource, key(definition)) {
        (None, ("", "Pod")) => {
            pod::update(old, new, &mut errors);
        }
        (None, ("apiextensions.k8s.io", _)) => definitions::definition_update(old, new, &mut errors),
        (None, ("discovery.k8s.io", "EndpointSlice")) => endpoints::changed_slice(old, new, &mut errors),
        (None, kind) => {
            let rules = kinds::of(kind);
            if rules.order == Order::Before {
                rules.change(old, new, &mut errors);
            }
            rules.check(new, &mut errors);
            if rules.order == Order::After {
                rules.change(old, new, &mut errors);
            }
        }
        (Some("status"), ("", "Pod")) => pod::status(old, new, &mut errors),
        (
            Some("status"),
            ("apps" | "", kind @ ("Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ReplicationController")),
        ) => {
            apps_update::status(kind, old, new, &mut errors);
        }
        (Some("status"), ("apiextensions.k8s.io", _)) => definitions::definition_status(new, &mut errors),
        (Some("status"), ("autoscaling", "HorizontalPodAutoscaler")) => autoscaling::status(new, &mut errors),
        (Some("status"), ("", "Namespace")) => nodes::namespace_status(new, &mut errors),
        (Some("status"), ("", "Node")) => nodes::node_status(new, &mut errors),
        (Some("status"), ("", "ResourceQuota")) => quotas::quota_status(new, &mut errors),
        _ => {}
    }
    errors
}

/// Checks changed metadata: by the rules for all kinds, and once more by the kind.
fn metadata_twice(new: &Value, old: &Value, at: &Path<'_>, errors: &mut Errors) {
    for _ in 0..2 {
        metadata::update(&new["metadata"], &old["metadata"], at, errors);
    }
}

/// Returns the faults of a text as a DNS label.
pub fn label_problems(text: &str) -> NameProblem {
    names::dns_1123_label(text)
}

/// Returns the faults of a text as a DNS label that begins with a letter.
pub fn dns_1035_problems(text: &str) -> NameProblem {
    names::dns_1035_label(text)
}

/// Returns the faults of a text as the value of a label.
pub fn label_value_problems(text: &str) -> NameProblem {
    names::label_value(text)
}

/// Returns the faults of a text as a part of a path.
pub fn path_segment_problems(text: &str) -> NameProblem {
    names::path_segment(text)
}

fn key(definition: &Definition) -> (&str, &str) {
    (definition.group.as_str(), definition.kind.as_str())
}

/// Returns the check for the name of an object of a kind.
fn name_check(definition: &Definition) -> fn(&str) -> NameProblem {
    match key(definition) {
        ("", "Namespace") => names::dns_1123_label,
        ("", "Service") => names::dns_1123_label,
        ("apps", "StatefulSet") => names::dns_1123_label,
        ("rbac.authorization.k8s.io", _) => names::path_segment,
        // Their names follow from their content, or are free.
        ("apiregistration.k8s.io" | "certificates.k8s.io", _) => |_| NameProblem::new(),
        ("networking.k8s.io", "IPAddress") => names::ip_address,
        _ => names::object_name,
    }
}
