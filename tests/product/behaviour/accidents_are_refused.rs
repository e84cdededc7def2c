//! A repository that was emptied or replaced by accident is refused, until somebody says that it is meant.

use std::time::Duration;

use belay::daemon::{Obstacle, Pruning};
use belay_core::rollout::Outcome;

use crate::support::daemon::{World, config_map, deployment, path_of};

fn map(name: &str) -> String {
    format!("api/v1/namespaces/default/configmaps/{name}")
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_suddenly_holds_nothing_is_refused() {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.with_first_version().await;
    world.repository.remove("web.yaml").write("README", "moved elsewhere");
    world.repository.commit("Oops");
    world.repository.push();
    world.until("it says so", |source| source.obstacles.trouble.contains_key(&Obstacle::Repository)).await;
    assert!(
        world.status().obstacles.trouble[&Obstacle::Repository].contains("refused"),
        "{:?}",
        world.status().obstacles.trouble
    );
    assert!(world.get(&path_of("web")).await.is_some());
    let third = world.push("web.yaml", &deployment("web", "web:2", ""), "Back again");
    world.through(&third).await;
    assert_eq!(world.record(&third, "Deployment default/web").outcome, Outcome::Complete);
}

/// Three ConfigMaps; then a head that holds something else altogether.
async fn replaced() -> World {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    world.with_maps(3).await;
    world.repository.orphan("strange").commit_file("web.yaml", &deployment("web", "web:1", ""), "Another project");
    world.repository.push_refspec("+refs/heads/strange:refs/heads/main");
    world.until("it is refused", |source| source.obstacles.trouble.contains_key(&Obstacle::Repository)).await;
    let told = world.status().obstacles.trouble[&Obstacle::Repository].clone();
    assert!(told.contains("in common") && told.contains("--allow-prune"), "{told}");
    world
}

async fn is_as_it_was(world: &World) -> bool {
    world.get(&map("map-0")).await.is_some() && world.get(&path_of("web")).await.is_none()
}

#[tokio::test(start_paused = true)]
async fn another_repository_in_its_place_is_refused() {
    let mut world = replaced().await;
    // Also after a restart, and with more of the same.
    world.stop().await;
    world.start();
    world.until("it is refused again", |source| source.obstacles.trouble.contains_key(&Obstacle::Repository)).await;
    world.repository.switch("strange").commit_file("more.yaml", &config_map("more", "1"), "More of it");
    world.repository.push_refspec("+refs/heads/strange:refs/heads/main");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(is_as_it_was(&world).await);
    assert!(world.status().obstacles.trouble.contains_key(&Obstacle::Repository));
    // The right one is back.
    let right = world.repository.switch("main").commit_file("0.yaml", &config_map("map-0", "2"), "The right one");
    world.repository.push_refspec("+refs/heads/main:refs/heads/main");
    world.through(&right).await;
    assert_eq!(world.record(&right, "ConfigMap default/map-0").outcome, Outcome::Complete);
    assert!(world.status().obstacles.trouble.is_empty(), "{:?}", world.status().obstacles.trouble);
}

#[tokio::test(start_paused = true)]
async fn unless_a_commit_says_that_it_is_meant() {
    let mut world = replaced().await;
    let message = "It is meant so\n\nBelay-Allow-Prune: 3\n";
    let meant = world.repository.switch("strange").commit_file("web.yaml", &deployment("web", "web:2", ""), message);
    world.repository.push_refspec("+refs/heads/strange:refs/heads/main");
    world.through(&meant).await;
    assert_eq!(world.record(&meant, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(world.get(&map("map-0")).await, None);
}

#[tokio::test(start_paused = true)]
async fn or_belay_is_told_so() {
    let mut world = replaced().await;
    let head = world.repository.tip_of("strange").unwrap();
    world.stop().await;
    world.pruning = Pruning::Unlimited;
    world.start();
    world.through(&head).await;
    assert!(world.get(&path_of("web")).await.is_some());
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.get(&map("map-0")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_folder_may_be_emptied_by_who_says_so() {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.repository.write("0.yaml", config_map("map-0", "1")).write("1.yaml", config_map("map-1", "1"));
    let first = world.repository.commit("Both");
    world.repository.push();
    world.start();
    world.through(&first).await;
    world.repository.remove("0.yaml").remove("1.yaml").write("README", "moved elsewhere");
    let gone = world.repository.commit("Away with both\n\nBelay-Allow-Prune: 2\n");
    world.repository.push();
    world.through(&gone).await;
    assert_eq!((world.get(&map("map-0")).await, world.get(&map("map-1")).await), (None, None));
    let again = world.push("0.yaml", &config_map("map-0", "1"), "Back again");
    world.through(&again).await;
    assert!(world.get(&map("map-0")).await.is_some());
}

/// History told anew, with the same files in it, is no accident.
#[tokio::test(start_paused = true)]
async fn a_history_begun_anew_with_the_same_files_is_followed() {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    world.repository.write("0.yaml", config_map("map-0", "1")).write("1.yaml", config_map("map-1", "1"));
    let first = world.repository.commit("Both");
    world.repository.push();
    world.start();
    world.through(&first).await;
    let anew = world.repository.orphan("anew").commit_file("0.yaml", &config_map("map-0", "2"), "All in one");
    world.repository.push_refspec("+refs/heads/anew:refs/heads/main");
    world.through(&anew).await;
    assert_eq!(world.record(&anew, "ConfigMap default/map-0").outcome, Outcome::Complete);
    assert_eq!(world.get(&map("map-1")).await, None);
}
