//! A cluster in which nothing happens writes nothing: every kind of object, in usual and odd forms, left alone.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube_facts::{Kind, facts};
use serde::Deserialize;
use serde_json::Value;

use super::MiniCluster;
use crate::Clock;

/// The smallest object of each kind, as the comparison with the real API server makes it.
const LEAST: &str = include_str!("../../../tests/cases/objects/least.yaml");
/// Forms that are unusual, and that somebody writes.
const ODD: &str = include_str!("../tests/cases/at-rest.yaml");

/// All work, and its consequences, is done by then: pods that are evicted from a node that nobody runs, too.
const SETTLES: Duration = Duration::from_secs(3600);
const RESTS: Duration = Duration::from_secs(3600);
const NODES: u64 = 3;
/// A node renews its Lease every ten seconds, and reports its status at least every five minutes.
const SIGNS_OF_LIFE: u64 = NODES * (3600 / 10 + 3600 / 300 + 2);

#[derive(Deserialize)]
struct Case {
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    body: Value,
}

#[tokio::test(start_paused = true)]
async fn a_cluster_at_rest_writes_nothing() {
    let clock = Clock::tokio("2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap());
    let nodes = usize::try_from(NODES).unwrap();
    let cluster = MiniCluster::builder().clock(clock).nodes(nodes).start().await.unwrap();
    let client = cluster.client();
    post(&client, &serde_json::json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "odd" } })).await;
    for object in objects() {
        let object: Value = serde_json::from_str(&object.to_string().replace("{ns}", "default")).unwrap();
        post(&client, &object).await;
    }
    tokio::time::sleep(SETTLES).await;
    let (before, revision) = (everything(&client).await, cluster.api().store_revision());
    tokio::time::sleep(RESTS).await;
    let (after, writes) = (everything(&client).await, cluster.api().store_revision() - revision);
    let changed: Vec<&String> = after
        .iter()
        .filter(|(path, version)| before.get(*path) != Some(*version))
        .map(|(path, _)| path)
        .chain(before.keys().filter(|path| !after.contains_key(*path)))
        .filter(|path| {
            !path.starts_with("coordination.k8s.io/leases/kube-node-lease/") && !path.starts_with("/nodes//node-")
        })
        .collect();
    assert!(changed.is_empty(), "what nobody touched has changed: {changed:#?}");
    assert!(writes <= SIGNS_OF_LIFE, "{writes} writes in an hour, of which nodes make {SIGNS_OF_LIFE}");
    cluster.stop().await;
}

fn objects() -> Vec<Value> {
    let cases: Vec<Case> = serde_yaml::from_str(LEAST).unwrap();
    let least = cases.into_iter().flat_map(|case| case.steps).map(|step| step.body);
    // It runs every minute.
    let least = least.filter(|object| object["kind"] != "CronJob");
    let odd = ODD.split("\n---\n").map(|text| serde_yaml::from_str(text).unwrap());
    least.chain(odd).collect()
}

async fn post(client: &kube::Client, object: &Value) {
    let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let known = facts().kinds.iter().find(|known| known.api_version() == version && known.kind == kind);
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let path = match known {
        Some(known) => collection(known, known.namespaced.then_some(namespace)),
        None => format!("/apis/{version}/namespaces/{namespace}/{}s", kind.to_lowercase()),
    };
    let request = http::Request::post(&path).header("Content-Type", "application/json");
    let request = request.body(object.to_string().into_bytes()).unwrap();
    let made: Result<Value, kube::Error> = client.request(request).await;
    if let Err(error) = made {
        panic!("POST {path}: {error}\n{object}");
    }
}

fn collection(kind: &Kind, namespace: Option<&str>) -> String {
    let root = if kind.group.is_empty() { "api" } else { "apis" };
    let place = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    format!("/{root}/{}{place}/{}", kind.api_version(), kind.resource)
}

/// Returns the revision of every object, by `group/resource/namespace/name`.
async fn everything(client: &kube::Client) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for kind in facts().kinds.iter().filter(|kind| kind.verbs.iter().any(|verb| verb == "list")) {
        let request = http::Request::get(collection(kind, None)).body(Vec::new()).unwrap();
        let Ok(list) = client.request::<Value>(request).await else { continue };
        for object in list["items"].as_array().into_iter().flatten() {
            let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
            let path = format!("{}/{}/{}/{}", kind.group, kind.resource, text("namespace"), text("name"));
            all.insert(path, text("resourceVersion").to_owned());
        }
    }
    assert!(all.len() > 60, "{all:?}");
    all
}
