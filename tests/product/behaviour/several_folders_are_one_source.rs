//! `path` may be a list, and hold `*`: what lies in one of the folders is followed, and nothing else.

use belay_core::rollout::{Outcome, SourceState};

use crate::support::daemon::{World, config_map};

fn map(name: &str) -> String {
    format!("api/v1/namespaces/default/configmaps/{name}")
}

async fn has(world: &World, name: &str) -> bool {
    world.get(&map(name)).await.is_some()
}

fn paths(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

async fn two_apps(path: Vec<String>) -> World {
    let mut world = World::embedded().await;
    world.config.path = path.into();
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    for app in ["web", "db"] {
        world.repository.write(format!("apps/{app}/live/map.yaml"), config_map(app, "1"));
        world.repository.write(format!("apps/{app}/test/map.yaml"), config_map(&format!("{app}-test"), "1"));
    }
    // Not in one of the folders: it makes no unit of what is.
    world.repository.write("apps/kustomization.yaml", "resources: [https://example.com/all.yaml]\n");
    world.repository.write("infra/map.yaml", config_map("infra", "1"));
    world.with_all_of_them().await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_pattern_and_a_folder_are_followed() {
    let mut world = two_apps(paths(&["apps/*/live", "/infra/"])).await;
    for (name, is_there) in [("web", true), ("db", true), ("infra", true), ("web-test", false), ("db-test", false)] {
        assert_eq!(has(&world, name).await, is_there, "{name}");
    }
    assert_eq!(world.status().state(), SourceState::Synced, "{:?}", world.status());
    assert_eq!(world.status().objects, 3);

    // A folder that a later commit makes matches, too.
    let new = world.push("apps/shop/live/map.yaml", &config_map("shop", "1"), "Another app");
    world.through(&new).await;
    assert!(has(&world, "shop").await);
    let elsewhere = world.push("apps/shop/test/map.yaml", "kind: [", "Not followed");
    world.through(&elsewhere).await;
    assert_eq!(world.status().state(), SourceState::Synced);
    assert!(world.records().iter().all(|record| record.commit.as_str() != elsewhere));

    // One that goes takes its objects with it.
    world.repository.remove("apps/web/live/map.yaml");
    let gone = world.repository.commit("No web");
    world.repository.push();
    world.through(&gone).await;
    assert!(!has(&world, "web").await && has(&world, "db").await);
    assert_eq!(world.record(&gone, "ConfigMap default/web").outcome, Outcome::Pruned);
}

#[tokio::test(start_paused = true)]
async fn a_folder_of_the_list_that_is_not_there_is_no_empty_one() {
    let mut world = two_apps(paths(&["apps/web/live", "infra"])).await;
    assert!(has(&world, "infra").await && has(&world, "web").await && !has(&world, "db").await);
    world.repository.remove("infra/map.yaml");
    let gone = world.repository.commit("No infra");
    world.repository.push();
    world.until("it says so", |source| source.state() == SourceState::Blocked).await;
    let trouble = format!("{:?}", world.status());
    assert!(trouble.contains("has no folder infra, which the source follows"), "{trouble}");
    assert!(has(&world, "infra").await, "nothing is pruned");
    let back = world.push("infra/map.yaml", &config_map("infra", "2"), "Here again");
    world.through(&back).await;
    assert_eq!(world.get(&map("infra")).await.unwrap()["data"]["A"], "2");
    assert!(world.records().iter().all(|record| record.commit.as_str() != gone));
}
