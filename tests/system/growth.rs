//! Whatever is asked of the embedded API server, it does not grow: the same requests again and again, sound ones and
//! broken ones, and the memory of the process before and after. A program of its own, and one test after the other, for
//! nothing else may take memory.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "growth/rollouts.rs"]
mod rollouts;
#[path = "../support/mod.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use belay::clock::Clock;
use belay::cluster::{Cluster, Seen, Served};
use belay_core::manifest::{ObjectKey, Scopes, read_file};
use futures::future::join_all;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use minicluster::{MiniCluster, Part};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use support::daemon::{World, config_map};

const PODS: &str = "/api/v1/namespaces/default/pods";
/// More writes than the server keeps events of.
const WARM_UP: usize = 1_500;
const ROUNDS: usize = 6_000;
/// The memory that the allocator may keep for itself, in bytes. Chosen, not measured: several times what was seen, and
/// a hundredth of what a leak of one body per round would take.
const SLACK: u64 = 24 << 20;

/// Counts what is allocated, and the most of it at once.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[allow(unsafe_code, reason = "an allocator can't be written without it")]
// SAFETY: the system's allocator does all of it; beside it numbers are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Held by the test that measures: tests of one program run side by side.
static MEASURING: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn the_server_does_not_grow_with_the_requests_that_it_answers() {
    let Some(_) = resident() else { return };
    let _alone = MEASURING.lock().await;
    let (_cluster, client) = warmed_up().await;
    let before = resident().unwrap();
    for round in 0..ROUNDS {
        ask_everything(&client, round).await;
    }
    let after = resident().unwrap();
    assert!(after < before + SLACK, "{before} bytes before, {after} after {ROUNDS} rounds");
}

#[tokio::test]
async fn a_thousand_watches_that_nobody_reads_are_given_up() {
    let Some(_) = resident() else { return };
    let _alone = MEASURING.lock().await;
    let (_cluster, client) = warmed_up().await;
    let before = resident().unwrap();
    let watch = || client.send(Request::get(format!("{PODS}?watch=1")).body(Vec::new().into()).unwrap());
    let watches = join_all((0..1_000).map(|_| watch())).await;
    for round in 0..WARM_UP {
        ask_everything(&client, round).await;
    }
    let open = resident().unwrap();
    // An event is held once for all who have not read it yet.
    assert!(open < before + 4 * SLACK, "{before} bytes before, {open} with watches that nobody reads");
    drop(watches);
}

/// Returns a text of so many documents, each with so many small values.
fn text_of(documents: usize, values: usize) -> String {
    let map = |number: usize| {
        let data: String = (0..values).map(|value| format!("  key-{value}: value-{value}\n")).collect();
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: map-{number}\ndata:\n{data}")
    };
    (0..documents).map(map).collect::<Vec<_>>().join("---\n")
}

/// The memory of a file while it is read grows with its largest document, not with all of them.
#[tokio::test]
async fn a_file_is_read_document_by_document() {
    let _alone = MEASURING.lock().await;
    let scopes = Scopes::new("default");
    let mut peaks = Vec::new();
    for documents in [10, 80] {
        let text = text_of(documents, 400);
        // Values that are made once are made by now.
        drop(read_file("a.yaml", text_of(1, 1).as_bytes(), &scopes));
        let before = ALLOCATED.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let file = read_file("a.yaml", text.as_bytes(), &scopes);
        assert_eq!((file.manifests.len(), file.complaints.len()), (documents, 0));
        let kept = ALLOCATED.load(Ordering::Relaxed) - before;
        let besides = (PEAK.load(Ordering::Relaxed) - before).saturating_sub(kept);
        assert!(kept < 4 * text.len(), "{kept} bytes are kept of {} of text", text.len());
        peaks.push(besides);
    }
    assert!(
        peaks[1] < 2 * peaks[0] + (64 << 10),
        "bytes besides what is kept, of few and of many documents: {peaks:?}"
    );
}

/// The memory of a daemon does not grow with the commits that it has rolled out, nor do its threads.
#[tokio::test(start_paused = true)]
async fn the_daemon_does_not_grow_with_the_commits_that_it_rolls_out() {
    /// The number of commits of each push.
    const EACH: usize = 25;
    const PUSHES: usize = 200;
    /// The bytes that may stay of a commit: its place in the graph of commits.
    const OF_A_COMMIT: usize = 400;
    /// The bytes that the process may take more from the system: 2 MiB were seen, and 25 MiB where a packing gave nothing back.
    const MORE: u64 = 8 << 20;
    let Some(_) = resident() else { return };
    let _alone = MEASURING.lock().await;
    let mut world = World::embedded().await;
    let mut count = 0;
    let mut push = async |world: &mut World, pushes: usize| {
        for _ in 0..pushes {
            let mut head = String::new();
            for _ in 0..EACH {
                count += 1;
                let text: String =
                    (0..3).map(|map| config_map(&format!("map-{map}"), &count.to_string()) + "---\n").collect();
                head = world.repository.commit_file("all.yaml", &text, "Another one");
            }
            world.repository.push();
            world.repository.forget_commits();
            world.look_request().pushed();
            world.through(&head).await;
        }
    };
    world.push("all.yaml", &config_map("map-0", "0"), "First");
    world.start();
    push(&mut world, PUSHES / 5).await;
    let (allocated, before, threads) = (ALLOCATED.load(Ordering::Relaxed), resident().unwrap(), threads());
    push(&mut world, PUSHES).await;
    let grown = ALLOCATED.load(Ordering::Relaxed).saturating_sub(allocated);
    assert!(grown < EACH * PUSHES * OF_A_COMMIT, "{grown} bytes more are kept after {} commits", EACH * PUSHES);
    let after = resident().unwrap();
    assert!(after < before + MORE, "{before} bytes before, {after} after {} commits", EACH * PUSHES);
    let now = self::threads();
    assert!(now <= threads + 4, "{threads} threads before, {now} after");
    world.stop().await;
}

/// Returns how many threads this process has.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// A kind with so many objects of this text each, `NAME` in it standing for the name. The API server says them page by page, or
/// one by itself.
fn answers(objects: usize, text: String) -> Cluster {
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let asked = |name: &str| {
            let value = query.split('&').find_map(|part| part.strip_prefix(name)).unwrap_or_default();
            value.parse::<usize>().unwrap_or_default()
        };
        let of = |number: usize| text.replacen("NAME", &format!("d{number}"), 1);
        let body = if query.contains("limit=") {
            let from = asked("continue=");
            let to = objects.min(from + asked("limit="));
            let token = if to < objects { to.to_string() } else { String::new() };
            let metadata = format!("\"metadata\":{{\"continue\":\"{token}\",\"resourceVersion\":\"1\"}}");
            let mut body = String::with_capacity((to - from) * (text.len() + 20) + 200);
            body.push_str(&format!("{{{metadata},\"items\":["));
            for number in from..to {
                body.push_str(if number > from { "," } else { "" });
                body.push_str(&of(number));
            }
            body.push_str("]}");
            body
        } else {
            of(0)
        };
        async move { Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes()))) }
    });
    Cluster::new(Client::new(service, "shop"), Clock::tokio(jiff::Timestamp::UNIX_EPOCH))
}

fn deployments() -> Served {
    let word = str::to_owned;
    let (kind, resource) = (word("Deployment"), word("deployments"));
    Served { group: word("apps"), version: word("v1"), kind, resource, namespaced: true }
}

/// The bytes that were allocated at most, beside those from before.
async fn peak_of(work: impl Future<Output = ()>) -> usize {
    let before = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work.await;
    PEAK.load(Ordering::Relaxed) - before
}

/// A small text may be a large value. It is refused before it is built, and the other objects are read.
#[tokio::test]
async fn an_answer_that_would_take_much_memory_is_not_built() {
    /// An answer of 15 MB would take more than a gigabyte.
    const MOST: usize = 160 << 20;
    let _alone = MEASURING.lock().await;
    let maps = vec!["{\"a\":1}"; 15_000_000 / 8].join(",");
    let hostile = format!("{{\"metadata\":{{\"name\":\"NAME\",\"namespace\":\"shop\"}},\"spec\":[{maps}]}}");
    let cluster = answers(1, hostile);
    let served = deployments();
    let name = "d0".to_owned();
    let key =
        ObjectKey { group: served.group.clone(), kind: served.kind.clone(), namespace: Some("shop".into()), name };
    let peak = peak_of(async {
        let error = cluster.get(&key, &served).await.unwrap_err();
        assert!(error.is_own(), "nothing else is concerned: {error}");
        let said = error.to_string();
        assert!(said.contains("Deployment shop/d0") && said.contains("make it smaller"), "{said}");
        let wanted = [key.clone()].into();
        let (found, _) = cluster.list_wanted(&served, Some("shop"), &wanted, |_| {}).await.unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].1.as_ref().is_err_and(|error| error.to_string().contains("Deployment shop/d0")));
        assert_eq!(cluster.list(&served, None, "").await.unwrap(), Vec::<Value>::new());
    })
    .await;
    assert!(peak < MOST, "{peak} bytes");
}

/// A cluster with many definitions names its kinds in megabytes. The kinds are kept of it, and nothing else is built.
#[tokio::test]
async fn the_kinds_of_a_cluster_take_a_few_times_the_answer() {
    const GROUPS: usize = 500;
    const KINDS: usize = 20;
    const TIMES: usize = 8;
    let _alone = MEASURING.lock().await;
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let group = |number: usize| {
        let kind = |kind: usize| {
            let of = format!("group-{number}.example.com");
            json!({
                "resource": format!("kinds{kind}"), "scope": "Namespaced", "singularResource": format!("kind{kind}"), "verbs": verbs,
                "responseKind": {"group": of, "version": "v1", "kind": format!("Kind{kind}")}, "shortNames": ["k"],
            })
        };
        let resources: Vec<Value> = (0..KINDS).map(kind).collect();
        let version = json!({"version": "v1", "freshness": "Current", "resources": resources});
        json!({"metadata": {"name": format!("group-{number}.example.com")}, "versions": [version]})
    };
    let items: Vec<Value> = (0..GROUPS).map(group).collect();
    let text =
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}).to_string();
    drop(items);
    let bytes = text.len();
    let service = tower::service_fn(move |request: Request<Body>| {
        let body = match request.uri().path() {
            "/version" => "{\"gitVersion\":\"v1.36.3\"}".to_owned(),
            "/api" => "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}".to_owned(),
            _ => text.clone(),
        };
        async move { Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes()))) }
    });
    let cluster = Cluster::new(Client::new(service, "shop"), Clock::tokio(jiff::Timestamp::UNIX_EPOCH));
    let peak = peak_of(async {
        let discovered = cluster.discover().await.unwrap();
        assert_eq!(discovered.version, "v1.36.3");
        assert_eq!(discovered.api_versions.len(), 1 + GROUPS * (1 + KINDS));
    })
    .await;
    assert!(peak < TIMES * bytes, "{peak} bytes for an answer of {bytes}");
}

/// Objects are told of as text, and their texts are few at once: their values together would take 16 times as much.
#[tokio::test]
async fn large_objects_are_read_one_after_the_other() {
    const OBJECTS: usize = 16;
    const MOST: usize = 128 << 20;
    let _alone = MEASURING.lock().await;
    let variable = |number: usize| format!("{{\"name\":\"VARIABLE_{number}\",\"value\":\"{number}\"}}");
    let env = (0..42_500).map(variable).collect::<Vec<_>>().join(",");
    let metadata = "\"metadata\":{\"name\":\"NAME\",\"namespace\":\"shop\",\"resourceVersion\":\"1\"}";
    let cluster = answers(OBJECTS, format!("{{{metadata},\"spec\":{{\"env\":[{env}]}}}}"));
    let peak = peak_of(async {
        let (mut watched, mut seen) = cluster.watched("a=b");
        watched.also(&deployments());
        let mut read = 0;
        loop {
            // The receiver may be slow.
            tokio::task::yield_now().await;
            match seen.recv().await.unwrap() {
                Seen::Live(_, text) => {
                    assert_eq!(text.read()["spec"]["env"].as_array().unwrap().len(), 42_500);
                    read += 1;
                }
                Seen::Synced(_) => break,
                Seen::Denied(_, None) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(read, OBJECTS);
    })
    .await;
    assert!(peak < MOST, "{peak} bytes");
}

/// A server that has answered for a while.
async fn warmed_up() -> (MiniCluster, Client) {
    let cluster = MiniCluster::builder()
        .without(Part::Controllers)
        .without(Part::Kubelet)
        .without(Part::ServiceAccounts)
        .start()
        .await
        .unwrap();
    let client = cluster.client();
    for round in 0..WARM_UP {
        ask_everything(&client, round).await;
    }
    (cluster, client)
}

/// Objects made, changed and deleted; requests that are refused in every way that there is; a watch opened and left.
async fn ask_everything(client: &Client, round: usize) {
    let name = format!("p{round}");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "round": name } },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let object = format!("{PODS}/{name}");
    let patch = json!({ "metadata": { "annotations": { "a": "x".repeat(1_000) } } });
    assert_eq!(send(client, "POST", PODS, &pod.to_string()).await, 201);
    assert_eq!(send(client, "PATCH", &object, &patch.to_string()).await, 200);
    assert_eq!(send(client, "POST", PODS, "{\"spec\": {}").await, 400);
    assert_eq!(send(client, "GET", &format!("/apis/{name}"), "").await, 404);
    assert_eq!(send(client, "GET", &format!("{PODS}?labelSelector=round%3D{name}"), "").await, 200);
    let strange = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": { (&*name): 1 } });
    assert_eq!(send(client, "POST", PODS, &strange.to_string()).await, 422);
    if round.is_multiple_of(100) {
        assert_eq!(send(client, "POST", PODS, &" ".repeat(4 << 20)).await, 413);
    }
    let watch = Request::get(format!("{PODS}?watch=1")).body(Vec::new().into()).unwrap();
    drop(client.send(watch).await.unwrap());
    let now = json!({ "gracePeriodSeconds": 0 });
    assert_eq!(send(client, "DELETE", &object, &now.to_string()).await, 200);
}

async fn send(client: &Client, method: &str, path: &str, body: &str) -> u16 {
    let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("Content-Type", media_type);
    let response = client.send(request.body(body.as_bytes().to_vec().into()).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    if code >= 400 && text.starts_with(b"{") {
        let status: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(status["code"], code, "{method} {path}");
    }
    code
}

/// Returns the memory of this process, in bytes; `None` if there is no way to tell.
fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}
