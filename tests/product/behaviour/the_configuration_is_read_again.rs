//! Sources are added, removed and changed while belay runs. Rollouts of the others go on untouched; those of a changed source
//! are taken up where they are.

use std::time::Duration;

use belay::config::{SourceConfig, Span};
use belay_core::rollout::{Outcome, SourceState, StepKind};

use crate::support::daemon::{World, broken, deployment, image, path_of};

fn source(world: &World, name: &str) -> SourceConfig {
    SourceConfig { name: name.to_owned(), path: name.into(), ..world.config.clone() }
}

/// Returns a world that follows the folder `shop`, whose workload becomes ready 30 seconds after its first commit.
async fn slow_shop() -> (World, String) {
    let mut world = World::embedded().await;
    world.config = source(&world, "shop");
    world.repository.write("infra/db.yaml", deployment("db", "db:1", ""));
    let first = world.push("shop/web.yaml", &broken("web", "ready-after=30s"), "Both");
    world.start();
    world.until("it rolls out", |source| !source.under_way.is_empty()).await;
    (world, first)
}

/// Returns true when the shop's rollout was taken up a second time.
fn was_resumed(world: &World, commit: &str) -> bool {
    let record = world.record(commit, "Deployment default/web");
    world.history().steps(record.id).unwrap().iter().any(|step| step.kind == StepKind::Resumed)
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_added_is_rolled_out_and_a_rollout_of_another_goes_on() {
    let (mut world, first) = slow_shop().await;
    world.more.push(source(&world, "infra"));
    world.reload().await.unwrap();
    world.through(&first).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
    assert!(!was_resumed(&world, &first));
    assert_eq!(world.record(&first, "Deployment default/db").outcome, Outcome::Complete);
    assert_eq!(world.state_of("infra"), Some(SourceState::Synced));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_changed_is_taken_up_where_it_is() {
    let (mut world, first) = slow_shop().await;
    world.config.interval = Span(Duration::from_secs(2));
    world.reload().await.unwrap();
    world.until("it follows again", |source| source.follower.interval == 2 && !source.under_way.is_empty()).await;
    world.through(&first).await;
    let records: Vec<Outcome> = world.records().iter().map(|record| record.outcome).collect();
    assert_eq!(records, [Outcome::Complete], "{:#?}", world.records());
    assert!(was_resumed(&world, &first));
    let second = world.push("shop/web.yaml", &deployment("web", "web:3", ""), "Next");
    world.through(&second).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:3");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_removed_is_followed_no_more_and_comes_back() {
    let (mut world, first) = slow_shop().await;
    world.more.push(source(&world, "infra"));
    world.reload().await.unwrap();
    world.through(&first).await;
    let infra = world.more.pop().unwrap();
    world.reload().await.unwrap();
    world.until_state("infra", None).await;
    world.repository.write("infra/db.yaml", deployment("db", "db:2", ""));
    let second = world.push("shop/web.yaml", &deployment("web", "web:3", ""), "Next");
    world.through(&second).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(image(&world.get(&path_of("db")).await.unwrap()), "db:1", "what it rolled out stays");
    assert_eq!(world.history().followed().unwrap().iter().filter(|of| of.source == "infra").count(), 0);
    world.more.push(infra);
    world.reload().await.unwrap();
    world.until_state("infra", Some(SourceState::Synced)).await;
    assert_eq!(image(&world.get(&path_of("db")).await.unwrap()), "db:2");
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_can_not_be_used_changes_nothing_and_that_is_published() {
    let (mut world, first) = slow_shop().await;
    let good = world.config.clone();
    world.config = source(&world, "other");
    world.more.push(SourceConfig { repository: "ftp://git.example.com/shop".to_owned(), ..source(&world, "infra") });
    let refused = world.reload().await.unwrap_err().to_string();
    assert!(refused.contains("infra"), "{refused}");
    world.refuse_configuration("/etc/belay/belay.toml", &refused).await;
    world
        .until("it is published", |source| {
            source.warnings().get("/etc/belay/belay.toml").is_some_and(|why| why.contains("of before is followed"))
        })
        .await;
    world.through(&first).await;
    assert_eq!((world.state_of("shop"), world.state_of("other")), (Some(SourceState::Synced), None));
    (world.config, world.more) = (good, Vec::new());
    world.reload().await.unwrap();
    world.until("it is taken back", |source| source.warnings().is_empty()).await;
    assert!(!was_resumed(&world, &first));
}
