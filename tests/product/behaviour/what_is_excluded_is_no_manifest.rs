//! `include`, `exclude` and `.belayignore` say which files count: the others are no manifests.

use std::time::Duration;

use belay_core::rollout::{Outcome, SourceState};

use crate::support::daemon::{World, config_map};

fn map(name: &str) -> String {
    format!("api/v1/namespaces/default/configmaps/{name}")
}

async fn has(world: &World, name: &str) -> bool {
    world.get(&map(name)).await.is_some()
}

fn patterns(patterns: &[&str]) -> Vec<String> {
    patterns.iter().map(|pattern| (*pattern).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_the_configuration_excludes_is_neither_applied_nor_complained_about() {
    let mut world = World::embedded().await;
    world.config.path = "live".into();
    world.config.exclude = patterns(&["live/fixtures/", "*.test.yaml"]);
    world.repository.write("live/a.yaml", config_map("a", "1")).write("live/b.test.yaml", config_map("b", "1"));
    world.repository.write("live/fixtures/bad.yaml", "kind: [").write("live/fixtures/Chart.yaml", "no chart");
    world.with_all_of_them().await;
    assert!(has(&world, "a").await && !has(&world, "b").await);
    assert_eq!(world.status().state(), SourceState::Synced, "{:?}", world.status());
    assert_eq!(world.status().objects, 1);
}

#[tokio::test(start_paused = true)]
async fn only_what_it_includes_counts() {
    let mut world = World::embedded().await;
    world.config.include = patterns(&["apps/", "!old.yaml"]);
    world.repository.write("apps/a.yaml", config_map("a", "1")).write("apps/old.yaml", config_map("old", "1"));
    world
        .repository
        .write("other/b.yaml", config_map("b", "1"))
        .write("other/kustomization.yaml", "resources: [b.yaml]\n");
    world.with_all_of_them().await;
    assert!(has(&world, "a").await && !has(&world, "b").await && !has(&world, "old").await);
    assert_eq!(world.status().state(), SourceState::Synced, "what would render it is not asked for");
}

/// A file that counts no longer is one that has left, and one that counts again is new, though neither has changed.
#[tokio::test(start_paused = true)]
async fn a_commit_that_changes_what_is_ignored_changes_what_counts() {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    world.config.path = "live".into();
    world.repository.write("live/a.yaml", config_map("a", "1")).write("live/more/b.yaml", config_map("b", "1"));
    let first = world.with_all_of_them().await;
    assert!(has(&world, "a").await && has(&world, "b").await);
    let ignored = world.push("live/more/.belayignore", "b.yaml\n", "No b");
    world.through(&ignored).await;
    assert!(has(&world, "a").await && !has(&world, "b").await);
    assert_eq!(world.record(&ignored, "ConfigMap default/b").outcome, Outcome::Pruned);
    // A change of the file itself is none now.
    let changed = world.push("live/more/b.yaml", "kind: [", "Not a manifest");
    world.through(&changed).await;
    assert_eq!(world.status().state(), SourceState::Synced);
    world.push("live/more/b.yaml", &config_map("b", "2"), "A manifest");
    let again = world.push("live/more/.belayignore", "other.yaml\n", "b again");
    world.through(&again).await;
    assert!(has(&world, "b").await);
    // The folders above the one that is followed have a say, too.
    let above = world.push(".belayignore", "more/\n", "Nothing of more");
    world.through(&above).await;
    assert!(has(&world, "a").await && !has(&world, "b").await);
    assert_eq!(world.record(&first, "ConfigMap default/a").outcome, Outcome::Complete);
}

/// The patterns of a folder above the one that is followed come and go with commits that change nothing else.
#[tokio::test(start_paused = true)]
async fn so_does_one_that_changes_it_above_the_folder() {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    world.config.path = "apps/live".into();
    world.repository.write("apps/live/a.yaml", config_map("a", "1")).write("apps/live/b.yaml", config_map("b", "1"));
    world.with_all_of_them().await;
    let ignored = world.push("apps/.belayignore", "b.yaml\n", "No b");
    world.through(&ignored).await;
    assert!(has(&world, "a").await && !has(&world, "b").await);
    world.repository.remove("apps/.belayignore");
    let again = world.repository.commit("b again");
    world.repository.push();
    world.through(&again).await;
    assert!(has(&world, "b").await);
}

/// After a restart the same files count, also those that an earlier commit has excluded.
#[tokio::test(start_paused = true)]
async fn a_restart_changes_nothing() {
    let mut world = World::embedded().await;
    world.repository.write("a.yaml", config_map("a", "1")).write("b.yaml", config_map("b", "1"));
    world.repository.write(".belayignore", "b.yaml\n");
    world.with_all_of_them().await;
    world.stop().await;
    let second = world.push("a.yaml", &config_map("a", "2"), "Second version");
    world.start();
    world.through(&second).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!has(&world, "b").await);
    assert_eq!(world.get(&map("a")).await.unwrap()["data"]["A"], "2");
}

/// With `render = "off"` files are excluded all the same; and an excluded kustomization is none.
#[tokio::test(start_paused = true)]
async fn without_rendering_too() {
    let mut world = World::embedded().await;
    world.config.render = belay::config::Render::Off;
    world.repository.write("a.yaml", config_map("a", "1")).write("b.yaml", config_map("b", "1"));
    world.repository.write(".belayignore", "b.yaml\n");
    world.with_all_of_them().await;
    assert!(has(&world, "a").await && !has(&world, "b").await);

    let mut world = World::embedded().await;
    world.repository.write("a.yaml", config_map("a", "1")).write("kustomization.yaml", "resources: [a.yaml]\n");
    world.repository.write(".belayignore", "kustomization.yaml\n");
    world.with_all_of_them().await;
    assert!(has(&world, "a").await, "a plain manifest");
    assert_eq!(world.status().state(), SourceState::Synced);
}

/// A commit after which nothing counts looks like an accident.
#[tokio::test(start_paused = true)]
async fn excluding_everything_is_refused() {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    world.repository.write("a.yaml", config_map("a", "1"));
    world.with_all_of_them().await;
    world.push(".belayignore", "*\n", "Nothing");
    world
        .until("it is refused", |source| {
            source.obstacles.trouble.values().any(|trouble| trouble.contains("leaves no manifest"))
        })
        .await;
    assert!(has(&world, "a").await);
}
