//! One API server's side of a case.

use std::collections::BTreeMap;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::step::{Answer, Step, Verb};
use crate::token_volumes::{make_default_account, without_names};

/// Stands for an HTTP code where no answer came: some requests make the real server panic, which ends their streams.
pub const BROKEN_OFF: u16 = 0;

const DEFINITION: &str = "CustomResourceDefinition";
/// The finalizer that holds it until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The number of rounds, and the length of each, for which a server is waited for that does something by itself.
const ROUNDS: usize = 1_000;
const ROUND: Duration = Duration::from_millis(10);

/// An API server, one namespace of it.
pub struct Side {
    client: Client,
    namespace: String,
    /// The written objects, as they were last seen; `None` if that is not known.
    touched: BTreeMap<String, Option<Value>>,
    uids: Vec<String>,
}

impl Side {
    /// Returns a namespace for a case; several cases may share one, one after the other.
    pub async fn new(client: Client, namespace: &str) -> Side {
        let side = Side { client, namespace: namespace.to_owned(), touched: BTreeMap::new(), uids: Vec::new() };
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        let answer = side.send("POST", "/api/v1/namespaces", "application/json", body.to_string().into_bytes()).await;
        assert!(matches!(answer.code, 201 | 409), "{answer:?}");
        make_default_account(&side.client, namespace).await;
        side
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

    /// Returns the object at a path now.
    async fn stored(&self, path: &str) -> Option<Value> {
        if let Some(Some(known)) = self.touched.get(path) {
            return Some(known.clone());
        }
        let answer = self.send("GET", path, "application/json", Vec::new()).await;
        (answer.code == 200).then_some(answer.body)
    }

    /// A definition once the server has done with it what it does by itself; nothing if it is gone.
    async fn settled(&self, path: &str) -> Option<Value> {
        let mut last = Value::Null;
        for _ in 0..ROUNDS {
            let answer = self.send("GET", path, "application/json", Vec::new()).await;
            if answer.code == 404 || is_settled(&answer.body) {
                return (answer.code == 200).then_some(answer.body);
            }
            last = answer.body;
            // Real time: this is a real server.
            tokio::time::sleep(ROUND).await;
        }
        panic!("{path}: the server does not come to rest: {last}");
    }

    /// Sends a step.
    pub async fn answer(&mut self, step: &Step) -> Answer {
        let collection = self.collection(step);
        let object = format!("{collection}/{}", encoded(&step.object_name()));
        let is_new = step.r#do == Verb::Create && !self.touched.contains_key(&object);
        let stored = if step.object_name().is_empty() || is_new { None } else { self.stored(&object).await };
        let path = match (&step.sub, step.r#do) {
            (None, Verb::Create) => collection.clone(),
            (None, _) => object.clone(),
            (Some(sub), _) => format!("{object}/{sub}"),
        };
        let (method, media_type) = step.media();
        let body = self.filled(step.sent(stored.as_ref()), stored.as_ref());
        let mut answer = self.send(method, &format!("{path}?{}", step.query()), media_type, body).await;
        if (200..300).contains(&answer.code) && !step.dry {
            let name = answer.body["metadata"]["name"].as_str().map(encoded);
            let place = match (step.r#do, name) {
                (Verb::Create, Some(name)) => format!("{collection}/{name}"),
                _ => object,
            };
            let whole = step.r#do != Verb::Delete && matches!(step.sub.as_deref(), None | Some("status"));
            let now = if step.resource().kind == DEFINITION {
                self.settled(&place).await
            } else {
                whole.then(|| answer.body.clone())
            };
            self.touched.insert(place, now);
        }
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        answer.unchanged = stored.is_some_and(|stored| version(&stored) == version(&answer.body));
        answer.body = self.anonymous(answer.body);
        answer
    }

    /// Returns a body with `{ns}`, `{uid}` and `{rv}` filled in.
    fn filled(&self, body: Vec<u8>, stored: Option<&Value>) -> Vec<u8> {
        let text = String::from_utf8_lossy(&body).replace("{ns}", &self.namespace);
        let Some(metadata) = stored.map(|stored| &stored["metadata"]) else { return text.into_bytes() };
        let says = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        text.replace("{uid}", &says("uid")).replace("{rv}", &says("resourceVersion")).into_bytes()
    }

    /// Returns a body without the uids that the server gave out.
    fn anonymous(&mut self, body: Value) -> Value {
        for uid in [&body["metadata"]["uid"], &body["details"]["uid"]].into_iter().filter_map(Value::as_str) {
            if !self.uids.iter().any(|known| known == uid) {
                self.uids.push(uid.to_owned());
            }
        }
        let text = self.uids.iter().fold(body.to_string(), |text, uid| text.replace(uid, "(uid)"));
        let text = without_names(&text);
        serde_json::from_str(&text).unwrap_or(body)
    }

    async fn send(&self, method: &str, path: &str, media_type: &str, body: Vec<u8>) -> Answer {
        let request = http::Request::builder().method(method).uri(path).header("Content-Type", media_type);
        let request = request.header("Accept", "application/json").body(Body::from(body)).unwrap();
        let response = match self.client.send(request).await {
            Ok(response) => response,
            Err(error) => {
                let body = json!({ "message": format!("{method} {path}: {error}") });
                return Answer { code: BROKEN_OFF, body, warnings: Vec::new(), unchanged: false };
            }
        };
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("Warning").iter();
        let warnings = warnings.map(|value| warning_text(value.to_str().unwrap())).collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!({ "code": code, "message": String::from_utf8_lossy(&bytes) }));
        Answer { code, body, warnings, unchanged: false }
    }

    /// Removes what the case left, so that its names are free again.
    pub async fn clean_up(&self) {
        let patch = "application/merge-patch+json";
        for path in self.touched.keys() {
            let now = json!({ "gracePeriodSeconds": 0 }).to_string().into_bytes();
            let answer = self.send("DELETE", path, "application/json", now).await;
            if answer.code >= 300 || answer.body["metadata"]["deletionTimestamp"].is_null() {
                continue;
            }
            if answer.body["kind"] == "Node" {
                // Through its status a node can be made into one that may not be changed any more.
                let sound = json!({ "status": { "nodeInfo": { "swap": null } } }).to_string().into_bytes();
                self.send("PATCH", &format!("{path}/status"), patch, sound).await;
            }
            let free = json!({ "metadata": { "finalizers": null } }).to_string().into_bytes();
            let answer = self.send("PATCH", path, patch, free).await;
            if answer.body["kind"] == DEFINITION {
                self.settled(path).await;
            }
            if answer.body["kind"] == "Namespace" {
                let mut namespace = answer.body;
                namespace["spec"]["finalizers"] = json!([]);
                let body = namespace.to_string().into_bytes();
                self.send("PUT", &format!("{path}/finalize"), "application/json", body).await;
            }
        }
    }
}

/// Returns true when a definition is as the server leaves it: its names accepted or not, and served or not.
fn is_settled(definition: &Value) -> bool {
    if definition["metadata"]["deletionTimestamp"].is_string() {
        let finalizers = definition["metadata"]["finalizers"].as_array().into_iter().flatten();
        return finalizers.clone().count() > 0 && finalizers.clone().all(|name| name != CLEANUP);
    }
    let status = &definition["status"];
    let says = |ty: &str| {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.filter(|condition| condition["type"] == ty).map(|condition| condition["status"].clone()).next()
    };
    match says("NamesAccepted") {
        Some(accepted) if accepted == "True" => {
            status["acceptedNames"] == definition["spec"]["names"]
                && says("Established").is_some_and(|said| said == "True")
        }
        accepted => accepted.is_some() && says("Established").is_some(),
    }
}

/// Returns a name as a part of a path.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Returns the text of a `299 - "…"` header.
fn warning_text(header: &str) -> String {
    let text = header.strip_prefix("299 - ").unwrap_or(header);
    serde_json::from_str(text).unwrap_or_else(|_| text.to_owned())
}
