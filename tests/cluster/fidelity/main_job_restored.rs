//! The real control plane's etcd is set back to an older snapshot: everything comes back to what Git says, what was idle,
//! what was under way, and what is held. Real time: these are real processes.

use std::time::Duration;

use belay_core::rollout::{Hold, Outcome, Record};
use serde_json::Value;
use tokio::time::Instant;

use super::main_job::{real_world, start_nodes};
use crate::support::control_plane::ControlPlane;
use crate::support::daemon::{World, config_map, deployment, image, path_of};

const SETTINGS: &str = "api/v1/namespaces/default/configmaps/settings";

fn manifest(name: &str, image: &str, deadline: &str) -> String {
    deployment(name, image, "").replace("progressDeadlineSeconds: 30", &format!("progressDeadlineSeconds: {deadline}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_snapshot_did_not_know_comes_back() {
    let Some((mut plane, nodes, mut world)) = real_world().await else { return };
    world
        .repository
        .write("idle.yaml", manifest("idle", "web:1", "60"))
        .write("held.yaml", manifest("held", "web:1", "60"))
        .write("slow.yaml", manifest("slow", "web:1", "600"));
    let first = world.repository.commit("First versions");
    world.repository.push();
    world.start();
    world.through(&first).await;
    let snapshot = plane.back_up().await;
    world
        .repository
        .write("idle.yaml", manifest("idle", "web:2", "60"))
        .write("settings.yaml", config_map("settings", "2"))
        .write("held.yaml", manifest("held", "web:404", "6"));
    let second = world.repository.commit("Second versions");
    world.repository.push();
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/held").outcome, Outcome::RolledBack);
    let third = world.push("slow.yaml", &manifest("slow", "web:404", "600"), "Under way");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;

    // The nodes are started anew, too: their watches would ask for revisions that are still to come.
    nodes.stop().await;
    plane.restore(snapshot.path()).await;
    let nodes = start_nodes(&plane);
    comes_back(&world, &third, &plane).await;
    assert_eq!(world.get(SETTINGS).await.unwrap()["data"]["A"], "2");
    let held = world.get(&path_of("held")).await.unwrap();
    assert_eq!((image(&held), Hold::on(&held).unwrap().commit.as_str()), ("web:1", second.as_str()));
    // Its rollout is watched on, and nothing was said of a version that was not there.
    let fix = world.push("slow.yaml", &manifest("slow", "web:3", "600"), "Fix it");
    world.through(&fix).await;
    assert_eq!(world.record(&third, "Deployment default/slow").outcome, Outcome::Superseded);
    let records = world.records();
    let failed: Vec<&Record> = records.iter().filter(|record| is_failure(record.outcome)).collect();
    assert!(
        matches!(failed[..], [one] if one.object.name == "held" && one.commit.as_str() == second),
        "only one version failed: {failed:#?}"
    );
    assert_eq!(world.status().summary(), "degraded (1 held, 3 complete)");
    world.stop().await;
    nodes.stop().await;
}

fn is_failure(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Failed | Outcome::RolledBack | Outcome::RollbackFailed | Outcome::Rejected)
}

/// Waits until all is as the head says, or is held, or is rolled out again.
async fn comes_back(world: &World, head: &str, plane: &ControlPlane) {
    let began = Instant::now();
    loop {
        let idle = world.get(&path_of("idle")).await;
        let held = world.get(&path_of("held")).await;
        let slow = world.get(&path_of("slow")).await;
        let has = |live: &Option<Value>, wanted: &str| live.as_ref().is_some_and(|live| image(live) == wanted);
        let is_back = has(&idle, "web:2") && has(&slow, "web:404") && held.as_ref().and_then(Hold::on).is_some();
        let status = world.status();
        let waits = status.under_way.keys().map(|key| key.name.as_str()).collect::<Vec<_>>();
        if is_back && waits == ["slow"] && world.get(SETTINGS).await.is_some() {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "not all is back to {head}: {idle:#?} {held:#?} {slow:#?}\n{status:#?}\n{:#?}\n{}",
            world.records(),
            plane.manager_log()
        );
        // Real time: this is a real server.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
