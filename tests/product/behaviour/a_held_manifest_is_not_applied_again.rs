//! Nothing applies a held manifest again: no restart, no other commit, no drift, no lost history.

use std::time::Duration;

use belay_core::rollout::{Hold, Outcome, Trigger, marks};
use serde_json::{Value, json};

use crate::support::daemon::{World, broken, deployment, image, path_of, short};

async fn held() -> (World, String) {
    held_by("never-ready").await
}

/// Returns a first version, and a second whose pods have this fate: taken back and held.
async fn held_by(fate: &str) -> (World, String) {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", fate), "Broken");
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
    let put_right: Vec<_> =
        world.records().into_iter().filter(|record| matches!(record.trigger, Trigger::Drift(_))).collect();
    assert_eq!(put_right.iter().map(|record| record.outcome).collect::<Vec<_>>(), [Outcome::Held], "{put_right:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_goes_back_to_it_is_told_so() {
    let (mut world, bad) = held_by("crash-after=1s").await;
    // A manifest that the API server refuses takes nobody's place.
    let refused = deployment("web", "web:3", "").replace("matchLabels: {app: web}", "matchLabels: {app: other}");
    let refused = world.push("web.yaml", &refused.replace("labels: {app: web}", "labels: {app: other}"), "Refused");
    world.through(&refused).await;
    assert_eq!(world.record(&refused, "Deployment default/web").outcome, Outcome::Rejected);
    let back = world.push("web.yaml", &broken("web", "crash-after=1s"), "Revert \"Refused\"");
    world.through(&back).await;
    let record = world.record(&back, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::Held);
    let reason = record.reason.unwrap();
    let expected = format!("back to what failed in {}: held: ", short(&bad));
    assert!(reason.message.starts_with(&expected), "{reason}");
    assert!(world.status().held.values().any(|held| held.reason.starts_with(&expected)), "{:#?}", world.status().held);
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
}

#[tokio::test(start_paused = true)]
async fn a_stale_hold_that_an_undo_brings_back_does_nothing() {
    let (mut world, bad) = held_by("crash-after=1s").await;
    let good = world.push("web.yaml", &deployment("web", "web:3", ""), "Mended");
    world.through(&good).await;
    assert!(Hold::on(&world.get(&path_of("web")).await.unwrap()).is_none());
    // The revision that was gone back to still has the hold, as its controller copied it.
    let sets = world.list("apis/apps/v1/namespaces/default/replicasets").await;
    let old = sets.into_iter().find(|set| image(set) == "web:1").unwrap();
    assert_eq!(Hold::on(&old).unwrap().commit.as_str(), bad);
    world.undo_to("web:1").await;
    world.until("it is respected", |source| source.held.values().any(|held| held.commit.as_str() == good)).await;
    world.until("it is through", |source| source.settled).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), Hold::on(&live).unwrap().commit.as_str()), ("web:1", good.as_str()));
    // A stale one on top of what is right holds nothing either.
    let next = world.push("web.yaml", &deployment("web", "web:4", ""), "Onwards");
    world.through(&next).await;
    let stale = json!({"metadata": {"annotations": {"belay.dev/hold": marks::annotation(&old, marks::HOLD)}}});
    world.patch(&path_of("web"), "kubectl-annotate", &stale).await;
    let last = world.push("web.yaml", &deployment("web", "web:5", ""), "Last");
    world.through(&last).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(image(&live), "web:5");
    assert_eq!(marks::annotation(&live, marks::HOLD), None, "it does not say so for good");
    assert!(world.status().held.is_empty(), "{:?}", world.status().held);
}
