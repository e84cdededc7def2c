//! The kubelet below the embedded API server, in virtual time, with no controllers in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

use super::{NodeSpec, Options, Running, Script, start};
use crate::Clock;
use crate::{ApiServer, MiniCluster, Part, PodLogs, Random};

struct Fixture {
    cluster: MiniCluster,
    kubelet: Running,
    clock: Clock,
    logs: PodLogs,
}

impl Fixture {
    async fn start(change: impl FnOnce(&mut Options)) -> Fixture {
        let (cluster, clock) = cluster().await;
        let logs = PodLogs::default();
        let mut options = Options::new(clock.clone(), Random::new(7), logs.clone());
        options.heartbeat = Duration::from_secs(3600);
        change(&mut options);
        let kubelet = start(cluster.client_as("kubelet"), options);
        Fixture { cluster, kubelet, clock, logs }
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.cluster.client())
    }

    async fn create(&self, pod: Value) -> Pod {
        create(&self.cluster.client(), pod).await
    }

    /// Waits until `met` holds of all pods.
    async fn until(&self, met: impl Fn(&[Pod]) -> bool) -> Vec<Pod> {
        let start = Instant::now();
        loop {
            let pods = self.pods().list(&ListParams::default()).await.unwrap().items;
            if met(&pods) {
                return pods;
            }
            if start.elapsed() > Duration::from_secs(3600) {
                let states = pods.iter().map(|pod| (pod.name_any(), phase(pod).to_owned(), is_ready(pod)));
                panic!("not within an hour: {:?}", states.collect::<Vec<_>>());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn stop(self) {
        self.kubelet.stop().await;
        self.cluster.stop().await;
    }
}

async fn cluster() -> (MiniCluster, Clock) {
    let clock = Clock::tokio(Timestamp::UNIX_EPOCH);
    let builder = MiniCluster::builder()
        .clock(clock.clone())
        .without(Part::Controllers)
        .without(Part::Kubelet)
        .without(Part::ServiceAccounts);
    (builder.start().await.unwrap(), clock)
}

async fn create(client: &Client, pod: Value) -> Pod {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap()
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "app", "image": "nginx:1.27"}]}})
}

fn fated(name: &str, fate: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["annotations"] = json!({"kubelet.example.com/fate": fate});
    pod
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn many_pods_are_ready_after_a_second_for_three_writes_each() {
    const COUNT: usize = 600;
    let fixture = Fixture::start(|options| options.nodes = NodeSpec::several(6)).await;
    for number in 0..COUNT {
        fixture.create(pod(&format!("pod-{number}"))).await;
    }
    let start = Instant::now();
    let mut watch = fixture.pods().watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let mut writes: BTreeMap<String, usize> = BTreeMap::new();
    let mut ready = 0;
    while ready < COUNT {
        if let WatchEvent::Modified(pod) | WatchEvent::Added(pod) = watch.next().await.unwrap().unwrap() {
            *writes.entry(pod.name_any()).or_default() += 1;
            ready += usize::from(is_ready(&pod));
        }
    }
    assert!(start.elapsed() < Duration::from_millis(1100), "{:?}", start.elapsed());
    // Seen when it is there, or was bound since; created; ready.
    assert!(writes.values().all(|count| *count <= 4), "{writes:?}");
    let mut per_node: BTreeMap<String, usize> = BTreeMap::new();
    for pod in fixture.pods().list(&ListParams::default()).await.unwrap() {
        *per_node.entry(pod.spec.unwrap().node_name.unwrap()).or_default() += 1;
    }
    assert!(per_node.values().all(|count| *count == COUNT / 6), "{per_node:?}");
    fixture.stop().await;
}

fn object<K>(event: kube::Result<WatchEvent<K>>) -> Option<K> {
    match event.unwrap() {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => Some(object),
        WatchEvent::Bookmark(_) => None,
        WatchEvent::Error(status) => panic!("{status:?}"),
    }
}

/// Returns everything that is written of pods and events, in order.
async fn record(seed: u64) -> Vec<String> {
    let (cluster, clock) = cluster().await;
    let mut options = Options::new(clock, Random::new(seed), PodLogs::default());
    options.heartbeat = Duration::from_secs(3600);
    let kubelet = start(cluster.client_as("kubelet"), options);
    let client = cluster.client();
    for number in 0..6 {
        create(&client, pod(&format!("plain-{number}"))).await;
        create(&client, fated(&format!("crash-{number}"), "crash-after=700ms")).await;
        create(&client, fated(&format!("pull-{number}"), "image-pull-error,for=15s")).await;
    }
    let pods: Api<Pod> = Api::all(client.clone());
    let events: Api<Event> = Api::all(client);
    let own: Api<Pod> = Api::default_namespaced(cluster.client());
    let changed = async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        for number in 0..6 {
            own.delete(&format!("plain-{number}"), &DeleteParams::default()).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(100)).await;
    };
    let mut seen = Vec::new();
    let mut watch_pods = pods.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let mut watch_events = events.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    tokio::pin!(changed);
    loop {
        tokio::select! {
            biased;
            Some(event) = watch_pods.next() => seen.push(serde_json::to_string(&object(event)).unwrap()),
            Some(event) = watch_events.next() => seen.push(serde_json::to_string(&object(event)).unwrap()),
            () = &mut changed => break,
        }
    }
    kubelet.stop().await;
    cluster.stop().await;
    seen
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_writes_in_the_same_order() {
    let (one, two) = (record(3).await, record(3).await);
    let difference = one.iter().zip(&two).find(|(one, two)| one != two);
    assert_eq!((difference, one.len()), (None, two.len()));
    assert!(one.len() > 300, "{}", one.len());
    assert!(one != record(4).await, "another seed gives other container ids");
}

#[tokio::test(start_paused = true)]
async fn an_idle_kubelet_writes_leases_and_nothing_else() {
    let requests = Arc::new(AtomicUsize::new(0));
    let (cluster, clock) = cluster().await;
    let (counted, api) = (requests.clone(), cluster.api().clone());
    let service = api.map_request(move |request: Request<Body>| {
        if request.method() != Method::GET {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        request
    });
    let mut options = Options::new(clock, Random::new(7), PodLogs::default());
    options.heartbeat = Duration::from_secs(60);
    let kubelet = start(Client::new(service, "default"), options);
    create(&cluster.client(), pod("web")).await;
    create(&cluster.client(), fated("never", "never-ready")).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before = requests.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(requests.load(Ordering::Relaxed) - before, 3 * 60);
    kubelet.stop().await;
    cluster.stop().await;
}

type Answer = Response<UnsyncBoxBody<Bytes, tower::BoxError>>;

/// Fails a third of all requests, half of them before they arrive and half after they were carried out.
async fn flaky(request: Request<Body>, luck: u64, api: ApiServer) -> Result<Answer, tower::BoxError> {
    let refuse = || {
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": "no luck"});
        let body = Full::from(status.to_string()).map_err(|never| match never {}).boxed_unsync();
        Response::builder().status(500).body(body).unwrap()
    };
    if luck == 0 {
        return Ok(refuse());
    }
    let response = api.oneshot(request).await.map_err(|_| "unreachable")?;
    if luck == 1 && response.status().is_success() {
        return Ok(refuse());
    }
    Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
}

#[tokio::test(start_paused = true)]
async fn failures_of_the_api_are_overcome() {
    let (cluster, clock) = cluster().await;
    let api = cluster.api().clone();
    let luck = Random::new(11);
    let service = tower::service_fn(move |request: Request<Body>| flaky(request, luck.below(6), api.clone()));
    let mut options = Options::new(clock.clone(), Random::new(7), PodLogs::default());
    options.heartbeat = Duration::from_secs(3600);
    let kubelet = start(Client::new(service, "default"), options);
    let fixture = Fixture { cluster, kubelet, clock, logs: PodLogs::default() };
    for number in 0..30 {
        fixture.create(pod(&format!("web-{number}"))).await;
    }
    fixture.until(|pods| pods.iter().all(is_ready)).await;
    fixture.pods().delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    fixture.until(<[Pod]>::is_empty).await;
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_are_registered_and_what_users_do_to_them_is_respected() {
    let fixture = Fixture::start(|options| options.nodes = NodeSpec::several(2)).await;
    let nodes: Api<Node> = Api::all(fixture.cluster.client());
    fixture.create(pod("first")).await;
    fixture.until(|pods| pods.iter().all(is_ready)).await;
    let node = nodes.get("node-2").await.unwrap();
    assert_eq!(node.labels()["kubernetes.io/hostname"], "node-2");
    let status = node.status.unwrap();
    assert_eq!(status.allocatable.unwrap()["pods"].0, "110");
    assert!(
        status.conditions.unwrap().iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    );
    assert!(node.spec.unwrap().taints.is_none());
    let patch = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    nodes.patch("node-2", &PatchParams::default(), &patch).await.unwrap();
    for number in 0..3 {
        fixture.create(pod(&format!("second-{number}"))).await;
    }
    fixture.until(|pods| pods.iter().all(is_ready)).await;
    nodes.delete("node-1", &DeleteParams::default()).await.unwrap();
    fixture.create(pod("third")).await;
    let waits = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|c| {
            c.reason.as_deref() == Some("Unschedulable")
                && c.message
                    .as_deref()
                    .is_some_and(|m| m.starts_with("0/1 nodes are available: 1 node(s) were unschedulable."))
        })
    };
    let pods = fixture.until(|pods| pods.iter().any(waits)).await;
    let on_first = pods.iter().filter(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some("node-1")).count();
    assert_eq!(on_first, 4, "the first, and all that came after the second node was cordoned");
    // A node that is deleted is not registered again while its kubelet runs, and its pods live on.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(nodes.get_opt("node-1").await.unwrap().is_none());
    fixture.pods().delete("first", &DeleteParams::default()).await.unwrap();
    fixture.until(|pods| pods.iter().all(|pod| pod.name_any() != "first")).await;
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn speed_and_script_are_obeyed() {
    let script = "rules: [{image: 'nginx:*', fates: [{for: 50s, fate: never-ready}, {fate: 'exit-after=10s,code=9'}]}]";
    let fixture = Fixture::start(|options| {
        options.speed = 10.0;
        options.script = Some(Script::parse(script).unwrap());
    })
    .await;
    fixture.create(pod("first")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    fixture.create(pod("second")).await;
    tokio::time::sleep(Duration::from_millis(1150)).await;
    let first = fixture.pods().get("first").await.unwrap();
    assert!(!is_ready(&first) && phase(&first) == "Running");
    let second = fixture.pods().get("second").await.unwrap().status.unwrap().container_statuses.unwrap().remove(0);
    assert_eq!(
        second.state.unwrap().terminated.unwrap().exit_code,
        9,
        "after 0.1 s for its creation and 1 s of running"
    );
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn events_are_counted() {
    let fixture = Fixture::start(|_| {}).await;
    fixture.create(fated("web", "crash-after=1s")).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    let events: Api<Event> = Api::default_namespaced(fixture.cluster.client());
    let events = events.list(&ListParams::default().fields("reason=BackOff")).await.unwrap().items;
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(events[0].count, Some(4));
    assert_eq!(events[0].involved_object.field_path.as_deref(), Some("spec.containers{app}"));
    assert_eq!(events[0].source.as_ref().unwrap().component.as_deref(), Some("kubelet"));
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_by_force_is_forgotten() {
    let fixture = Fixture::start(|_| {}).await;
    let uid = fixture.create(fated("web", "hang")).await.uid().unwrap();
    fixture.until(|pods| pods.iter().all(is_ready)).await;
    let logs = fixture.logs.clone();
    assert!(logs.lines(&uid, "app", false).is_some());
    fixture.pods().delete("web", &DeleteParams::default().grace_period(0)).await.unwrap();
    fixture.create(pod("web")).await;
    let begin = fixture.clock.now();
    fixture.until(|pods| pods.iter().all(is_ready)).await;
    assert!(fixture.clock.now().duration_since(begin) < SignedDuration::from_secs(3));
    assert!(logs.lines(&uid, "app", false).is_none());
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_a_finalizer_holds_has_ended_before_it_is_gone() {
    let fixture = Fixture::start(|_| {}).await;
    let mut held = pod("web");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    fixture.create(held).await;
    fixture.until(|pods| pods.iter().all(is_ready)).await;
    fixture.pods().delete("web", &DeleteParams::default()).await.unwrap();
    fixture.until(|pods| pods.iter().all(|pod| matches!(phase(pod), "Succeeded" | "Failed"))).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let held = fixture.pods().get("web").await.unwrap();
    let ended = held.status.unwrap().container_statuses.unwrap().remove(0).state.unwrap().terminated;
    assert!(ended.is_some() && held.metadata.deletion_timestamp.is_some());
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    fixture.pods().patch("web", &PatchParams::default(), &release).await.unwrap();
    fixture.until(<[Pod]>::is_empty).await;
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_host_port_is_taken_fails() {
    let fixture = Fixture::start(|_| {}).await;
    let on_the_port = |name: &str| {
        let mut pod = pod(name);
        pod["spec"]["nodeName"] = json!("node-1");
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
        pod
    };
    fixture.create(on_the_port("first")).await;
    fixture.until(|pods| pods.iter().all(is_ready)).await;
    fixture.create(on_the_port("second")).await;
    let pods = fixture.until(|pods| pods.iter().any(|pod| phase(pod) == "Failed")).await;
    let second = pods.iter().find(|pod| pod.name_any() == "second").unwrap();
    assert_eq!(second.status.as_ref().unwrap().reason.as_deref(), Some("NodePorts"));
    assert!(pods.iter().any(|pod| pod.name_any() == "first" && is_ready(pod)));
    fixture.stop().await;
}
