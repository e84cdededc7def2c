//! Objects of others in the cluster, and trouble of the API server's own store, keep belay from nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belay::clock::Clock;
use belay_core::rollout::Outcome;
use kube::client::Body;
use minicluster::{MiniCluster, Part};
use serde_json::json;

use crate::support::daemon::{EPOCH, World, config_map, path_of};

const MAPS: &str = "api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn many_large_objects_of_others_beside_many_of_belays() {
    let (mut world, tap) = World::tapped().await;
    let large = "x".repeat(900_000);
    for number in 0..40 {
        let name = format!("a-stranger-{number}");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": large}});
        world.create(MAPS, "somebody", &map).await;
    }
    for number in 0..60 {
        world.repository.write(format!("{number}.yaml"), config_map(&format!("map-{number}"), "1"));
    }
    let first = world.with_all_of_them().await;
    for number in [0, 59] {
        let record = world.record(&first, &format!("ConfigMap default/map-{number}"));
        assert_eq!(record.outcome, Outcome::Complete);
    }
    let went = tap.take();
    let lists: Vec<_> = went.iter().filter(|went| went.path.contains("/configmaps?limit=500")).collect();
    assert_eq!(lists.len(), 1, "a page that is too large is not asked for again: {lists:#?}");
    let smaller = went.iter().filter(|went| went.path.contains("/configmaps?limit=")).count();
    assert!(smaller <= 5, "{smaller} lists");
    let read = went.iter().filter(|went| went.method == "GET" && went.path.contains("/configmaps/map-")).count();
    assert!(read >= 60, "what the neighbours make dear is read one by one: {read}");
}

#[tokio::test(start_paused = true)]
async fn many_of_belays_among_few_others_are_listed() {
    let (mut world, tap) = World::tapped().await;
    world.with_maps(200).await;
    let read = tap.take().into_iter().filter(|went| went.method == "GET" && went.path.contains("/configmaps/")).count();
    assert_eq!(read, 0);
}

/// A cluster whose revisions go back, as those of one whose etcd was restored from a backup.
#[tokio::test(start_paused = true)]
async fn a_restored_store_is_noticed() {
    let clock = || Clock::tokio(EPOCH.parse().expect("a time"));
    let new = || MiniCluster::builder().clock(clock()).without(Part::Roles).start();
    let (before, restored) = (new().await.expect("a cluster"), new().await.expect("a cluster"));
    let is_restored = Arc::new(AtomicBool::new(false));
    let (old, new, switch) = (before.client_as("belay"), restored.client_as("belay"), Arc::clone(&is_restored));
    let line = tower::service_fn(move |request: http::Request<Body>| {
        let client = if switch.load(Ordering::Relaxed) { new.clone() } else { old.clone() };
        async move { client.send(request).await }
    });
    let client = kube::Client::new(line, "default");
    let mut world = World::on(client, clock(), Some(restored));
    for number in 0..30 {
        world.repository.write(format!("{number}.yaml"), config_map(&format!("map-{number}"), "1"));
    }
    world.with_first_version().await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    is_restored.store(true, Ordering::Relaxed);
    before.stop().await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(world.get(&path_of("web")).await.is_some(), "what the backup had not is applied again");
    world.delete(&path_of("web")).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.get(&path_of("web")).await.is_some(), "it is watched again");
}
