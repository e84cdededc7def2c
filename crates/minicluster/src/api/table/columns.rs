//! The columns of the built-in kinds: name, `:type` where it is not text, `/format`, `*` where only wide tables show it.

use serde_json::{Value, json};

use crate::api::resource::Resource;

const WORKLOAD: &str = "Containers*|Images*|Selector*";

const COLUMNS: &[(&str, &str, &str)] = &[
    ("", "componentstatuses", "Status|Message|Error"),
    ("", "configmaps", "Data|Age"),
    ("", "endpoints", "Endpoints|Age"),
    ("", "limitranges", "Created At:date"),
    ("", "namespaces", "Status|Age"),
    ("", "nodes", "Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*"),
    (
        "",
        "persistentvolumeclaims",
        "Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
    ),
    (
        "",
        "persistentvolumes",
        "Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*",
    ),
    ("", "pods", "Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*"),
    ("", "podtemplates", "Containers|Images|Pod Labels"),
    ("", "replicationcontrollers", "Desired:integer|Current:integer|Ready:integer|Age|@"),
    ("", "resourcequotas", "Request|Limit|Age"),
    ("", "secrets", "Type|Data|Age"),
    ("", "serviceaccounts", "Age"),
    ("", "services", "Type|Cluster-IP|External-IP|Port(s)|Age|Selector*"),
    ("apiregistration.k8s.io", "apiservices", "Service|Available|Age"),
    ("apps", "controllerrevisions", "Controller|Revision|Age"),
    (
        "apps",
        "daemonsets",
        "Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer|Node Selector|Age|@",
    ),
    ("apps", "deployments", "Ready|Up-to-date|Available|Age|@"),
    ("apps", "replicasets", "Desired:integer|Current:integer|Ready:integer|Age|@"),
    ("apps", "statefulsets", "Ready|Age|Containers*|Images*"),
    ("autoscaling", "horizontalpodautoscalers", "Reference|Targets|MinPods|MaxPods|Replicas|Age"),
    ("batch", "cronjobs", "Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age|@"),
    ("batch", "jobs", "Status|Completions|Duration|Age|@"),
    ("networking.k8s.io", "ingressclasses", "Controller|Parameters|Age"),
    ("networking.k8s.io", "ingresses", "Class|Hosts|Address|Ports|Age"),
    ("networking.k8s.io", "ipaddresses", "ParentRef"),
    ("networking.k8s.io", "networkpolicies", "Pod-Selector|Age"),
    ("networking.k8s.io", "servicecidrs", "CIDRs|Age"),
    ("policy", "poddisruptionbudgets", "Min Available|Max Unavailable|Allowed Disruptions:integer|Age"),
    ("rbac.authorization.k8s.io", "clusterrolebindings", "Role|Age|Users*|Groups*|ServiceAccounts*"),
    ("rbac.authorization.k8s.io", "clusterroles", "Created At:date"),
    ("rbac.authorization.k8s.io", "rolebindings", "Role|Age|Users*|Groups*|ServiceAccounts*"),
    ("rbac.authorization.k8s.io", "roles", "Created At:date"),
    ("storage.k8s.io", "storageclasses", "Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies", "Mutations:integer|ParamKind|Age"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "PolicyName|ParamRef|Age"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "Webhooks:integer|Age"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", "Validations:integer|ParamKind|Age"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "PolicyName|ParamRef|Age"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "Webhooks:integer|Age"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "Created At:date"),
    ("scheduling.k8s.io", "priorityclasses", "Value:integer|Global-Default:boolean|Age|PreemptionPolicy"),
    ("coordination.k8s.io", "leases", "Holder|Age"),
    ("node.k8s.io", "runtimeclasses", "Handler|Age"),
    ("discovery.k8s.io", "endpointslices", "AddressType|Ports|Endpoints|Age"),
    ("autoscaling", "scales", "Desired:integer|Available:integer|Age"),
];

/// Returns the columns of a kind.
#[must_use]
pub(super) fn columns(resource: &Resource) -> Value {
    let (group, plural) = (resource.definition.group.as_str(), resource.definition.resource.as_str());
    if plural == "events" {
        let events = "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name/name*".to_owned();
        return events.split('|').map(column).collect();
    }
    let known = COLUMNS.iter().find(|(known, resource, _)| *known == group && *resource == plural);
    let columns = known.map_or("Age", |(_, _, columns)| columns).replace('@', WORKLOAD);
    // A scale's name is plain text, as the real server has it.
    let name = if plural == "scales" { "Name" } else { "Name/name" };
    std::iter::once(name).chain(columns.split('|')).map(column).collect()
}

fn column(text: &str) -> Value {
    let (text, priority) = text.strip_suffix('*').map_or((text, 0), |text| (text, 1));
    let (text, format) = text.split_once('/').unwrap_or((text, ""));
    let (name, ty) = text.split_once(':').unwrap_or((text, "string"));
    json!({ "name": name, "type": ty, "format": format, "description": "", "priority": priority })
}
