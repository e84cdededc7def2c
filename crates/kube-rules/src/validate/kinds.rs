//! The rules of each kind, its metadata apart.

use serde_json::Value;

use super::errors::{Errors, Path};
use super::rights::Reach;
use super::storage::{claims, classes, volumes};
use super::{
    apps, apps_update, autoscaling, budgets, config, definitions, endpoints, events, jobs, networking, nodes, pod,
    policies, quotas, registrations, rights, service,
};

/// The time of the check for immutable fields.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Before the new object is checked by itself.
    Before,
    /// After that.
    After,
}

type Check = fn(&Value, &mut Errors);
type KindChange = fn(&Value, &Value, &mut Errors);

/// The rules of a kind.
#[derive(Clone, Copy)]
pub struct KindRules {
    check: Option<Check>,
    change: Option<KindChange>,
    /// The time of the check of the change.
    pub order: Order,
}

impl KindRules {
    /// Checks an object by itself.
    pub fn check(&self, object: &Value, errors: &mut Errors) {
        if let Some(check) = self.check {
            check(object, errors);
        }
    }

    /// Checks a change.
    pub fn change(&self, old: &Value, new: &Value, errors: &mut Errors) {
        if let Some(change) = self.change {
            change(old, new, errors);
        }
    }
}

/// Returns rules that check an object by itself; any change may be.
const fn alone(check: Check) -> KindRules {
    KindRules { check: Some(check), change: None, order: Order::After }
}

/// Returns rules that check an object by itself, then its changes.
const fn then(check: Check, change: KindChange) -> KindRules {
    KindRules { check: Some(check), change: Some(change), order: Order::After }
}

/// Returns the rules of a kind for which only a change is checked here.
const fn changed(change: KindChange) -> KindRules {
    KindRules { check: None, change: Some(change), order: Order::After }
}

/// Returns rules that check the change first, then the object by itself.
const fn after(change: KindChange, check: Check) -> KindRules {
    KindRules { check: Some(check), change: Some(change), order: Order::Before }
}

/// Returns the rules of a kind, named by group and kind.
pub fn of((group, kind): (&str, &str)) -> KindRules {
    let none = KindRules { check: None, change: None, order: Order::After };
    match group {
        "" => core(kind).unwrap_or(none),
        "apps" | "batch" | "autoscaling" | "policy" => workloads(kind).unwrap_or(none),
        _ => others(kind).unwrap_or(none),
    }
}

fn core(kind: &str) -> Option<KindRules> {
    Some(match kind {
        "ConfigMap" => after(config::config_map_update, config::config_map),
        "Endpoints" => alone(endpoints::endpoints),
        "Event" => alone(events::core),
        "LimitRange" => alone(quotas::limit_range),
        "Namespace" => alone(nodes::namespace),
        "Node" => then(nodes::node, nodes::node_update),
        "PersistentVolume" => then(volumes::volume, volumes::update),
        "PersistentVolumeClaim" => then(claims::claim, claims::update),
        "PodTemplate" => alone(|object, errors| pod::template(&object["template"], &Path::root("template"), errors)),
        "ReplicationController" => alone(apps::replication_controller),
        "ResourceQuota" => then(quotas::quota, quotas::quota_update),
        "Secret" => after(config::secret_update, config::secret),
        "Service" => after(service::update, service::service),
        _ => return None,
    })
}

fn workloads(kind: &str) -> Option<KindRules> {
    Some(match kind {
        "ControllerRevision" => then(budgets::revision, budgets::revision_update),
        "CronJob" => alone(jobs::cron_job),
        "DaemonSet" => after(apps_update::same_selector, apps::daemon_set),
        "Deployment" => then(apps::deployment, apps_update::same_selector),
        "HorizontalPodAutoscaler" => alone(autoscaling::autoscaler),
        "Job" => then(jobs::job, jobs::job_update),
        "PodDisruptionBudget" => alone(budgets::disruption_budget),
        "ReplicaSet" => then(apps::replica_set, apps_update::same_selector),
        "StatefulSet" => then(apps::stateful_set, apps_update::stateful_set),
        _ => return None,
    })
}

fn others(kind: &str) -> Option<KindRules> {
    Some(match kind {
        "APIService" => alone(registrations::api_service),
        "ClusterRole" => alone(|object, errors| rights::role(object, Reach::Cluster, errors)),
        "ClusterRoleBinding" => {
            then(|object, errors| rights::binding(object, Reach::Cluster, errors), rights::binding_update)
        }
        "CustomResourceDefinition" => alone(definitions::definition),
        "EndpointSlice" => alone(endpoints::slice),
        "Event" => changed(events::newer_update),
        "IPAddress" => then(networking::ip_address, networking::ip_address_update),
        "Ingress" => alone(networking::ingress),
        "IngressClass" => after(networking::ingress_class_update, networking::ingress_class),
        "Lease" => alone(budgets::lease),
        "MutatingAdmissionPolicy" => alone(policies::mutation),
        "MutatingAdmissionPolicyBinding" => alone(policies::mutation_binding),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => alone(registrations::webhooks),
        "NetworkPolicy" => alone(networking::network_policy),
        "PriorityClass" => then(budgets::priority_class, budgets::priority_class_update),
        "Role" => alone(|object, errors| rights::role(object, Reach::Namespace, errors)),
        "RoleBinding" => {
            then(|object, errors| rights::binding(object, Reach::Namespace, errors), rights::binding_update)
        }
        "RuntimeClass" => then(nodes::runtime_class, nodes::runtime_class_update),
        "ServiceCIDR" => alone(networking::service_range),
        "StorageClass" => then(classes::storage_class, classes::storage_class_update),
        "ValidatingAdmissionPolicy" => alone(policies::policy),
        "ValidatingAdmissionPolicyBinding" => alone(policies::policy_binding),
        _ => return None,
    })
}
