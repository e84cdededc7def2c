//! When a bad commit follows a bad one, configuration goes back to what it was with the last good revision, and not to what came
//! with the commit before, which failed itself.

use std::time::Duration;

use belay_core::rollout::Outcome;

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
