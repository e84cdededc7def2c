//! `max_rollouts`: at most so many workloads that ran before are rolled out at a time.

use std::time::Duration;

use belay::config::SourceConfig;
use belay_core::rollout::{Outcome, ReasonCode, SourceState};
use serde_json::json;

use crate::support::daemon::{World, broken, image, path_of};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Pushes all workloads in a folder at one version, whose pods are ready after a while.
fn push(world: &mut World, folder: &str, version: &str, fate: &str) -> String {
    for name in NAMES {
        world.repository.write(format!("{folder}{name}.yaml"), broken(name, fate).replace("web:2", version));
    }
    let commit = world.repository.commit(&format!("All at {version}"));
    world.repository.push();
    commit
}

/// Returns a cluster on which one workload is rolled out at a time, and all have run at their first version.
async fn one_at_a_time(configure: impl FnOnce(&mut SourceConfig)) -> World {
    let mut world = World::embedded().await;
    world.config.max_rollouts = 1;
    configure(&mut world.config);
    let first = push(&mut world, "", "web:1", "ready");
    world.start();
    world.through(&first).await;
    world
}

/// Lets a commit come to its end. Returns the most rollouts that were under way at a time, in all sources, and those that
/// went back.
async fn watch(world: &mut World, commit: &str) -> (usize, usize) {
    let mut status = world.listen();
    let (mut most, mut most_back) = (0, 0);
    let ends = async {
        world.through(commit).await;
    };
    tokio::pin!(ends);
    loop {
        tokio::select! {
            biased;
            () = &mut ends => return (most, most_back),
            changed = status.changed() => {
                changed.unwrap();
                let now = status.borrow_and_update();
                let under_way = || now.sources.values().flat_map(|source| source.under_way.values());
                most = most.max(under_way().filter(|way| matches!(way.outcome, Outcome::UnderWay | Outcome::Baking)).count());
                most_back = most_back.max(under_way().filter(|way| way.outcome == Outcome::RollingBack).count());
            }
        }
    }
}

/// Waits until the record of a workload has ended.
async fn until_ended(world: &World, commit: &str, name: &str) {
    for _ in 0..3600 {
        if world.record(commit, &format!("Deployment default/{name}")).outcome.is_final() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("{name} has not ended within an hour: {:#?}", world.records());
}

#[tokio::test(start_paused = true)]
async fn so_many_at_a_time_and_new_ones_at_once() {
    let mut world = World::embedded().await;
    world.config.max_rollouts = 2;
    let first = push(&mut world, "", "web:1", "ready-after=10s");
    world.start();
    assert_eq!(watch(&mut world, &first).await.0, 5, "nobody is disturbed by a new workload");
    let second = push(&mut world, "", "web:2", "ready-after=10s");
    world
        .until("one waits", |source| {
            let waits = |message: &str| message == "waits for the end of another rollout: max_rollouts = 2";
            source.under_way.values().any(|way| way.outcome == Outcome::Waiting && waits(&way.message))
        })
        .await;
    assert_eq!(watch(&mut world, &second).await.0, 2);
    for name in NAMES {
        let record = world.record(&second, &format!("Deployment default/{name}"));
        assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
        assert_eq!(image(&world.get(&path_of(name)).await.unwrap()), "web:2");
    }
}

#[tokio::test(start_paused = true)]
async fn rollbacks_do_not_count() {
    let mut world = one_at_a_time(|config| {
        (config.bake, config.rollback_window) = ("2m".parse().unwrap(), "0s".parse().unwrap());
    })
    .await;
    // A way back bakes for two minutes, and a rollout fails after forty seconds.
    let bad = push(&mut world, "", "web:2", "never-ready");
    let (most, most_back) = watch(&mut world, &bad).await;
    assert!(most == 1 && most_back > 1, "{most} {most_back}");
    for name in NAMES {
        assert_eq!(world.record(&bad, &format!("Deployment default/{name}")).outcome, Outcome::RolledBack, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_daemon_has_a_limit_too() {
    let mut world = World::embedded().await;
    world.max_rollouts = 1;
    world.config = SourceConfig { path: "one".into(), ..world.config.clone() };
    let two = SourceConfig { name: "two".to_owned(), path: "two".into(), ..world.config.clone() };
    world.more.push(two);
    let other = |version: &str| broken("other", "ready-after=10s").replace("web:2", version);
    world.repository.write("two/other.yaml", other("web:1"));
    let first = push(&mut world, "one/", "web:1", "ready-after=10s");
    world.start();
    world.through(&first).await;
    world.until_state("two", Some(SourceState::Synced)).await;
    world.repository.write("two/other.yaml", other("web:2"));
    let second = push(&mut world, "one/", "web:2", "ready-after=10s");
    assert_eq!(watch(&mut world, &second).await.0, 1);
    let live = async |world: &World| image(&world.get(&path_of("other")).await.unwrap()).to_owned();
    for _ in 0..60 {
        if live(&world).await == "web:2" {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(live(&world).await, "web:2", "the other source has had its turn");
}

#[tokio::test(start_paused = true)]
async fn a_newer_commit_takes_the_place_of_those_that_wait_and_a_kill_loses_none() {
    let mut world = one_at_a_time(|_| ()).await;
    let second = push(&mut world, "", "web:2", "ready-after=20s");
    world
        .until("four wait", |source| {
            source.under_way.values().filter(|way| way.outcome == Outcome::Waiting).count() == 4
        })
        .await;
    world.kill().await;
    world.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let third = push(&mut world, "", "web:3", "ready-after=10s");
    assert_eq!(watch(&mut world, &third).await.0, 1);
    for name in NAMES {
        let object = format!("Deployment default/{name}");
        assert_eq!(world.record(&third, &object).outcome, Outcome::Complete, "{name}");
        let before = world.record(&second, &object);
        if before.outcome != Outcome::Complete {
            assert_eq!(before.reason.unwrap().code, ReasonCode::Superseded, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fix_waits_for_nobody_and_one_that_cannot_begin_keeps_nobody() {
    let mut world = one_at_a_time(|_| ()).await;
    world.push("b.yaml", &broken("b", "never-ready"), "Broken");
    world.until("b rolls out", |source| source.under_way.keys().any(|key| key.name == "b")).await;
    world.push(
        "a.yaml",
        &broken("a", "ready-after=300s").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 600"),
        "Slow",
    );
    world.until("a waits", |source| source.under_way.keys().any(|key| key.name == "a")).await;
    let fix = world.push("b.yaml", &broken("b", "ready").replace("web:2", "web:3"), "Fix");
    world
        .until("b is being fixed", |source| {
            source.under_way.iter().any(|(key, way)| key.name == "b" && way.commit.as_str() == fix)
        })
        .await;
    until_ended(&world, &fix, "b").await;
    assert!(world.status().under_way.keys().any(|key| key.name == "a"));
    assert_eq!(world.record(&fix, "Deployment default/b").outcome, Outcome::Complete);

    // c waits, and is being deleted meanwhile: d has its turn all the same.
    world.repository.write("c.yaml", broken("c", "ready").replace("web:2", "web:4"));
    let last = world.push("d.yaml", &broken("d", "ready").replace("web:2", "web:4"), "Two more");
    world
        .until("c and d wait", |source| {
            let waits = |name: &str| {
                source.under_way.iter().any(|(key, way)| key.name == name && way.outcome == Outcome::Waiting)
            };
            waits("c") && waits("d")
        })
        .await;
    let kept = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    world.patch(&path_of("c"), "a-person", &kept).await;
    world.delete(&path_of("c")).await;
    until_ended(&world, &last, "d").await;
    assert_eq!(world.record(&last, "Deployment default/d").outcome, Outcome::Complete);
    assert!(!world.record(&last, "Deployment default/c").outcome.is_final());
    world.patch(&path_of("c"), "a-person", &json!({"metadata": {"finalizers": null}})).await;
    world.through(&last).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_beside_the_template_of_one_that_bakes_keeps_its_slot() {
    let mut world = one_at_a_time(|config| config.bake = "2m".parse().unwrap()).await;
    let second = push(&mut world, "", "web:2", "ready");
    world
        .until("a bakes", |source| {
            source.under_way.iter().any(|(key, way)| key.name == "a" && way.outcome == Outcome::Baking)
        })
        .await;
    let beside = broken("a", "ready").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 40");
    let third = world.push("a.yaml", &beside, "A longer deadline");
    assert_eq!(watch(&mut world, &third).await.0, 1);
    assert_eq!(world.record(&second, "Deployment default/a").outcome, Outcome::Superseded);
    assert_eq!(world.record(&third, "Deployment default/a").outcome, Outcome::Complete);
}
