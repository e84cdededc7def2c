//! The answers of an API server, which the server of an API group may give as it likes.

use std::convert::Infallible;
use std::time::Duration;

use belay::clock::Clock;
use belay::cluster::{Cluster, Mode, Served};
use belay_core::manifest::ObjectKey;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use kube::client::Body;
use serde_json::{Value, json};

use super::text::{sections, steers};

/// Longer than any single request, in virtual time.
const LONG: Duration = Duration::from_hours(1);

fn word(text: &str) -> String {
    text.to_owned()
}

/// Returns an API server that is ready, and answers all else with this code and body.
fn server(code: u16, body: &[u8]) -> Cluster {
    let body = Bytes::copy_from_slice(body);
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_probe = request.uri().path() == "/readyz";
        let (code, body) = if is_probe { (200, Bytes::from_static(b"ok")) } else { (code, body.clone()) };
        let answer = Response::builder().status(code).body(Full::new(body)).expect("an answer");
        async move { Ok::<_, Infallible>(answer) }
    });
    Cluster::new(kube::Client::new(service, "default"), Clock::tokio(jiff::Timestamp::UNIX_EPOCH))
}

/// Whatever an API server answers: each question ends, and what is taken from an answer was in it. The first line is a
/// code, the rest the body.
pub fn api_answer(data: &[u8]) {
    let data = &data[..data.len().min(64 << 10)];
    let all = sections(data);
    let Some((_, first)) = all.first() else { return };
    let split = first.iter().position(|byte| *byte == b'\n').map_or(first.len(), |at| at + 1);
    let code = std::str::from_utf8(&first[..split]).ok().and_then(|line| line.trim().parse::<u16>().ok());
    let (code, body) = match code.filter(|code| (200..600).contains(code)) {
        Some(code) => (code, &data[split..]),
        None => (200, data),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        tokio::time::timeout(LONG, ask(code, body)).await.expect("each question ends");
    });
}

async fn ask(code: u16, body: &[u8]) {
    let key =
        ObjectKey { group: word("a.example.com"), kind: word("A"), namespace: Some(word("shop")), name: word("web") };
    let (group, version) = (word("a.example.com"), word("v1"));
    let served = Served { group, version, kind: word("A"), resource: word("as"), namespaced: true };
    let manifest = json!({"apiVersion": "a.example.com/v1", "kind": "A", "metadata": {"name": "web"}});
    let read: Option<Value> = serde_json::from_slice(body).ok();
    let is_it = |object: &Value| {
        assert_eq!(Some(object), read.as_ref());
        assert_eq!(object["metadata"]["name"], "web");
    };
    let told = |error: belay::cluster::ClusterError| {
        let reason = error.to_reason();
        assert!(!reason.message.is_empty(), "{error:?}");
    };
    match server(code, body).get(&key, &served).await {
        Ok(live) => live.iter().for_each(is_it),
        Err(error) => told(error),
    }
    for mode in [Mode::DryRun, Mode::Real] {
        match server(code, body).apply(&key, &served, &manifest, mode).await {
            Ok(written) => is_it(&written.object),
            Err(error) => told(error),
        }
    }
    match server(code, body).list(&served, None, "").await {
        Ok(objects) => {
            let items = read.as_ref().and_then(|list| list["items"].as_array()).cloned().unwrap_or_default();
            assert!(objects.len() <= items.len() || read.is_none(), "{} of {}", objects.len(), items.len());
            assert!(objects.iter().all(|object| object["kind"].is_string()));
        }
        Err(error) => told(error),
    }
    match server(code, body).served("a.example.com/v1", "A").await {
        Ok(served) => assert!(served.kind == "A" && !steers(&served.resource), "{served:?}"),
        Err(error) => told(error),
    }
    if let Ok(found) = server(code, body).discover().await {
        assert!(found.api_versions.is_sorted());
    }
}
