//! The kinds that have rollouts, and the paths of their pod templates.

use serde_json::Value;

use super::marks;
use crate::manifest::ObjectKey;

/// A kind whose pods are replaced when its template changes, or, for a Job, run to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// `apps/v1` Deployment.
    Deployment,
    /// `apps/v1` StatefulSet.
    StatefulSet,
    /// `apps/v1` DaemonSet.
    DaemonSet,
    /// `v1` ReplicationController.
    ReplicationController,
    /// `batch/v1` Job: it can only complete or fail.
    Job,
}

impl Workload {
    /// Returns the workload kind of an object, if it is one.
    #[must_use]
    pub fn of(key: &ObjectKey) -> Option<Workload> {
        Workload::named(&key.group, &key.kind)
    }

    /// Returns the workload kind of that group and name, if it is one.
    #[must_use]
    pub fn named(group: &str, kind: &str) -> Option<Workload> {
        match (group, kind) {
            ("apps", "Deployment") => Some(Workload::Deployment),
            ("apps", "StatefulSet") => Some(Workload::StatefulSet),
            ("apps", "DaemonSet") => Some(Workload::DaemonSet),
            ("", "ReplicationController") => Some(Workload::ReplicationController),
            ("batch", "Job") => Some(Workload::Job),
            _ => None,
        }
    }

    /// Returns true when its controller replaces the pods after a change of the template. A ReplicationController's
    /// does not.
    #[must_use]
    pub fn replaces_pods(self) -> bool {
        self != Workload::ReplicationController
    }

    /// Returns true when it has earlier templates that belay can go back to: kept by the cluster, or, for a
    /// ReplicationController, by the history and Git.
    #[must_use]
    pub fn can_go_back(self) -> bool {
        self != Workload::Job
    }
}

/// Returns true when an object is a Job.
#[must_use]
pub fn is_job(key: &ObjectKey) -> bool {
    Workload::of(key) == Some(Workload::Job)
}

/// Returns true when an object is a Pod.
#[must_use]
pub fn is_pod(key: &ObjectKey) -> bool {
    key.group.is_empty() && key.kind == "Pod"
}

/// Returns true when an object is a Pod that is a hook of a Helm chart: it runs to its end, as a Job does.
#[must_use]
pub fn is_hook_pod(key: &ObjectKey, object: &Value) -> bool {
    is_pod(key) && marks::annotation(object, marks::HOOK_RUN).is_some()
}

/// Returns true when an object runs to its end once: a Job, or a Pod that is a hook.
#[must_use]
pub fn runs_once(key: &ObjectKey, object: &Value) -> bool {
    is_job(key) || is_hook_pod(key, object)
}

/// Returns the pod template of a workload object.
#[must_use]
pub fn template(object: &Value) -> Option<&Value> {
    object["spec"].get("template").filter(|template| template.is_object())
}

/// Returns the path of the pods' own specification in an object of that kind, key by key; `None` for a kind without
/// pods.
#[must_use]
pub fn pod_spec_path(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    match (group, kind) {
        ("", "Pod") => Some(&["spec"]),
        ("batch", "CronJob") => Some(&["spec", "jobTemplate", "spec", "template", "spec"]),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("batch", "Job") => Some(&["spec", "template", "spec"]),
        _ => None,
    }
}

/// The fields of a pod's specification that name its ServiceAccount: the second is the old name of the first, and the API
/// server sets each from the other.
pub(super) const ACCOUNT_FIELDS: [&str; 2] = ["serviceAccountName", "serviceAccount"];

/// Returns the ServiceAccount that a pod's specification names, and the field that names it. If the two fields differ,
/// the server takes the first.
#[must_use]
pub fn service_account(spec: &Value) -> Option<(&'static str, &str)> {
    let named = |field: &'static str| Some((field, spec.get(field)?.as_str().filter(|name| !name.is_empty())?));
    ACCOUNT_FIELDS.into_iter().find_map(named)
}
