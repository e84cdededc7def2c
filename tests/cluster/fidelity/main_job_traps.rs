//! The judge's traps on the real control plane: what looks like a failure of the commit and is none. Side by side, so that
//! each waits no longer than the longest.

use std::time::Duration;

use belay::config::{OnFailure, Span};
use belay_core::rollout::{Hold, Outcome, Record};
use serde_json::{Value, json};

use super::main_job::real_world;
use crate::support::control_plane::ControlPlane;
use crate::support::daemon::{World, deployment, path_of};

/// Longer than any deadline here, with what belay waits on top of it.
const BEYOND: Duration = Duration::from_secs(25);

/// The names of those that only the world keeps from their end.
const KEPT: [&str; 3] = ["paused", "lost", "evicted"];

fn web(name: &str, image: &str, fate: &str, more: &str) -> String {
    // One has a node of its own, which goes away.
    let node = if name == "lost" { "node-1" } else { "node-2" };
    let fate = format!(
        "      annotations: {{kubelet.belay.dev/fate: \"{fate}\"}}\n    spec:\n      nodeSelector: \
         {{kubernetes.io/hostname: {node}}}\n      containers"
    );
    // A kubelet waits ten seconds before it pulls again.
    let deadline = if name == "heals" { 40 } else { 6 };
    deployment(name, image, more)
        .replace("progressDeadlineSeconds: 30", &format!("progressDeadlineSeconds: {deadline}"))
        .replace("    spec:\n      containers", &fate)
}

/// Returns the record of a commit's rollout; corrected drift has records beside it.
fn record(world: &World, commit: &str, name: &str) -> Record {
    let of_commit = |record: &Record| record.commit.as_str() == commit && record.trigger.is_commit();
    let found = world.records().into_iter().find(|record| of_commit(record) && record.object.name == name);
    found.unwrap_or_else(|| panic!("no record of {name} at {commit}"))
}

fn run(plane: &ControlPlane, args: &[&str]) {
    let ran = plane.kubectl().args(args).output().unwrap();
    assert!(ran.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Returns everything at one version, whose pods are all well.
fn all(world: &mut World, image: &str, fates: &[(&str, &str, &str)]) -> String {
    for (name, fate, more) in fates {
        world.repository.write(format!("{name}.yaml"), web(name, image, fate, more));
    }
    let commit = world.repository.commit(&format!("All at {image}"));
    world.repository.push();
    commit
}

const WELL: [(&str, &str, &str); 9] = [
    ("paused", "ready", ""),
    ("lost", "ready", ""),
    ("evicted", "ready", "  minReadySeconds: 3\n"),
    ("heals", "ready", ""),
    ("scaled", "ready", ""),
    ("edited", "ready", ""),
    ("deleted", "ready", ""),
    ("none", "ready", ""),
    ("late", "ready", ""),
];

const NEXT: [(&str, &str, &str); 9] = [
    ("paused", "ready-after=3s", ""),
    ("lost", "never-ready", ""),
    ("evicted", "evict-after=1s", "  minReadySeconds: 3\n"),
    ("heals", "image-pull-error,for=3s", ""),
    ("scaled", "ready-after=4s", ""),
    ("edited", "ready-after=4s", ""),
    ("deleted", "ready-after=4s", ""),
    ("none", "never-ready", ""),
    ("late", "ready-after=15s", ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_the_world_does_is_no_failure_of_the_commit() {
    let Some((mut plane, nodes, mut world)) = real_world().await else { return };
    world.config.on_failure = OnFailure::Report;
    world.config.rollback_budget = Span(Duration::from_secs(10));
    world.start();
    let first = all(&mut world, "web:1", &WELL);
    world.through(&first).await;
    for (name, ..) in WELL {
        assert_eq!(record(&world, &first, name).outcome, Outcome::Complete, "{name}");
    }
    let second = all_next(&mut world, &plane).await;
    for name in ["heals", "scaled", "edited", "deleted", "none"] {
        let record = record(&world, &second, name);
        assert_eq!(record.outcome, Outcome::Complete, "{name}: {record:#?}");
    }
    ruled_and_kept(&mut world, &second).await;
    told_apart(&mut world, &plane, &second).await;
    dead_controllers(&mut world, &mut plane).await;
    world.stop().await;
    nodes.stop().await;
}

/// Pushes the next version, and does to it what somebody may do.
async fn all_next(world: &mut World, plane: &ControlPlane) -> String {
    for (name, fate, more) in NEXT {
        let text = web(name, "web:2", fate, more);
        let text = if name == "none" { text.replace("replicas: 2", "replicas: 0") } else { text };
        world.repository.write(format!("{name}.yaml"), text);
    }
    let commit = world.repository.commit("All at web:2");
    world.repository.push();
    world.until("all are under way", |source| source.under_way.len() >= 7).await;
    run(plane, &["rollout", "pause", "deployment/paused"]);
    run(plane, &["scale", "deployment/scaled", "--replicas=4"]);
    run(plane, &["set", "image", "deployment/edited", "app=web:9"]);
    run(plane, &["delete", "deployment/deleted", "--wait=true"]);
    lost_node_is(world, "Unknown").await;
    let kept = |name: &str| KEPT.contains(&name);
    world
        .until("only those remain that are kept", move |source| {
            source.planned.is_some() && source.under_way.keys().all(|key| kept(&key.name))
        })
        .await;
    commit
}

/// Says of the node that is lost whether it is ready.
async fn lost_node_is(world: &World, ready: &str) {
    let conditions = json!([{"type": "Ready", "status": ready, "reason": "Said", "message": "by the test"}]);
    world.patch("api/v1/nodes/node-1/status", "node-controller", &json!({"status": {"conditions": conditions}})).await;
}

/// A workload that recovered too late stays failed; one that the world keeps stays under way, without a hold.
async fn ruled_and_kept(world: &mut World, commit: &str) {
    // Real time: these are real processes.
    tokio::time::sleep(BEYOND).await;
    let late = record(world, commit, "late");
    assert_eq!(late.outcome, Outcome::Failed, "{late:#?}");
    let live = world.get(&path_of("late")).await.unwrap();
    assert_eq!(live["status"]["availableReplicas"], 2, "it has recovered: {live:#}");
    for name in KEPT {
        let record = record(world, commit, name);
        assert_eq!(record.outcome, Outcome::UnderWay, "{name}: {record:#?}");
        assert_eq!(Hold::on(&world.get(&path_of(name)).await.unwrap()), None, "{name}");
    }
    let status = world.status();
    let way = |name: &str| {
        let found = status.under_way.iter().find(|(key, _)| key.name == name);
        found.unwrap_or_else(|| panic!("{name}: {status:#?}")).1
    };
    assert!(way("paused").message.starts_with("paused at"), "{:?}", way("paused"));
    let code = |name: &str| way(name).in_the_way.as_ref().map(|reason| reason.code.as_str());
    assert_eq!((code("lost"), code("evicted")), (Some("NodeNotReady"), Some("Evicted")), "{status:#?}");
}

/// When the world is well again, each comes to its own end.
async fn told_apart(world: &mut World, plane: &ControlPlane, commit: &str) {
    run(plane, &["rollout", "resume", "deployment/paused"]);
    lost_node_is(world, "True").await;
    let ended = |name: &'static str| {
        move |source: &belay::daemon::SourceStatus| source.under_way.keys().all(|key| key.name != name)
    };
    world.until("the paused one ends", ended("paused")).await;
    world.until("the lost one ends", ended("lost")).await;
    assert_eq!(record(world, commit, "paused").outcome, Outcome::Complete);
    assert_eq!(record(world, commit, "lost").outcome, Outcome::Failed);
}

/// Nobody acts on the next version: that is told, and waited for.
async fn dead_controllers(world: &mut World, plane: &mut ControlPlane) {
    plane.kill_controllers();
    let third = world.push("heals.yaml", &web("heals", "web:3", "ready", ""), "Third version");
    let unseen = |source: &belay::daemon::SourceStatus| {
        source.under_way.values().any(|way| way.message.contains("has not seen"))
    };
    world.until("it says so", unseen).await;
    tokio::time::sleep(BEYOND).await;
    let record = record(world, &third, "heals");
    assert_eq!(record.outcome, Outcome::UnderWay, "{record:#?}");
    let live: Value = world.get(&path_of("heals")).await.unwrap();
    assert_eq!(Hold::on(&live), None);
}
