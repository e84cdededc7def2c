//! Nothing applies a held manifest again: no restart, no other commit, no drift, no lost history.

use std::time::Duration;

use belay::rollout::{Hold, Outcome};
use serde_json::{Value, json};

use crate::world::daemon::{World, broken, deployment, path_of};

async fn held() -> (World, String) {
    let mut world = World::embedded().await;
    let good = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.through(&good).await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    (world, bad)
}

fn is_back(live: &Value) -> bool {
    live["spec"]["template"]["spec"]["containers"][0]["image"] == "web:1" && Hold::on(live).is_some()
}

#[tokio::test(start_paused = true)]
async fn not_after_a_restart() {
    let (mut world, bad) = held().await;
    let before = world.get(&path_of("web")).await.unwrap();
    world.stop().await;
    world.start();
    world.through(&bad).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(world.status().held.len(), 1, "it says so");
}

#[tokio::test(start_paused = true)]
async fn not_when_the_history_is_lost() {
    let (mut world, bad) = held().await;
    let before = world.get(&path_of("web")).await.unwrap();
    world.stop().await;
    std::fs::remove_dir_all(world.repository.beside("state")).unwrap();
    world.start();
    world.through(&bad).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert!(is_back(&live));
    assert_eq!(live["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::Held);
}

#[tokio::test(start_paused = true)]
async fn not_by_another_commit() {
    let (mut world, _) = held().await;
    let other = world.push("other.yaml", &deployment("other", "web:1", ""), "Something else");
    world.through(&other).await;
    assert!(is_back(&world.get(&path_of("web")).await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn not_to_correct_drift() {
    let (mut world, bad) = held().await;
    world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 5}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    world.through(&bad).await;
    assert!(is_back(&world.get(&path_of("web")).await.unwrap()));
}
