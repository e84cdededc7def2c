//! The roles that every cluster begins with, as far as this one has a use for them.

use serde_json::{Value, json};

const LABEL: &str = "kubernetes.io/bootstrapping";

/// Cluster roles, then the bindings of some of them.
pub fn policy() -> (Vec<Value>, Vec<Value>) {
    let all = json!(["*"]);
    let everything = json!([
        { "verbs": all, "apiGroups": all, "resources": all },
        { "verbs": all, "nonResourceURLs": all },
    ]);
    let public = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let discovery = [&["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"], public.as_slice()].concat();
    let reviews = json!([
        { "verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
          "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"] },
        { "verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"] },
    ]);
    let read = json!(["get", "list", "watch"]);
    let write = json!(["create", "delete", "deletecollection", "patch", "update"]);
    let groups = json!(["", "apps", "autoscaling", "batch", "discovery.k8s.io", "networking.k8s.io", "policy"]);
    let seen = json!([
        "bindings",
        "configmaps",
        "controllerrevisions",
        "cronjobs",
        "cronjobs/status",
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "endpoints",
        "endpointslices",
        "events",
        "horizontalpodautoscalers",
        "horizontalpodautoscalers/status",
        "ingresses",
        "ingresses/status",
        "jobs",
        "jobs/status",
        "limitranges",
        "namespaces",
        "namespaces/status",
        "networkpolicies",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "poddisruptionbudgets",
        "poddisruptionbudgets/status",
        "pods",
        "pods/log",
        "pods/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "replicationcontrollers/status",
        "resourcequotas",
        "resourcequotas/status",
        "serviceaccounts",
        "services",
        "services/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ]);
    let changed = json!([
        "configmaps",
        "cronjobs",
        "daemonsets",
        "deployments",
        "deployments/scale",
        "endpoints",
        "events",
        "horizontalpodautoscalers",
        "ingresses",
        "jobs",
        "networkpolicies",
        "persistentvolumeclaims",
        "poddisruptionbudgets",
        "pods",
        "pods/attach",
        "pods/exec",
        "pods/portforward",
        "pods/eviction",
        "replicasets",
        "replicasets/scale",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "secrets",
        "serviceaccounts",
        "serviceaccounts/token",
        "services",
        "statefulsets",
        "statefulsets/scale",
    ]);
    let view = json!({ "verbs": read, "apiGroups": groups, "resources": seen });
    let edit = json!({ "verbs": write, "apiGroups": groups, "resources": changed });
    let secrets = json!({ "verbs": read, "apiGroups": [""], "resources": ["secrets"] });
    let administer = json!({
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings", "roles"],
    });
    let roles = vec![
        role("cluster-admin", &everything),
        role("admin", &json!([view, edit, secrets, administer])),
        role("edit", &json!([view, edit, secrets])),
        role("view", &json!([view])),
        role("system:basic-user", &reviews),
        role("system:discovery", &json!([{ "verbs": ["get"], "nonResourceURLs": discovery }])),
        role("system:public-info-viewer", &json!([{ "verbs": ["get"], "nonResourceURLs": public }])),
    ];
    let bindings = vec![
        binding("cluster-admin", &["system:masters"]),
        binding("system:basic-user", &["system:authenticated"]),
        binding("system:discovery", &["system:authenticated"]),
        binding("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
    ];
    (roles, bindings)
}

fn role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name, "labels": { LABEL: "rbac-defaults" } }, "rules": rules,
    })
}

fn binding(name: &str, groups: &[&str]) -> Value {
    let subject = |group: &&str| json!({ "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group });
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": name, "labels": { LABEL: "rbac-defaults" } },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
    })
}
