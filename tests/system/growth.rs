//! Whatever is asked of the embedded API server, it does not grow: the same requests again and again, sound ones and
//! broken ones, and the memory of the process before and after. A program of its own, and one test after the other, for
//! nothing else may take memory.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;

use futures::future::join_all;
use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use minicluster::{MiniCluster, Part};
use serde_json::{Value, json};
use tokio::sync::Mutex;

const PODS: &str = "/api/v1/namespaces/default/pods";
/// More writes than the server keeps events of.
const WARM_UP: usize = 1_500;
const ROUNDS: usize = 6_000;
/// What the allocator may keep for itself, in bytes. Chosen, not measured: several times what was seen, and a hundredth of
/// what a leak of one body per round would take.
const SLACK: u64 = 24 << 20;

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

/// The memory of this process, in bytes; `None` where there is no way to tell.
fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}
