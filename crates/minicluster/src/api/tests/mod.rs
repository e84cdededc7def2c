mod access;
mod definitions;
mod hardening;
mod logs;
mod quotas;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::Clock;
use crate::{PodLogs, Random};

/// Returns a server, and the logs of its containers.
fn server(access: Access) -> (ApiServer, PodLogs) {
    let logs = PodLogs::default();
    let clock = Clock::tokio(Timestamp::UNIX_EPOCH);
    let server = ApiServer::new(Settings {
        clock,
        random: Random::new(1),
        logs: logs.clone(),
        access,
        name: "test".to_owned(),
        service_accounts: false,
        kept: None,
        signing_key: None,
    });
    server.set_up().unwrap();
    server.provide_roles().unwrap();
    (server, logs)
}

/// Asks, as someone in the process or with a bearer token from outside.
async fn ask(server: &ApiServer, method: Method, path: &str, token: Option<&str>, body: &Value) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    if let Some(token) = token {
        request = request.extension(Peer::default());
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
    }
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let (code, _, text) = answer(server, request.body(Full::new(body)).unwrap()).await;
    (code, serde_json::from_slice(&text).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&text).into_owned())))
}

async fn answer(server: &ApiServer, request: Request<Full<Bytes>>) -> (u16, HeaderMap, Bytes) {
    let (parts, body) = server.clone().oneshot(request).await.unwrap().into_parts();
    (parts.status.as_u16(), parts.headers, body.collect().await.unwrap().to_bytes())
}

async fn create(server: &ApiServer, collection: &str, object: Value) -> Value {
    let (code, answer) = ask(server, Method::POST, collection, None, &object).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": [{ "name": "c", "image": "i" }], "nodeName": "n" },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod
}

const PODS: &str = "/api/v1/namespaces/default/pods";
