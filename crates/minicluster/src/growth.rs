//! What can be counted of the promises of speed: how many requests the parts of a cluster make for so many workloads.

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

/// How many requests of each kind were made: `POST pods/binding`.
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

/// A client whose requests are counted.
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

/// What one run made and looked at.
#[derive(Debug)]
struct Work {
    requests: Counts,
    /// How often a controller looked at an object.
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

/// Counts what the controllers' workers say of every look.
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
