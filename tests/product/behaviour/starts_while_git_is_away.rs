//! A daemon that starts while the repository does not answer keeps up what was planned last, and no more.

use std::time::Duration;

use belay::daemon::Obstacle;
use belay::history::Trouble;
use belay_core::rollout::{Hold, Outcome, Trigger};
use serde_json::{Value, json};

use crate::support::daemon::{World, broken, config_map, image, path_of};

/// Kills the daemon, takes the repository away, and starts it again.
async fn restarted(world: &mut World) {
    world.kill().await;
    world.repository.go_away();
    world.start();
}

/// Returns the source's trouble in the history.
fn trouble(world: &World) -> Option<Trouble> {
    world.history().followed().unwrap().remove(0).trouble
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_judged_on_and_taken_back() {
    let (mut world, good) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    restarted(&mut world).await;
    world.until("it went back", |source| !source.held.is_empty() && source.under_way.is_empty()).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), Hold::on(&live).unwrap().commit.as_str()), ("web:1", bad.as_str()));
    let record = world.record(&bad, "Deployment default/web");
    assert_eq!((record.outcome, record.back_to.unwrap().as_str()), (Outcome::RolledBack, good.as_str()));
    let told = world.status().obstacles.trouble.remove(&Obstacle::Repository).expect("it says so");
    assert_eq!(trouble(&world).expect("and notes it").message, told);
    assert!(!world.status().settled, "nobody may think that all is through");

    world.repository.come_back();
    let fix = world.push("web.yaml", &broken("web", "ready-after=1s"), "Fix it");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!((trouble(&world), world.status().obstacles.trouble.get(&Obstacle::Repository)), (None, None));
}

#[tokio::test(start_paused = true)]
async fn holds_are_told_and_drift_is_put_right() {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "image-pull-error"), "Broken");
    world.through(&bad).await;
    restarted(&mut world).await;
    world.until("the hold is told", |source| source.held.values().any(|held| held.commit.as_str() == bad)).await;
    world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 5}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((&live["spec"]["replicas"], image(&live)), (&json!(2), "web:1"));
    assert_eq!(world.records().pop().unwrap().trigger, Trigger::Drift("kubectl-scale".to_owned()));
}

/// A branch that is gone is no more of an answer.
#[tokio::test(start_paused = true)]
async fn or_while_its_branch_is_gone() {
    let (mut world, first) = World::with_web().await;
    world.kill().await;
    world.repository.push_refspec("refs/heads/main:refs/heads/other");
    world.repository.delete_pushed("main");
    world.start();
    world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 5}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 2);
    assert!(trouble(&world).unwrap().message.contains("has no branch main"), "{:?}", trouble(&world));
    world.repository.push();
    world.through(&first).await;
    assert_eq!(trouble(&world), None);
}

/// Another daemon may have gone on with commits that this one has never seen.
#[tokio::test(start_paused = true)]
async fn what_another_daemon_has_applied_is_left_alone() {
    let (mut world, first) = World::with_web().await;
    let unknown = "f".repeat(40);
    let newer = json!({"metadata": {"annotations": {"belay.dev/commit": unknown}},
        "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:7"}]}}}});
    world.stop().await;
    world.patch(&path_of("web"), "belay-elsewhere", &newer).await;
    world.repository.go_away();
    world.start();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:7");
    world.repository.come_back();
    world.through(&first).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1", "now it is known what Git says");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted() {
    let map = "api/v1/namespaces/default/configmaps/map-0";
    let mut world = World::embedded().await;
    world.with_maps(3).await;
    world.repository.remove("0.yaml");
    let gone = world.repository.commit("Away with it");
    world.repository.push();
    world.through(&gone).await;
    assert!(world.get(map).await.is_some(), "prune is off");
    world.config.prune = true;
    restarted(&mut world).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(world.get(map).await.is_some());
    world.repository.come_back();
    world.through(&gone).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.get(map).await, None);
}

/// Also if a commit takes something away that is the first thing heard of it.
#[tokio::test(start_paused = true)]
async fn what_left_meanwhile_is_deleted_when_it_is_back() {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.with_maps(3).await;
    restarted(&mut world).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    world.repository.come_back();
    world.repository.remove("0.yaml");
    let gone = world.repository.commit("Away with it");
    world.repository.push();
    world.through(&gone).await;
    assert_eq!(world.record(&gone, "ConfigMap default/map-0").outcome, Outcome::Pruned);
    assert_eq!(world.get("api/v1/namespaces/default/configmaps/map-0").await, None);
}

/// Nor what another daemon has changed beside the template, or deleted: no annotation says from which commit that comes.
#[tokio::test(start_paused = true)]
async fn what_only_a_daemon_may_have_done_is_left_alone() {
    let map = "api/v1/namespaces/default/configmaps/map";
    let (mut world, _) = World::with_web().await;
    world.push("map.yaml", &config_map("map", "1"), "A map");
    let first = world.push("other.yaml", &config_map("other", "1"), "Another");
    world.through(&first).await;
    world.stop().await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let mut newer: Value = serde_yaml::from_str(&config_map("map", "2")).unwrap();
    newer["metadata"]["labels"] = json!({"belay.dev/source": "shop"});
    world.apply(map, "belay", &newer).await;
    world.delete("api/v1/namespaces/default/configmaps/other").await;
    world.repository.go_away();
    world.start();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(world.get(map).await.unwrap()["data"]["A"], "2");
    assert_eq!(world.get("api/v1/namespaces/default/configmaps/other").await, None);
    world.repository.come_back();
    world.through(&first).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.get(map).await.unwrap()["data"]["A"], "1");
    assert!(world.get("api/v1/namespaces/default/configmaps/other").await.is_some());
}
