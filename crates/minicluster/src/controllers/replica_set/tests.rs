use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::{self, Controller, Options, Which};
use crate::{Clock, Fault, MiniCluster, Part, Random};

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn ask(cluster: &MiniCluster, method: &str, path: &str, body: Value) -> Value {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("Content-Type", kind);
    cluster.client().request(request.body(serde_json::to_vec(&body).unwrap()).unwrap()).await.unwrap()
}

/// A ReplicaSet with its pod, as a controller leaves them.
async fn kept_set(cluster: &MiniCluster) {
    let template = json!({
        "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "app", "image": "app:1" }] },
    });
    let spec = json!({ "replicas": 1, "selector": { "matchLabels": { "app": "web" } }, "template": template });
    let set = ask(cluster, "POST", SETS, json!({ "metadata": { "name": "web" }, "spec": spec })).await;
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set["metadata"]["uid"], "controller": true,
    });
    let mut pod = template;
    pod["metadata"]["name"] = json!("web-1");
    pod["metadata"]["ownerReferences"] = json!([owner]);
    ask(cluster, "POST", PODS, pod).await;
    let status = json!({
        "replicas": 1, "fullyLabeledReplicas": 1, "terminatingReplicas": 0,
        "observedGeneration": set["metadata"]["generation"],
    });
    ask(cluster, "PATCH", &format!("{SETS}/web/status"), json!({ "status": status })).await;
}

/// How many pods there are a minute after the pod went, told of by its watch, while that of ReplicaSets tells nothing.
async fn pods_after(deletes_set: bool) -> usize {
    let clock = Clock::tokio(Timestamp::UNIX_EPOCH);
    let builder = MiniCluster::builder().clock(clock.clone()).without(Part::ServiceAccounts);
    let cluster = builder.without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
    kept_set(&cluster).await;
    let asked = AtomicUsize::new(0);
    let client = cluster.client_with_faults(move |_, path| {
        let is_watch = path == "/apis/apps/v1/replicasets" && asked.fetch_add(1, Ordering::Relaxed) > 0;
        is_watch.then_some(Fault::Delay(Duration::from_secs(3600)))
    });
    let mut options = Options::new(clock, Random::new(1));
    options.which = Which::only(&[Controller::ReplicaSet]);
    let running = controllers::start(client, &options);
    tokio::time::sleep(Duration::from_secs(5)).await;
    if deletes_set {
        ask(&cluster, "DELETE", &format!("{SETS}/web"), json!({ "propagationPolicy": "Foreground" })).await;
    }
    ask(&cluster, "DELETE", &format!("{PODS}/web-1"), json!({ "gracePeriodSeconds": 0 })).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let pods = ask(&cluster, "GET", PODS, Value::Null).await;
    running.stop().await;
    pods["items"].as_array().unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_with_its_set_is_not_replaced() {
    assert_eq!(pods_after(true).await, 0);
    assert_eq!(pods_after(false).await, 1, "one that goes alone is");
}
