//! The same seed gives the same run: every write of a busy cluster, byte for byte.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt as _;
use jiff::Timestamp;
use kube::api::WatchParams;
use kube::core::{DynamicObject, Request, WatchEvent};
use serde::Deserialize;
use serde_json::{Value, json};

use super::discovery;
use super::requests::Requests;
use crate::Clock;
use crate::MiniCluster;

/// Every version of every object, by its number.
type Log = Arc<Mutex<Vec<(u64, String)>>>;

#[test]
fn the_same_seed_gives_the_same_writes() {
    let (one, other) = (run(7), run(7));
    assert!(one.len() > 500, "a busy scenario, not one of {} writes", one.len());
    if let Some((mine, theirs)) = one.iter().zip(&other).find(|(mine, theirs)| mine != theirs) {
        panic!("the runs part here:\n{mine}\n{theirs}");
    }
    assert_eq!(one.len(), other.len());
    assert_ne!(run(8), one, "another seed gives another run");
}

/// Returns one run in virtual time: all its writes, in order.
fn run(seed: u64) -> Vec<String> {
    // A runtime of its own, so that its clock begins at zero.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Clock::tokio(Timestamp::UNIX_EPOCH);
        let cluster = MiniCluster::builder().seed(seed).clock(clock).nodes(4).start().await.unwrap();
        let log = Log::default();
        for kind in discovery::kinds(&Requests::new(cluster.client())).await.unwrap() {
            tokio::spawn(follow(cluster.client(), kind.path(), log.clone()));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        busy(&cluster).await;
        cluster.stop().await;
        let mut writes = std::mem::take(&mut *log.lock().unwrap());
        writes.sort();
        writes.into_iter().map(|(_, write)| write).collect()
    })
}

async fn follow(client: kube::Client, path: String, log: Log) {
    let mut version = "0".to_owned();
    loop {
        let request = Request::new(&path).watch(&WatchParams::default(), &version).unwrap();
        let Ok(events) = client.request_events::<DynamicObject>(request).await else { return };
        let mut events = std::pin::pin!(events);
        while let Ok(Some(event)) = events.try_next().await {
            let (what, object) = match event {
                WatchEvent::Added(object) => ("added", object),
                WatchEvent::Modified(object) => ("modified", object),
                WatchEvent::Deleted(object) => ("deleted", object),
                WatchEvent::Bookmark(mark) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(_) => return,
            };
            version = object.metadata.resource_version.clone().unwrap_or_default();
            let line = format!("{what} {path} {}", serde_json::to_string(&object).unwrap());
            log.lock().unwrap().push((version.parse().unwrap(), line));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Workloads of every kind, made, changed, broken, driven off their nodes and deleted side by side.
async fn busy(cluster: &MiniCluster) {
    let client = &cluster.client();
    for Made { at, object } in workloads() {
        send(client, "POST", &at, &object).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    for (plural, name, image) in [
        ("deployments", "web", "web:2"),
        ("deployments", "api", "web:404"),
        ("statefulsets", "db", "web:2"),
        ("daemonsets", "agent", "web:2"),
    ] {
        let container = json!({ "name": "app", "image": image });
        let patch = json!({ "spec": { "template": { "spec": { "containers": [container] } } } });
        send(client, "PATCH", &format!("{APPS}/{plural}/{name}"), &patch).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    faults(cluster).await;
    send(client, "PATCH", &format!("{APPS}/deployments/web"), &json!({ "spec": { "replicas": 4 } })).await;
    send(client, "PATCH", &format!("{APPS}/statefulsets/db"), &json!({ "spec": { "replicas": 1 } })).await;
    send(client, "DELETE", &format!("{APPS}/deployments/api"), &Value::Null).await;
    send(client, "DELETE", &format!("{APPS}/replicasets/set"), &json!({ "propagationPolicy": "Foreground" })).await;
    send(client, "DELETE", &format!("{CORE}/replicationcontrollers/old"), &json!({ "propagationPolicy": "Orphan" }))
        .await;
    send(client, "DELETE", "/api/v1/namespaces/other", &Value::Null).await;
    tokio::time::sleep(Duration::from_secs(90)).await;
}

/// Plays the faults: a node drives its pods off, another takes none, all pods of a workload are deleted at once, and
/// the server forgets earlier events.
async fn faults(cluster: &MiniCluster) {
    let client = &cluster.client();
    let node = |number: usize| format!("/api/v1/nodes/node-{number}");
    let taint = json!({ "spec": { "taints": [{ "key": "broken", "effect": "NoExecute" }] } });
    send(client, "PATCH", &node(1), &taint).await;
    send(client, "PATCH", &node(2), &json!({ "spec": { "unschedulable": true } })).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    send(client, "DELETE", &format!("{CORE}/pods?labelSelector=app%3Dweb"), &Value::Null).await;
    cluster.api().compact();
    tokio::time::sleep(Duration::from_secs(20)).await;
    send(client, "PATCH", &node(1), &json!({ "spec": { "taints": null } })).await;
    send(client, "PATCH", &node(2), &json!({ "spec": { "unschedulable": null } })).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
}

const APPS: &str = "/apis/apps/v1/namespaces/default";
const CORE: &str = "/api/v1/namespaces/default";

/// Something that is made, and where.
#[derive(Deserialize)]
struct Made {
    at: String,
    object: Value,
}

fn workloads() -> Vec<Made> {
    serde_yaml::from_str(include_str!("determinism.yaml")).unwrap()
}

async fn send(client: &kube::Client, method: &str, path: &str, body: &Value) {
    let kind = if method == "PATCH" { "application/strategic-merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
    let request = http::Request::builder().method(method).uri(path).header("Content-Type", kind);
    let _: Value = client.request(request.body(body).unwrap()).await.unwrap();
}
