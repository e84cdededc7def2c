//! Faults: containers that crash, requests that fail, answers that get lost, events that are forgotten.
//! `cargo test --example faults`

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::TryStreamExt as _;
use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::PostParams;
use kube::runtime::wait::await_condition;
use kube::runtime::watcher::{self, Event, watcher};
use minicluster::{Fault, MiniCluster};
use serde_json::json;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = MiniCluster::builder().virtual_time().start().await?;
    a_container_crashes(&cluster).await?;
    requests_fail(&cluster).await?;
    events_are_forgotten(&cluster).await?;
    cluster.stop().await;
    Ok(())
}

/// The behaviour of a container is data: an annotation of the pod, whose domain may be any.
async fn a_container_crashes(cluster: &MiniCluster) -> Result<(), Box<dyn Error>> {
    let pod = "
apiVersion: v1
kind: Pod
metadata: {name: shaky, annotations: {kubelet.example.com/fate: 'crash-after=3s,log=no database'}}
spec: {containers: [{name: app, image: 'shaky:1'}]}
";
    cluster.apply(pod).await?;
    let begun = tokio::time::Instant::now();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let restarted = |live: Option<&Pod>| {
        let status = live.and_then(|live| live.status.as_ref());
        let containers = status.and_then(|status| status.container_statuses.as_ref());
        containers.is_some_and(|containers| containers.iter().any(|container| container.restart_count == 4))
    };
    await_condition(pods.clone(), "shaky", restarted).await?;
    // The kubelet waits 10 s, then twice as long each time; this test does not.
    assert!(begun.elapsed() > Duration::from_secs(70));
    let previous = kube::api::LogParams { previous: true, ..Default::default() };
    assert!(pods.logs("shaky", &previous).await?.contains("no database"));
    Ok(())
}

/// A client whose every third request is refused, and whose first write is done without its knowing.
async fn requests_fail(cluster: &MiniCluster) -> Result<(), Box<dyn Error>> {
    let count = AtomicUsize::new(0);
    let client = cluster.client_with_faults(move |method, _| match count.fetch_add(1, Ordering::Relaxed) {
        0 if *method == Method::POST => Some(Fault::LoseAnswer),
        number if number % 3 == 2 => Some(Fault::Refuse(503)),
        _ => None,
    });
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map = serde_json::from_value(json!({ "metadata": { "name": "kept" } }))?;
    assert!(maps.create(&PostParams::default(), &map).await.is_err(), "the answer is lost");
    assert!(maps.get("kept").await.is_ok(), "and yet it was done");
    let Err(kube::Error::Api(refusal)) = maps.get("kept").await else {
        return Err("the third request is refused".into());
    };
    assert_eq!(refusal.code, 503);
    assert!(maps.get("kept").await.is_ok());
    Ok(())
}

/// A watch that comes back after the events that it needs are forgotten has to list again.
async fn events_are_forgotten(cluster: &MiniCluster) -> Result<(), Box<dyn Error>> {
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    // Such a watch ends after five seconds, and knows no newer revision than that of its last event.
    let config = watcher::Config::default().timeout(5).disable_bookmarks();
    let mut seen = std::pin::pin!(watcher(maps, config));
    while !matches!(seen.try_next().await?, Some(Event::InitDone)) {}
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}").await?;
    while !matches!(seen.try_next().await?, Some(Event::Apply(map)) if map.metadata.name.as_deref() == Some("other")) {}
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}").await?;
    cluster.api().compact();
    let (mut refused, mut listed) = (false, false);
    while !(refused && listed) {
        match seen.try_next().await {
            Err(watcher::Error::WatchError(status)) => refused = status.code == 410,
            Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) => refused = status.code == 410,
            Err(error) => return Err(error.into()),
            Ok(event) => listed = refused && matches!(event, Some(Event::InitDone)),
        }
    }
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
