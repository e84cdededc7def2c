//! The changes that people make by hand, as kubectl would.

use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::events::Hand;
use super::findings::{annotation, path_of};
use super::repository::Key;
use crate::support::daemon::anew;

/// A finalizer that nobody looks after.
const FINALIZER: &str = "example.com/keep";

/// A person with kubectl.
pub struct Person(pub kube::Client);

impl Person {
    /// Returns an object; `None` if there is none.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let request = Request::get(path).body(Vec::new()).expect("a request");
        match self.0.request::<Value>(request).await {
            Ok(value) => Some(value),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("GET {path}: {error}"),
        }
    }

    /// Returns the objects of a list.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Makes an object.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        self.send(Request::post(path), "application/json", object).await
    }

    async fn send(&self, request: http::request::Builder, media: &str, body: &Value) -> Value {
        let request = request.header("Content-Type", media).body(body.to_string().into_bytes()).expect("a request");
        // Somebody else may have been faster; then this person sees an error and goes home.
        self.0.request::<Value>(request).await.unwrap_or_default()
    }

    async fn merge(&self, key: &Key, patch: &Value) -> Value {
        self.send(Request::patch(path_of(key)), "application/merge-patch+json", patch).await
    }

    /// Does something to an object.
    pub async fn act(&self, key: &Key, hand: Hand, before: &Value, now: Timestamp) {
        match hand {
            Hand::Undo => self.undo(key, before).await,
            Hand::Scale if key.0 != "DaemonSet" => {
                let replicas = before["spec"]["replicas"].as_u64().unwrap_or(1) + 1;
                self.merge(key, &json!({"spec": {"replicas": replicas}})).await;
            }
            Hand::Scale => {}
            Hand::Image => {
                let by_hand = format!("registry.example.com/{}:hand-fine", key.1);
                let patch =
                    json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": by_hand}]}}}});
                self.send(Request::patch(path_of(key)), "application/strategic-merge-patch+json", &patch).await;
            }
            Hand::Delete => self.delete(key).await,
            Hand::Replace => self.replace(key, before).await,
            Hand::Pause(_) if key.0 == "Deployment" => drop(self.merge(key, &json!({"spec": {"paused": true}})).await),
            Hand::Pause(_) => {}
            Hand::Suspend(_) => drop(self.annotate(key, "belay.dev/suspend", json!("by hand")).await),
            Hand::Retry => drop(self.annotate(key, "belay.dev/hold", Value::Null).await),
            Hand::Restart => {
                let at = json!({"kubectl.kubernetes.io/restartedAt": now.to_string()});
                let patch = json!({"spec": {"template": {"metadata": {"annotations": at}}}});
                self.merge(key, &patch).await;
            }
            Hand::Finalizer(_) => {
                self.merge(key, &json!({"metadata": {"finalizers": [FINALIZER]}})).await;
                self.delete(key).await;
            }
            Hand::Label => drop(self.merge(key, &json!({"metadata": {"labels": {"example.com/team": "blue"}}})).await),
        }
    }

    async fn delete(&self, key: &Key) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        self.send(Request::delete(path_of(key)), "application/json", &options).await;
    }

    /// `kubectl replace --force`: it is deleted, and made anew as it was.
    async fn replace(&self, key: &Key, before: &Value) {
        self.delete(key).await;
        let path = path_of(key);
        let (all, _) = path.rsplit_once('/').expect("a path has slashes");
        self.create(all, &anew(before.clone())).await;
    }

    /// Writes what a controller says about a workload; whether anything else was there.
    pub async fn control(&self, key: &Key) -> bool {
        let wanted = json!({"example.com/note": "the-controllers"});
        let is_there = |live: &Value| live["metadata"]["annotations"]["example.com/note"] == wanted["example.com/note"];
        let Some(live) = self.get(&path_of(key)).await else { return false };
        let differs = !is_there(&live);
        if differs {
            self.merge(key, &json!({"metadata": {"annotations": wanted}})).await;
        }
        differs
    }

    /// Takes back what lasts only for a time.
    pub async fn let_go(&self, key: &Key, hand: Hand) {
        match hand {
            Hand::Pause(_) if key.0 == "Deployment" => {
                self.merge(key, &json!({"spec": {"paused": null}})).await;
            }
            Hand::Suspend(_) => {
                self.annotate(key, "belay.dev/suspend", Value::Null).await;
            }
            Hand::Finalizer(_) => {
                self.merge(key, &json!({"metadata": {"finalizers": null}})).await;
            }
            _ => {}
        }
    }

    async fn annotate(&self, key: &Key, name: &str, value: Value) -> Value {
        self.merge(key, &json!({"metadata": {"annotations": {name: value}}})).await
    }

    /// `kubectl rollout undo`: the template of the revision before the present one.
    async fn undo(&self, key: &Key, before: &Value) {
        let (list, template) = match key.0.as_str() {
            "Deployment" => ("replicasets", "/spec/template"),
            _ => ("controllerrevisions", "/data/spec/template"),
        };
        let uid = &before["metadata"]["uid"];
        let number = |keeper: &Value| {
            let annotated = annotation(keeper, "deployment.kubernetes.io/revision").and_then(|text| text.parse().ok());
            annotated.or_else(|| keeper["revision"].as_i64()).unwrap_or_default()
        };
        let mut keepers = self.list(&format!("/apis/apps/v1/namespaces/default/{list}")).await;
        keepers.retain(|keeper| keeper["metadata"]["ownerReferences"][0]["uid"] == *uid);
        keepers.sort_by_key(|keeper| std::cmp::Reverse(number(keeper)));
        let Some(keeper) = keepers.get(1) else { return };
        let Some(mut template) = keeper.pointer(template).cloned() else { return };
        if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
            labels.remove("pod-template-hash");
        }
        let mut patch = vec![json!({"op": "replace", "path": "/spec/template", "value": template})];
        if key.0 == "Deployment" {
            // kubectl gives the Deployment the annotations of the revision, except for some.
            let own = |name: &str| name.starts_with("deployment.kubernetes.io/") || name.starts_with("kubectl.");
            let take = |object: &Value, mine: bool| {
                let all = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
                all.into_iter().filter(|(name, _)| own(name) == mine).collect::<Vec<_>>()
            };
            let annotations: serde_json::Map<String, Value> =
                take(before, true).into_iter().chain(take(keeper, false)).collect();
            patch.push(json!({"op": "replace", "path": "/metadata/annotations", "value": annotations}));
        }
        let patch = Value::Array(patch);
        self.send(Request::patch(path_of(key)), "application/json-patch+json", &patch).await;
    }
}
