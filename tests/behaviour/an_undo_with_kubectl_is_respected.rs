//! What `kubectl rollout undo` took back in the middle of a rollout stays so, whatever belay was doing meanwhile.

use belay::rollout::{Hold, Outcome};

use crate::world::daemon::{World, broken, image, path_of};

/// A rollout that will fail, under way.
async fn failing() -> (World, String) {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.until("it is under way", |source| source.under_way.values().any(|way| way.message.contains("of 2"))).await;
    (world, bad)
}

async fn stays_undone(world: &mut World, commit: &str) {
    world.through(commit).await;
    let record = world.record(commit, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::RolledBack);
    let reason = record.reason.unwrap();
    assert_eq!(reason.code, "UndoneByHand");
    assert!(reason.message.starts_with("taken back by hand (kubectl-rollout) to revision "), "{reason}");
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), Hold::on(&live).unwrap().commit.as_str()), ("web:1", commit));
}

#[tokio::test(start_paused = true)]
async fn while_it_is_judged() {
    let (mut world, bad) = failing().await;
    world.undo_to("web:1").await;
    stays_undone(&mut world, &bad).await;
}

/// The template is an older commit's, and so are the marks of its revision.
#[tokio::test(start_paused = true)]
async fn when_it_goes_on_under_a_newer_commit() {
    let (mut world, bad) = failing().await;
    let more = broken("web", "never-ready").replace("replicas: 2", "replicas: 3");
    let more = world.push("web.yaml", &more, "One more");
    world.until("it goes on", |source| source.under_way.values().any(|way| way.commit.as_str() == more)).await;
    world.undo_to("web:1").await;
    stays_undone(&mut world, &more).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::Superseded);
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 3, "what is no template's stays");
}

#[tokio::test(start_paused = true)]
async fn while_belay_was_not_there() {
    let (mut world, bad) = failing().await;
    world.kill().await;
    world.undo_to("web:1").await;
    world.start();
    stays_undone(&mut world, &bad).await;
}
