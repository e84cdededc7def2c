//! Reading objects: one by one where they are few, by list where they are many.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::call::{Purpose, get};
use super::pages::Listing;
use super::served::escape;
use super::{Cluster, ClusterError, ObjectText, Served};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Revision, Workload, marks, revisions};

/// The workload kinds, in the order in which they are listed.
pub const WORKLOADS: [(&str, &str); 5] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("v1", "ReplicationController"),
    ("batch/v1", "Job"),
];

/// The most objects of one name that are looked for.
const NAMED: usize = 5;

impl Cluster {
    /// Returns a live object; `None` if there is none.
    ///
    /// # Errors
    /// Fails when the API server does not answer, does not allow it, or does not know the kind.
    pub async fn get(&self, key: &ObjectKey, served: &Served) -> Result<Option<Value>, ClusterError> {
        let what = format!("read {key}");
        let purpose = Purpose { what: &what, secret: key.kind == "Secret" };
        match self.call_for(purpose, key, get(&served.path_of(key))).await {
            Ok(answer) => Ok(Some(answer.value)),
            Err(ClusterError::Refused(refusal)) if refusal.code == 404 => Ok(None),
            // A namespace that is not there has no objects either.
            Err(ClusterError::Missing { what, .. }) if what.starts_with("namespace") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all objects of a kind that carry `labels` (a selector, empty for all), in `namespace` or everywhere.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub async fn list(
        &self,
        served: &Served,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<Value>, ClusterError> {
        self.pages(Listing::of(served, namespace, labels), |_, object| without_unasked(served, object.read())).await
    }

    /// Returns the keys of the objects of a kind that have a name, in any namespace: the first ones.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub async fn named(&self, served: &Served, name: &str) -> Result<Vec<ObjectKey>, ClusterError> {
        let selector = escape(&format!("metadata.name={name}"));
        let path = format!("{}?limit={NAMED}&fieldSelector={selector}", served.address());
        let answer =
            self.call(Purpose { what: &format!("list {}", served.resource), secret: false }, get(&path)).await?;
        Ok(answer.value["items"].as_array().into_iter().flatten().map(|object| served.key_of(object)).collect())
    }

    /// Returns the live workloads with these labels, in `namespace` or everywhere, kind by kind.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub async fn workloads(
        &self,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<(ObjectKey, Value)>, ClusterError> {
        let mut found = Vec::new();
        for (api_version, kind) in WORKLOADS {
            let served = self.served(api_version, kind).await?;
            for object in self.list(&served, namespace, selector).await? {
                found.push((served.key_of(&object), object));
            }
        }
        Ok(found)
    }

    /// Returns the live workloads with these labels, everywhere, or if belay may list them only in namespaces, in
    /// those. Kinds that it may not list at all are left out.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow any of it.
    pub async fn workloads_where_allowed(
        &self,
        namespaces: &BTreeSet<String>,
        labels: &str,
    ) -> Result<Vec<(ObjectKey, ObjectText)>, ClusterError> {
        let (mut found, mut denied, mut allowed) = (Vec::new(), None, false);
        for (api_version, kind) in WORKLOADS {
            let served = self.served(api_version, kind).await?;
            let everywhere = Listing::of(&served, None, labels);
            match self.pages_where_allowed(everywhere, namespaces, |key, object| (key, object)).await {
                Ok(objects) => {
                    allowed = true;
                    found.extend(objects);
                }
                Err(error @ ClusterError::Denied { .. }) => denied = Some(error),
                Err(error) => return Err(error),
            }
        }
        match denied.filter(|_| !allowed) {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }

    /// Returns the revisions that the cluster keeps of a workload, the newest first: of a Deployment its ReplicaSets,
    /// of a StatefulSet or DaemonSet its ControllerRevisions.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub async fn revisions(&self, key: &ObjectKey, live: &Value) -> Result<Vec<Revision>, ClusterError> {
        Ok(revisions(&self.revision_keepers(key, live).await?))
    }

    /// Returns the objects that keep a workload's revisions: ReplicaSets or ControllerRevisions.
    ///
    /// # Errors
    /// Fails when the API server does not answer, or does not allow it.
    pub async fn revision_keepers(&self, key: &ObjectKey, live: &Value) -> Result<Vec<Value>, ClusterError> {
        let kind = match Workload::of(key) {
            Some(Workload::Deployment) => "ReplicaSet",
            Some(Workload::StatefulSet | Workload::DaemonSet) => "ControllerRevision",
            _ => return Ok(Vec::new()),
        };
        let served = self.served("apps/v1", kind).await?;
        let selector = selector_text(&live["spec"]["selector"]);
        let mut keepers = self.list(&served, key.namespace.as_deref(), &selector).await?;
        keepers.retain(|keeper| is_owned(keeper, marks::uid(live)));
        Ok(keepers)
    }
}

/// Removes the fields of a listed object that belay never reads. They are half of a pod, and nearly all of one with a large
/// template.
fn without_unasked(served: &Served, mut object: Value) -> Value {
    if matches!(served.kind.as_str(), "Pod" | "ReplicaSet" | "ControllerRevision")
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.remove("managedFields");
        if served.kind == "Pod" {
            metadata.remove("annotations");
        }
    }
    if served.kind == "Pod"
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.retain(|field, _| READ_OF_PODS.contains(&field.as_str()));
        for containers in ["initContainers", "containers", "ephemeralContainers"] {
            let containers = spec.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten();
            containers.filter_map(Value::as_object_mut).for_each(keep_references);
        }
    }
    object
}

/// The fields of a pod's `spec` that belay reads.
const READ_OF_PODS: [&str; 7] = [
    "nodeName",
    "activeDeadlineSeconds",
    "volumes",
    "imagePullSecrets",
    "initContainers",
    "containers",
    "ephemeralContainers",
];

/// Keeps of a container its name, its image, and the ConfigMaps and Secrets that it reads.
fn keep_references(container: &mut Map<String, Value>) {
    container.retain(|field, _| matches!(field.as_str(), "name" | "image" | "env" | "envFrom"));
    if let Some(variables) = container.get_mut("env").and_then(Value::as_array_mut) {
        variables.retain(|variable| variable.get("valueFrom").is_some());
    }
}

/// Returns true when the controller of `object` is the object with that uid.
pub(super) fn is_owned(object: &Value, uid: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.clone().any(|owner| owner["uid"] == uid && owner["controller"] == true)
}

/// Returns a LabelSelector (or the plain map of a ReplicationController) as the text that lists take.
pub(super) fn selector_text(selector: &Value) -> String {
    let structured = selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some();
    let equal = if structured { &selector["matchLabels"] } else { selector };
    let equal = equal.as_object().into_iter().flatten();
    let mut parts: Vec<String> = equal.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let values = values.collect::<Vec<_>>().join(",");
        match expression["operator"].as_str() {
            Some("In") => parts.push(format!("{key} in ({values})")),
            Some("NotIn") => parts.push(format!("{key} notin ({values})")),
            Some("Exists") => parts.push(key.to_owned()),
            Some("DoesNotExist") => parts.push(format!("!{key}")),
            _ => {}
        }
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_become_text() {
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "old", "operator": "DoesNotExist"}]});
        assert_eq!(selector_text(&selector), "app=web,tier in (a,b),!old");
        assert_eq!(selector_text(&json!({"app": "web"})), "app=web");
    }

    #[test]
    fn a_listed_pod_is_kept_without_what_its_template_makes_large() {
        let [group, version, kind, resource] = ["", "v1", "Pod", "pods"].map(str::to_owned);
        let served = Served { group, version, kind, resource, namespaced: true };
        let secret = json!({"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}});
        let status = json!({"phase": "Running", "containerStatuses": [{"name": "web", "restartCount": 3}]});
        let pod = |annotations: Option<Value>, more: Value, env: Value| {
            let mut container =
                json!({"name": "web", "image": "a", "envFrom": [{"secretRef": {"name": "all"}}], "env": env});
            container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let mut metadata = json!({"name": "web-1", "uid": "u", "labels": {"app": "web"}});
            metadata.as_object_mut().unwrap().extend(annotations.map(|all| ("annotations".to_owned(), all)));
            let volumes = json!([{"name": "v", "secret": {"secretName": "tls"}}]);
            let mut spec = json!({"nodeName": "n", "volumes": volumes, "containers": [container]});
            if more != json!({}) {
                spec["hostAliases"] = json!([{"ip": "127.0.0.1", "hostnames": [more["args"][0]]}]);
            }
            json!({"metadata": metadata, "spec": spec, "status": status})
        };
        let long = "x".repeat(100_000);
        let large = json!({"args": [long], "command": [long], "livenessProbe": {"exec": {"command": [long]}}});
        let seen = pod(Some(json!({"a": long})), large, json!([{"name": "A", "value": long}, secret]));
        assert_eq!(without_unasked(&served, seen), pod(None, json!({}), json!([secret])));
        for odd in [json!(3), json!({"metadata": 3, "spec": []}), json!({"spec": {"containers": [3, {"env": 3}]}})] {
            without_unasked(&served, odd);
        }
    }
}
