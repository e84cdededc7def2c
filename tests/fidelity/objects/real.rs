//! The real API server's side of a case.

use std::collections::BTreeSet;

use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::step::{Answer, Step, Verb};
use crate::world::control_plane::ControlPlane;

/// The real API server, one namespace of it.
pub struct Real {
    client: Client,
    namespace: String,
    touched: BTreeSet<String>,
}

impl Real {
    /// A namespace of its own for a case.
    pub async fn new(plane: &ControlPlane, namespace: &str) -> Real {
        let real = Real { client: plane.client(), namespace: namespace.to_owned(), touched: BTreeSet::new() };
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        let answer = real.send("POST", "/api/v1/namespaces", "application/json", body.to_string().into_bytes()).await;
        assert!(matches!(answer.code, 201 | 409), "{answer:?}");
        real
    }

    /// The case's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    fn collection(&self, step: &Step) -> String {
        let kind = step.resource();
        let root = if kind.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}", kind.api_version()) };
        if kind.namespaced {
            format!("{root}/namespaces/{}/{}", self.namespace, kind.resource)
        } else {
            format!("{root}/{}", kind.resource)
        }
    }

    /// What is stored now.
    pub async fn stored(&self, step: &Step) -> Option<Value> {
        let name = step.object_name();
        if name.is_empty() {
            return None;
        }
        let answer =
            self.send("GET", &format!("{}/{name}", self.collection(step)), "application/json", Vec::new()).await;
        (answer.code == 200).then_some(answer.body)
    }

    /// Sends a step.
    pub async fn answer(&mut self, step: &Step) -> Answer {
        let (collection, stored) = (self.collection(step), self.stored(step).await);
        let object = format!("{collection}/{}", step.object_name());
        let path = match (&step.sub, step.r#do) {
            (None, Verb::Create) => collection,
            (None, _) => object.clone(),
            (Some(sub), _) => format!("{object}/{sub}"),
        };
        let mut query = format!("fieldManager={}&fieldValidation={}", step.r#as, step.validation);
        if step.dry {
            query.push_str("&dryRun=All");
        }
        if step.force {
            query.push_str("&force=true");
        }
        let (method, media_type) = match step.r#do {
            Verb::Create => ("POST", if step.yaml { "application/yaml" } else { "application/json" }),
            Verb::Put => ("PUT", if step.yaml { "application/yaml" } else { "application/json" }),
            Verb::Apply => ("PATCH", "application/apply-patch+yaml"),
            Verb::Merge => ("PATCH", "application/merge-patch+json"),
            Verb::Strategic => ("PATCH", "application/strategic-merge-patch+json"),
            Verb::Json => ("PATCH", "application/json-patch+json"),
        };
        let body = step.sent(stored.as_ref());
        let mut answer = self.send(method, &format!("{path}?{query}"), media_type, body).await;
        if answer.code < 300 {
            self.touched.insert(object);
        }
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        answer.unchanged = stored.is_some_and(|stored| version(&stored) == version(&answer.body));
        answer
    }

    async fn send(&self, method: &str, path: &str, media_type: &str, body: Vec<u8>) -> Answer {
        let request = http::Request::builder().method(method).uri(path).header("Content-Type", media_type);
        let request = request.header("Accept", "application/json").body(Body::from(body)).unwrap();
        let response = self.client.send(request).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("Warning").iter();
        let warnings = warnings.map(|value| warning_text(value.to_str().unwrap())).collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!({ "code": code, "message": String::from_utf8_lossy(&bytes) }));
        Answer { code, body, warnings, unchanged: false }
    }

    /// Removes what the case left, so that cluster-wide names are free again.
    pub async fn clean_up(&self) {
        for path in &self.touched {
            let now = json!({ "gracePeriodSeconds": 0 }).to_string().into_bytes();
            self.send("DELETE", path, "application/json", now).await;
            let free = json!({ "metadata": { "finalizers": null } }).to_string().into_bytes();
            self.send("PATCH", path, "application/merge-patch+json", free).await;
        }
    }
}

/// The text of a `299 - "…"` header.
fn warning_text(header: &str) -> String {
    let text = header.strip_prefix("299 - ").unwrap_or(header);
    serde_json::from_str(text).unwrap_or_else(|_| text.to_owned())
}
