//! Whether an object may be: everything that is wrong with it, together, in the real server's order and words.

mod apps;
mod apps_update;
mod batch;
mod budgets;
mod claims;
mod config;
mod errors;
mod events;
mod metadata;
mod names;
mod networking;
mod pod;
mod rights;
mod selector;
mod service;

use serde_json::Value;

use super::{Definition, custom};

pub use errors::{Errors, Path};
pub use metadata::{Scope, embedded as embedded_metadata};
pub use names::Said;
use rights::Reach;

/// Kinds whose finalizers need not be known or have a domain.
const FREE_FINALIZERS: [&str; 9] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "APIService",
    "RuntimeClass",
    "CustomResourceDefinition",
    "Lease",
    "PodDisruptionBudget",
];
/// Kinds whose `generateName` is not looked at in a change.
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

/// What is wrong with a new object.
pub fn create(definition: &Definition, object: &Value) -> Errors {
    let mut errors = Errors::new();
    let at = Path::root("metadata");
    let scope = if definition.namespaced { Scope::Namespaced } else { Scope::Cluster };
    if let Some(custom) = &definition.custom {
        custom::header(definition, object, &mut errors);
        if errors.is_empty() {
            metadata::create(&object["metadata"], scope, name_check(definition), &at, &mut errors);
            custom::create(custom, object, &mut errors);
        }
        return errors;
    }
    metadata::create(&object["metadata"], scope, name_check(definition), &at, &mut errors);
    if !FREE_FINALIZERS.contains(&definition.kind.as_str()) {
        metadata::finalizer_names(&object["metadata"], &at, &mut errors);
    }
    match key(definition) {
        ("", "Pod") => pod::create(object, &mut errors),
        ("apps", "StatefulSet") => apps::new_stateful_set(object, &mut errors),
        ("events.k8s.io", "Event") => {
            always(definition, object, &mut errors);
            events::newer_alone(object, &mut errors);
        }
        _ => always(definition, object, &mut errors),
    }
    errors
}

/// What is wrong with a changed object. `subresource` is what it was written through.
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
    if !FREE_FINALIZERS.contains(&kind) {
        metadata::finalizer_names(&new["metadata"], &at, &mut errors);
    }
    if subresource.is_none() && !KEPT_NAMES.contains(&kind) {
        metadata::prefix(&new["metadata"], name_check(definition), &at, &mut errors);
    }
    match (subresource, key(definition)) {
        (None, ("", "Pod")) => {
            pod::update(old, new, &mut errors);
        }
        (None, kind) => {
            always(definition, new, &mut errors);
            match kind {
                ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => {
                    apps_update::same_selector(old, new, &mut errors);
                }
                ("apps", "StatefulSet") => apps_update::stateful_set(old, new, &mut errors),
                ("", "ConfigMap") => config::config_map_update(old, new, &mut errors),
                ("", "Secret") => config::secret_update(old, new, &mut errors),
                ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
                    rights::binding_update(old, new, &mut errors);
                }
                _ => {}
            }
        }
        (Some("status"), ("", "Pod")) => pod::status(old, new, &mut errors),
        (
            Some("status"),
            ("apps" | "", kind @ ("Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ReplicationController")),
        ) => {
            apps_update::status(kind, old, new, &mut errors);
        }
        _ => {}
    }
    errors
}

/// What may become of metadata: asked by what all kinds have in common, and once more by the kind.
fn metadata_twice(new: &Value, old: &Value, at: &Path<'_>, errors: &mut Errors) {
    for _ in 0..2 {
        metadata::update(&new["metadata"], &old["metadata"], at, errors);
    }
}

/// What is wrong with a text as a DNS label.
pub fn label_problems(text: &str) -> Said {
    names::dns_1123_label(text)
}

fn key(definition: &Definition) -> (&str, &str) {
    (definition.group.as_str(), definition.kind.as_str())
}

/// What holds for new objects and for changed ones.
fn always(definition: &Definition, object: &Value, errors: &mut Errors) {
    match key(definition) {
        ("apps", "Deployment") => apps::deployment(object, errors),
        ("apps", "ReplicaSet") => apps::replica_set(object, errors),
        ("apps", "StatefulSet") => apps::stateful_set(object, errors),
        ("apps", "DaemonSet") => apps::daemon_set(object, errors),
        ("", "ReplicationController") => apps::replication_controller(object, errors),
        ("", "ConfigMap") => config::config_map(object, errors),
        ("", "Secret") => config::secret(object, errors),
        ("", "Service") => service::service(object, errors),
        ("", "PersistentVolumeClaim") => claims::claim(object, errors),
        ("", "Event") => events::core(object, errors),
        (
            "networking.k8s.io"
            | "rbac.authorization.k8s.io"
            | "policy"
            | "autoscaling"
            | "batch"
            | "storage.k8s.io"
            | "scheduling.k8s.io"
            | "coordination.k8s.io",
            _,
        ) => others(definition, object, errors),
        ("", "LimitRange") => budgets::limit_range(object, errors),
        ("apps", "ControllerRevision") => budgets::revision(object, errors),
        ("events.k8s.io", "Event") => events::newer(object, errors),
        ("", "PodTemplate") => pod::template(&object["template"], &Path::root("template"), errors),
        _ => {}
    }
}

/// The groups around workloads.
fn others(definition: &Definition, object: &Value, errors: &mut Errors) {
    match definition.kind.as_str() {
        "Ingress" => networking::ingress(object, errors),
        "IngressClass" => networking::ingress_class(object, errors),
        "NetworkPolicy" => networking::network_policy(object, errors),
        "Role" => rights::role(object, Reach::Namespace, errors),
        "ClusterRole" => rights::role(object, Reach::Cluster, errors),
        "RoleBinding" => rights::binding(object, Reach::Namespace, errors),
        "ClusterRoleBinding" => rights::binding(object, Reach::Cluster, errors),
        "PodDisruptionBudget" => budgets::disruption_budget(object, errors),
        "HorizontalPodAutoscaler" => budgets::autoscaler(object, errors),
        "Job" => batch::job(object, errors),
        "CronJob" => batch::cron_job(object, errors),
        "StorageClass" => budgets::storage_class(object, errors),
        "PriorityClass" => budgets::priority_class(object, errors),
        "Lease" => budgets::lease(object, errors),
        _ => {}
    }
}

/// What the name of an object of a kind must look like.
fn name_check(definition: &Definition) -> fn(&str) -> Said {
    match key(definition) {
        ("", "Namespace") => names::dns_1123_label,
        ("", "Service") => names::dns_1035_label,
        ("rbac.authorization.k8s.io", _) => names::path_segment,
        _ => names::object_name,
    }
}
