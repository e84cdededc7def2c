//! The counts behind the promises of speed: how many requests the parts of a cluster make for so many workloads, and
//! how many reconciliations they do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use http::Request;
use http_body::Body as _;
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt as _;

use super::{MiniCluster, NodeSpec, Part, PodLogs, Random, controllers, kubelet};
use crate::Clock;
use crate::work_count::{Counted, counted};

/// The number of requests of each kind: `POST pods/binding`.
type Counts = BTreeMap<String, usize>;

/// Deployments of some replicas each, from nothing to available, in virtual time; the requests of the controllers and of
/// the kubelet.
fn requests(deployments: usize, replicas: usize) -> Counts {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Clock::tokio(Timestamp::UNIX_EPOCH);
        let cluster = MiniCluster::builder().clock(clock.clone());
        let cluster = cluster.without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
        let counts = Arc::new(Mutex::new(Counts::new()));
        let random = Random::new(1);
        let options = controllers::Options::new(clock.clone(), random.fork());
        let running = controllers::start(counting(&cluster, &counts), &options);
        let mut options = kubelet::Options::new(clock, random.fork(), PodLogs::default());
        options.nodes = NodeSpec::several(deployments * replicas / 100 + 3);
        options.heartbeat = Duration::from_secs(86_400);
        let nodes = kubelet::start(counting(&cluster, &counts), options);
        tokio::time::sleep(Duration::from_secs(10)).await;
        counts.lock().unwrap().clear();
        for number in 0..deployments {
            let labels = json!({ "app": format!("web-{number}") });
            let deployment = json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": format!("web-{number}") },
                "spec": {
                    "replicas": replicas, "selector": { "matchLabels": labels },
                    "template": {
                        "metadata": { "labels": labels },
                        "spec": { "containers": [{ "name": "app", "image": "nginx:1.27" }] },
                    },
                },
            });
            let body = serde_json::to_vec(&deployment).unwrap();
            let request = http::Request::post("/apis/apps/v1/namespaces/default/deployments").body(body).unwrap();
            let _: Value = cluster.client().request(request).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        running.stop().await;
        nodes.stop().await;
        cluster.stop().await;
        let counts = counts.lock().unwrap();
        counts.clone()
    })
}

/// Returns a client whose requests are counted.
fn counting(cluster: &MiniCluster, counts: &Arc<Mutex<Counts>>) -> kube::Client {
    let counts = counts.clone();
    let service = cluster.api().clone().map_request(move |request: Request<Body>| {
        let path = request.uri().path();
        let mut parts = path.split('/').skip(if path.starts_with("/api/") { 3 } else { 4 });
        let resource = match parts.next() {
            Some("namespaces") => parts.nth(1).unwrap_or("namespaces"),
            other => other.unwrap_or_default(),
        };
        let below = parts.nth(1).map(|below| format!("/{below}")).unwrap_or_default();
        let what = format!("{} {resource}{below}", request.method());
        *counts.lock().unwrap().entry(what).or_default() += 1;
        request
    });
    kube::Client::new(service, "default")
}

/// The work of one run.
#[derive(Debug)]
struct Work {
    requests: Counts,
    /// The number of reconciliations of a controller.
    looks: usize,
}

impl Work {
    fn requests(&self) -> usize {
        self.requests.values().sum()
    }
}

fn work(deployments: usize, replicas: usize) -> Work {
    let looks = Looks::default();
    // As long as there is but one subscriber, tracing asks whichever thread comes first whether an event interests anybody
    // at all; that may be another test's.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let subscriber = tracing_subscriber::registry().with(looks.clone());
    let requests = tracing::subscriber::with_default(subscriber, || requests(deployments, replicas));
    Work { requests, looks: looks.0.load(Ordering::Relaxed) }
}

/// Counts the results of the controllers' workers.
#[derive(Clone, Debug, Default)]
struct Looks(Arc<AtomicUsize>);

impl<S: tracing::Subscriber> Layer<S> for Looks {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if event.metadata().target().ends_with("controllers::worker") {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn twice_the_deployments_are_twice_the_work() {
    let (some, twice) = (work(15, 1), work(30, 1));
    for (what, count) in &twice.requests {
        assert!(*count <= 2 * some.requests.get(what).copied().unwrap_or(0), "{what}: {some:?} {twice:?}");
    }
    assert!(some.requests() <= 20 * 15, "at most 20 requests for each: {some:?}");
    assert!(twice.looks <= 2 * some.looks + 2 && some.looks <= 60 * 15, "{} {}", some.looks, twice.looks);
}

#[test]
fn twice_the_pods_of_one_deployment_are_at_most_twice_the_work() {
    let (some, twice) = (work(1, 40), work(1, 80));
    assert!(twice.requests() <= 2 * some.requests() && twice.looks <= 2 * some.looks, "{some:?} {twice:?}");
    // One of them reads the root certificate, which every pod mounts beside its token.
    assert!(some.requests() <= 11 * 40, "at most 11 requests for each pod: {some:?}");
}

/// Counts how often it is woken.
#[derive(Debug, Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_namespace_sleeps_through_writes_in_others() {
    let cluster = MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
    let post = async |path: &str, name: &str| {
        let body = serde_json::to_vec(&json!({ "metadata": { "name": name } })).unwrap();
        let request = http::Request::post(path).header("Content-Type", "application/json").body(body).unwrap();
        let _: Value = cluster.client().request(request).await.unwrap();
    };
    post("/api/v1/namespaces", "here").await;
    post("/api/v1/namespaces", "there").await;
    let (here, there) = ("/api/v1/namespaces/here/configmaps", "/api/v1/namespaces/there/configmaps");
    let watch = http::Request::get(format!("{here}?watch=true&resourceVersion={}", cluster.api().store_revision()));
    let watch = cluster.api().clone().oneshot(watch.body(Body::empty()).unwrap()).await.unwrap();
    let mut events = std::pin::pin!(watch.into_body());
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    assert!(events.as_mut().poll_frame(&mut context).is_pending());
    for number in 0..100 {
        post(there, &format!("map-{number}")).await;
    }
    assert_eq!(woken.0.load(Ordering::Relaxed), 0, "what happens elsewhere wakes nobody");
    post(here, "map").await;
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    let Poll::Ready(Some(Ok(frame))) = events.as_mut().poll_frame(&mut context) else { panic!("no event came") };
    assert!(String::from_utf8_lossy(frame.data_ref().unwrap()).contains("\"ADDED\""));
    cluster.stop().await;
}

async fn post(cluster: &MiniCluster, path: &str, object: &Value) {
    let request = http::Request::post(path).header("Content-Type", "application/json");
    let request = request.body(object.to_string().into_bytes()).unwrap();
    let _: Value = cluster.client().request(request).await.unwrap();
}

async fn get(cluster: &MiniCluster, path: &str) -> Value {
    cluster.client().request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_free_port_is_found_without_reading_the_services() {
    let cluster = MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
    let mut reads = Vec::new();
    for number in 0..60 {
        let service = json!({
            "metadata": { "name": format!("s-{number}") }, "spec": { "type": "NodePort", "ports": [{ "port": 80 }] },
        });
        counted(Counted::Read);
        post(&cluster, "/api/v1/namespaces/default/services", &service).await;
        reads.push(counted(Counted::Read));
    }
    assert_eq!(reads[5], reads[55], "{reads:?}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_page_looks_at_no_more_than_it_shows() {
    let cluster = MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
    let collection = "/api/v1/namespaces/default/configmaps";
    for number in 0..95 {
        post(&cluster, collection, &json!({ "metadata": { "name": format!("c-{number:02}") } })).await;
    }
    let (mut next, mut names, mut left) = (String::new(), Vec::new(), Vec::new());
    loop {
        counted(Counted::Selected);
        let page = get(&cluster, &format!("{collection}?limit=10&continue={next}")).await;
        assert!(counted(Counted::Selected) <= 11);
        names.extend(page["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()));
        left.extend(page["metadata"]["remainingItemCount"].as_u64());
        // Later changes are not in the list, which is of one moment.
        post(&cluster, collection, &json!({ "metadata": { "name": format!("c-{:02}-new", names.len()) } })).await;
        match page["metadata"]["continue"].as_str() {
            Some(token) => next = token.to_owned(),
            None => break,
        }
    }
    assert_eq!(names, (0..95).map(|number| json!(format!("c-{number:02}"))).collect::<Vec<_>>());
    assert_eq!(left, [85, 75, 65, 55, 45, 35, 25, 15, 5]);
    cluster.stop().await;
}

/// Returns how often labels are held against selectors when one pod of a service becomes ready, beside so many others,
/// each with a service and a budget of its own.
async fn matches_of_one_pod(others: usize) -> usize {
    let cluster = MiniCluster::builder().clock(Clock::tokio(Timestamp::UNIX_EPOCH));
    let cluster = cluster.without(Part::Kubelet).start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    for number in 0..=others {
        let labels = json!({ "app": format!("web-{number}"), "tier": "front" });
        let metadata = json!({ "name": format!("web-{number}"), "labels": labels });
        let service = json!({ "metadata": metadata, "spec": { "selector": labels, "ports": [{ "port": 80 }] } });
        post(&cluster, "/api/v1/namespaces/default/services", &service).await;
        let selector = json!({ "matchLabels": labels });
        let budget = json!({ "metadata": metadata, "spec": { "selector": selector, "minAvailable": 1 } });
        post(&cluster, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget).await;
        let spec = json!({ "nodeName": "node-1", "containers": [{ "name": "c", "image": "i" }] });
        post(&cluster, "/api/v1/namespaces/default/pods", &json!({ "metadata": metadata, "spec": spec })).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    counted(Counted::Matched);
    let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let status = json!({ "status": { "phase": "Running", "podIPs": [{ "ip": "10.1.0.1" }], "conditions": [ready] } });
    let request = http::Request::patch("/api/v1/namespaces/default/pods/web-0/status");
    let request = request.header("Content-Type", "application/merge-patch+json");
    let _: Value = cluster.client().request(request.body(status.to_string().into_bytes()).unwrap()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let matched = counted(Counted::Matched);
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slices = get(&cluster, &format!("{slices}?labelSelector=kubernetes.io/service-name%3Dweb-0")).await;
    assert_eq!(slices["items"][0]["endpoints"][0]["addresses"], json!(["10.1.0.1"]));
    let budget = get(&cluster, "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web-0").await;
    assert_eq!(budget["status"]["currentHealthy"], 1);
    cluster.stop().await;
    matched
}

#[tokio::test(start_paused = true)]
async fn what_happens_to_a_pod_is_no_matter_to_other_services_and_budgets() {
    let few = matches_of_one_pod(5).await;
    assert_eq!(matches_of_one_pod(50).await, few);
}
