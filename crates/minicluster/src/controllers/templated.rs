//! Deployments, ReplicaSets and ReplicationControllers as controllers see them: everything that the API says of them, the
//! pod template as text.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use k8s_openapi::api::apps::v1::{self as apps, DeploymentStatus, DeploymentStrategy, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{self as core, ReplicationControllerStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::de::DeserializeOwned;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::informer::Cached;
use super::template::Template;

/// A Deployment.
pub type Deployment = Templated<apps::Deployment>;
/// A ReplicaSet.
pub type ReplicaSet = Templated<apps::ReplicaSet>;
/// A ReplicationController.
pub type ReplicationController = Templated<core::ReplicationController>;

/// A kind of object with a template for pods, or for objects that create pods.
pub trait TemplatedKind: k8s_openapi::Resource + 'static {
    /// The specification of an object.
    type Spec: Clone + Debug + Default + DeserializeOwned + Serialize + Send + Sync + 'static;
    /// The status of an object.
    type Status: Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static;

    /// Keeps the template of `spec` once, if `before` has the same.
    fn share(spec: &mut Self::Spec, before: &Self::Spec);
}

/// An object with a template.
#[derive(Deserialize)]
#[serde(bound = "")]
pub struct Templated<K: TemplatedKind> {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The specification.
    #[serde(default)]
    pub spec: K::Spec,
    /// The status.
    pub status: Option<K::Status>,
}

/// The specification of a Deployment.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentSpec {
    /// The number of pods; one by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The selector of its pods.
    #[serde(default)]
    pub selector: LabelSelector,
    /// The template of its pods.
    #[serde(default)]
    pub template: Template,
    /// The way in which pods are replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<DeploymentStrategy>,
    /// The seconds for which a pod must have been ready to be available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// The number of old ReplicaSets that are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// True when nothing is rolled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Within how many seconds a rollout must get on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
}

/// The specification of a ReplicaSet.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSetSpec {
    /// The number of pods; one by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The seconds for which a pod must have been ready to be available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// The selector of its pods.
    #[serde(default)]
    pub selector: LabelSelector,
    /// The template of its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
}

/// The specification of a ReplicationController.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicationControllerSpec {
    /// The number of pods; one by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The seconds for which a pod must have been ready to be available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// The labels of its own pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<BTreeMap<String, String>>,
    /// The template of its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
}

impl TemplatedKind for apps::Deployment {
    type Spec = DeploymentSpec;
    type Status = DeploymentStatus;

    fn share(spec: &mut DeploymentSpec, before: &DeploymentSpec) {
        spec.template.share(&before.template);
    }
}

impl TemplatedKind for apps::ReplicaSet {
    type Spec = ReplicaSetSpec;
    type Status = ReplicaSetStatus;

    fn share(spec: &mut ReplicaSetSpec, before: &ReplicaSetSpec) {
        share(spec.template.as_mut(), before.template.as_ref());
    }
}

impl TemplatedKind for core::ReplicationController {
    type Spec = ReplicationControllerSpec;
    type Status = ReplicationControllerStatus;

    fn share(spec: &mut ReplicationControllerSpec, before: &ReplicationControllerSpec) {
        share(spec.template.as_mut(), before.template.as_ref());
    }
}

fn share(template: Option<&mut Template>, before: Option<&Template>) {
    if let (Some(template), Some(before)) = (template, before) {
        template.share(before);
    }
}

impl<K: TemplatedKind> Clone for Templated<K> {
    fn clone(&self) -> Templated<K> {
        Templated { metadata: self.metadata.clone(), spec: self.spec.clone(), status: self.status.clone() }
    }
}

impl<K: TemplatedKind> Default for Templated<K> {
    fn default() -> Templated<K> {
        Templated { metadata: ObjectMeta::default(), spec: K::Spec::default(), status: None }
    }
}

impl<K: TemplatedKind> Debug for Templated<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut object = f.debug_struct(K::KIND);
        object.field("metadata", &self.metadata).field("spec", &self.spec).field("status", &self.status).finish()
    }
}

impl<K: TemplatedKind> Serialize for Templated<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct(K::KIND, 5)?;
        object.serialize_field("apiVersion", K::API_VERSION)?;
        object.serialize_field("kind", K::KIND)?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("spec", &self.spec)?;
        if let Some(status) = &self.status {
            object.serialize_field("status", status)?;
        }
        object.end()
    }
}

impl<K: TemplatedKind> k8s_openapi::Resource for Templated<K> {
    const API_VERSION: &'static str = K::API_VERSION;
    const GROUP: &'static str = K::GROUP;
    const KIND: &'static str = K::KIND;
    const VERSION: &'static str = K::VERSION;
    const URL_PATH_SEGMENT: &'static str = K::URL_PATH_SEGMENT;
    type Scope = K::Scope;
}

impl<K: TemplatedKind> k8s_openapi::Metadata for Templated<K> {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<K: TemplatedKind> Cached for Templated<K> {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn share(&mut self, before: &Templated<K>) {
        K::share(&mut self.spec, &before.spec);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::controllers::informer::{Cache, CacheChange};

    fn deployment() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "default", "uid": "1", "resourceVersion": "7", "generation": 2,
                "labels": { "app": "web" }, "annotations": { "deployment.kubernetes.io/revision": "1" },
            },
            "spec": {
                "replicas": 3, "minReadySeconds": 5, "revisionHistoryLimit": 4, "paused": true,
                "progressDeadlineSeconds": 60, "selector": { "matchLabels": { "app": "web" } },
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 1 } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "name": "app", "image": "app:1" }] },
                },
            },
            "status": { "replicas": 3, "observedGeneration": 2 },
        })
    }

    fn set(kind: &str, selector: Value) -> Value {
        let template = deployment()["spec"]["template"].clone();
        let version = if kind == "ReplicaSet" { "apps/v1" } else { "v1" };
        json!({
            "apiVersion": version, "kind": kind, "metadata": { "name": "web" },
            "spec": { "replicas": 3, "minReadySeconds": 5, "selector": selector, "template": template },
            "status": { "replicas": 3, "readyReplicas": 1 },
        })
    }

    /// Asserts that the written object is the one of Kubernetes' own types.
    fn assert_whole<Own: DeserializeOwned + Serialize, Typed: DeserializeOwned + Serialize>(object: &Value) {
        let written = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        let own: Own = serde_json::from_str(&object.to_string()).unwrap();
        let typed: Typed = serde_json::from_value(object.clone()).unwrap();
        let own = written(serde_json::to_string(&own).unwrap());
        assert_eq!(own, written(serde_json::to_string(&typed).unwrap()));
        assert_eq!(own, *object, "the typed one says it all");
    }

    #[test]
    fn nothing_is_lost_between_reading_and_writing() {
        assert_whole::<Deployment, apps::Deployment>(&deployment());
        let labels = json!({ "matchLabels": { "app": "web" } });
        assert_whole::<ReplicaSet, apps::ReplicaSet>(&set("ReplicaSet", labels));
        let labels = json!({ "app": "web" });
        assert_whole::<ReplicationController, core::ReplicationController>(&set("ReplicationController", labels));
    }

    #[test]
    fn an_unchanged_template_is_kept_once() {
        let at = |version: &str, change: &dyn Fn(&mut Value)| {
            let mut object = deployment();
            object["metadata"]["resourceVersion"] = json!(version);
            change(&mut object);
            serde_json::from_str::<Deployment>(&object.to_string()).unwrap()
        };
        let (mut cache, mut changes) = (Cache::default(), Vec::new());
        cache.put(at("7", &|_| {}), &mut changes);
        cache.put(at("8", &|object| object["status"]["replicas"] = json!(2)), &mut changes);
        let image = |object: &mut Value| object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("app:2");
        cache.put(at("9", &image), &mut changes);
        let shared: Vec<bool> = changes
            .iter()
            .filter_map(|change| match change {
                CacheChange::Modified { old, new } => Some(new.spec.template.is_shared_with(&old.spec.template)),
                _ => None,
            })
            .collect();
        assert_eq!(shared, [true, false], "a new status, then a new template");
    }

    #[test]
    fn a_template_that_is_none_is_an_error_where_it_is_read() {
        let mut object = deployment();
        object["spec"]["template"]["spec"]["containers"] = json!("none");
        let deployment: Deployment = serde_json::from_str(&object.to_string()).unwrap();
        let error = deployment.spec.template.canonical().unwrap_err().to_string();
        assert!(error.starts_with("failed to read a pod template: "), "{error}");
    }
}
