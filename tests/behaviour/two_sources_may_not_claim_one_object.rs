//! An object that two sources claim is a complaint of both, and belongs to the one that had it first.

use belay_core::rollout::{Outcome, marks};

use crate::world::daemon::{World, config_map};
use crate::world::repository::Repository;

#[tokio::test(start_paused = true)]
async fn both_hear_of_it_until_one_lets_go() {
    let mut world = World::embedded().await;
    let first = world.push("settings.yaml", &config_map("settings", "1"), "Mine");
    world.start();
    world.through(&first).await;
    world.stop().await;
    let mut theirs = Repository::new();
    theirs.commit_file("theirs.yaml", &config_map("settings", "2"), "Mine too");
    theirs.push();
    let mut other = world.config.clone();
    other.name = "other".to_owned();
    other.repository = theirs.path().display().to_string();
    world.more.push(other);
    world.start();
    world.until("the owner hears of it", |source| source.trouble.values().any(|one| one.contains("\"other\""))).await;
    let live = world.get("api/v1/namespaces/default/configmaps/settings").await.unwrap();
    assert_eq!((marks::label(&live, marks::SOURCE), live["data"]["A"].as_str()), (Some("shop"), Some("1")));
    let status = world.whole_status();
    assert!(status.sources["other"].trouble.values().any(|one| one.contains("\"shop\"")), "{status:#?}");
    let rejected = world.records().into_iter().find(|record| record.source == "other").unwrap();
    assert_eq!(rejected.outcome, Outcome::Rejected);
    assert_eq!(rejected.complaints[0].place.to_string(), "theirs.yaml:1:1");
    theirs.remove("theirs.yaml").commit_file("more.yaml", &config_map("more", "1"), "Not mine after all");
    theirs.push();
    world.until("it is settled", |source| source.trouble.is_empty()).await;
}
