//! The same seed gives the same run: every write of a busy cluster, byte for byte.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt as _;
use jiff::Timestamp;
use kube::api::WatchParams;
use kube::core::{DynamicObject, Request, WatchEvent};
use serde_json::{Value, json};

use super::discovery;
use super::requests::Requests;
use crate::clock::Clock;
use crate::minicluster::MiniCluster;

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

/// One run in virtual time: all its writes, in order.
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
        busy(&cluster.client()).await;
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

/// Workloads of every kind, made, changed, broken and deleted side by side.
async fn busy(client: &kube::Client) {
    for (path, object) in workloads() {
        send(client, "POST", path, &object).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    for (plural, name, image) in [
        ("deployments", "web", "web:2"),
        ("deployments", "api", "web:404"),
        ("statefulsets", "db", "web:2"),
        ("daemonsets", "agent", "web:2"),
    ] {
        let path = format!("/apis/apps/v1/namespaces/default/{plural}/{name}");
        let container = json!({ "name": "app", "image": image });
        let patch = json!({ "spec": { "template": { "spec": { "containers": [container] } } } });
        send(client, "PATCH", &path, &patch).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    send(client, "PATCH", "/apis/apps/v1/namespaces/default/deployments/web", &json!({ "spec": { "replicas": 4 } }))
        .await;
    send(client, "DELETE", "/apis/apps/v1/namespaces/default/deployments/api", &Value::Null).await;
    tokio::time::sleep(Duration::from_secs(90)).await;
}

/// What is made, and where.
fn workloads() -> Vec<(&'static str, Value)> {
    let labels = |name: &str| json!({ "app": name });
    let pods = |name: &str, image: &str| json!({ "metadata": { "labels": labels(name) }, "spec": { "containers": [{ "name": "app", "image": image }] } });
    let apps = |kind: &str, name: &str, more: Value| {
        let mut spec = json!({ "selector": { "matchLabels": labels(name) }, "template": pods(name, "web:1") });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name }, "spec": spec })
    };
    let mut job = pods("job", "work:1");
    job["spec"]["restartPolicy"] = json!("Never");
    let mut flaky = pods("old", "web:1");
    flaky["metadata"]["annotations"] = json!({ "kubelet.belay.dev/fate": "crash-after=7s" });
    let job = json!({ "completions": 4, "parallelism": 2, "completionMode": "Indexed", "template": job });
    vec![
        ("/apis/apps/v1/namespaces/default/deployments", apps("Deployment", "web", json!({ "replicas": 10 }))),
        ("/apis/apps/v1/namespaces/default/deployments", apps("Deployment", "api", json!({ "replicas": 5 }))),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            apps("StatefulSet", "db", json!({ "replicas": 3, "serviceName": "db" })),
        ),
        ("/apis/apps/v1/namespaces/default/daemonsets", apps("DaemonSet", "agent", json!({}))),
        ("/apis/apps/v1/namespaces/default/replicasets", apps("ReplicaSet", "set", json!({ "replicas": 2 }))),
        (
            "/api/v1/namespaces/default/replicationcontrollers",
            json!({
                "apiVersion": "v1", "kind": "ReplicationController", "metadata": { "name": "old" },
                "spec": { "replicas": 2, "template": flaky },
            }),
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "job" }, "spec": job }),
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({
                "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "tick" },
                "spec": { "schedule": "* * * * *", "jobTemplate": { "spec": job } },
            }),
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
                "spec": { "maxUnavailable": 1, "selector": { "matchLabels": labels("web") } },
            }),
        ),
        (
            "/api/v1/namespaces/default/services",
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
                "spec": { "selector": labels("web"), "ports": [{ "port": 80 }] },
            }),
        ),
        (
            "/api/v1/namespaces/default/resourcequotas",
            json!({
                "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "some" },
                "spec": { "hard": { "pods": "60" } },
            }),
        ),
    ]
}

async fn send(client: &kube::Client, method: &str, path: &str, body: &Value) {
    let kind = if method == "PATCH" { "application/strategic-merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
    let request = http::Request::builder().method(method).uri(path).header("Content-Type", kind);
    let _: Value = client.request(request.body(body).unwrap()).await.unwrap();
}
