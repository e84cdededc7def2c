//! When a bad commit follows a bad one, configuration goes back to what it was with the last good revision, and not to what came
//! with the commit before, which failed itself.

use std::time::Duration;

use belay::config::OnFailure;
use belay_core::rollout::Outcome;
use serde_json::Value;

use crate::support::daemon::{World, broken, config_map, deployment, image, path_of};

const MAP: &str = "api/v1/namespaces/default/configmaps/settings";

fn reads(manifest: &str) -> String {
    format!("{manifest}        envFrom:\n        - configMapRef: {{name: settings}}\n")
}

fn bad(version: u32) -> String {
    reads(&broken("web", "never-ready").replace("web:2", &format!("web:{version}")))
}

async fn good() -> World {
    let mut world = World::embedded().await;
    world.repository.write("settings.yaml", config_map("settings", "1"));
    world.repository.write("web.yaml", reads(&deployment("web", "web:1", "")));
    world.with_all_of_them().await;
    world
}

fn push(world: &mut World, value: &str, web: &str, message: &str) -> String {
    world.repository.write("settings.yaml", config_map("settings", value)).write("web.yaml", web);
    let commit = world.repository.commit(message);
    world.repository.push();
    commit
}

async fn is_on(world: &World, value: &str, version: &str) {
    let map = world.get(MAP).await.unwrap();
    assert_eq!((map["data"]["A"].as_str(), image(&world.get(&path_of("web")).await.unwrap())), (Some(value), version));
}

#[tokio::test(start_paused = true)]
async fn both_failed_by_themselves() {
    let mut world = good().await;
    let first = push(&mut world, "2", &bad(2), "Bad");
    world.through(&first).await;
    is_on(&world, "1", "web:1").await;
    let second = push(&mut world, "3", &bad(3), "Bad again");
    world.through(&second).await;
    is_on(&world, "1", "web:1").await;
    // It stays there.
    world.kill().await;
    world.start();
    world.through(&second).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    is_on(&world, "1", "web:1").await;
}

#[tokio::test(start_paused = true)]
async fn the_second_came_before_the_first_had_its_verdict() {
    let mut world = good().await;
    push(&mut world, "2", &bad(2), "Bad");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    let second = push(&mut world, "3", &bad(3), "Bad again");
    world.through(&second).await;
    is_on(&world, "1", "web:1").await;
}

/// The configuration that failed is let in again with the fix, which fails, too.
#[tokio::test(start_paused = true)]
async fn the_second_left_the_configuration_alone() {
    let mut world = good().await;
    let first = push(&mut world, "2", &bad(2), "Bad");
    world.through(&first).await;
    let second = world.push("web.yaml", &bad(3), "No fix");
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::RolledBack);
    is_on(&world, "1", "web:1").await;
}

#[tokio::test(start_paused = true)]
async fn what_was_put_right_meanwhile_is_good() {
    let mut world = good().await;
    let first = push(&mut world, "2", &bad(2), "Bad");
    world.through(&first).await;
    let fix = world.push("web.yaml", &reads(&deployment("web", "web:3", "")), "Fix it");
    world.through(&fix).await;
    is_on(&world, "2", "web:3").await;
    let third = push(&mut world, "4", &bad(4), "Bad once more");
    world.through(&third).await;
    is_on(&world, "2", "web:3").await;
    let fourth = world.push("web.yaml", &bad(5), "Bad, with the settings that failed");
    world.through(&fourth).await;
    is_on(&world, "2", "web:3").await;
}

/// Pushes settings and the two workloads that read them.
fn push_two(world: &mut World, settings: &str, [web, other]: [&str; 2], message: &str) -> String {
    const READS: &str =
        "        env:\n        - name: A\n          valueFrom: {configMapKeyRef: {name: settings, key: A}}\n";
    world.repository.write("settings.yaml", settings);
    world.repository.write("web.yaml", format!("{web}{READS}")).write("other.yaml", format!("{other}{READS}"));
    let commit = world.repository.commit(message);
    world.repository.push();
    commit
}

async fn templates(world: &World) -> [Value; 2] {
    let template = async |name: &str| world.get(&path_of(name)).await.unwrap()["spec"]["template"].clone();
    [template("web").await, template("other").await]
}

/// The manifest of a revision is the good one's, and only the configuration is another: with its own it is good.
#[tokio::test(start_paused = true)]
async fn only_its_configuration_failed() {
    for on_failure in [OnFailure::RollBack, OnFailure::RollBackCommit] {
        let mut world = World::embedded().await;
        (world.config.roll_on_config, world.config.on_failure) = (true, on_failure);
        let (web, other) = (|image: &str| deployment("web", image, ""), |image: &str| deployment("other", image, ""));
        let first = push_two(&mut world, &config_map("settings", "1"), [&web("web:1"), &other("web:1")], "First");
        world.start();
        world.through(&first).await;
        let two = [&*web("web:2"), &*other("web:2")];
        let second = push_two(&mut world, &config_map("settings", "2"), two, "Good");
        world.through(&second).await;
        let good = templates(&world).await;
        let third = match on_failure {
            // Neither of them begins without its key.
            OnFailure::RollBack => config_map("settings", "3").replace("A:", "B:"),
            _ => config_map("settings", "3"),
        };
        let web_too = if on_failure == OnFailure::RollBack { web("web:2") } else { broken("web", "never-ready") };
        let third = push_two(&mut world, &third, [&web_too, &other("web:2")], "Bad");
        world.through(&third).await;
        assert_eq!(templates(&world).await, good, "{on_failure:?}");
        let bad = broken("other", "never-ready").replace("web:2", "web:5");
        let fourth = push_two(&mut world, &config_map("settings", "4"), [&web("web:4"), &bad], "Bad again");
        world.through(&fourth).await;
        let now = templates(&world).await;
        assert_eq!(now[1], good[1], "{on_failure:?}");
        let map = world.get(MAP).await.unwrap();
        if on_failure == OnFailure::RollBack {
            // The other needs them, and is well with them.
            assert_eq!(world.record(&fourth, "Deployment default/web").outcome, Outcome::Complete);
            assert_eq!(map["data"]["A"], "4");
        } else {
            assert_eq!(now[0], good[0]);
            assert_eq!(map["data"]["A"], "2");
        }
    }
}
