//! An undo with `kubectl rollout undo` in the middle of a rollout stays, whatever belay was doing meanwhile.

use belay_core::rollout::{Hold, Outcome};

use crate::support::daemon::{World, broken, deployment, image, path_of};

/// Returns a rollout that will fail, under way.
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
    assert_eq!(reason.code.as_str(), "UndoneByHand");
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

/// To the very revision that had failed: belay is told to try it again, and it fails again. The template that it goes
/// back to then is not mixed with it, though kubectl has made some of its fields its own.
#[tokio::test(start_paused = true)]
async fn but_to_what_has_failed_it_is_judged_again() {
    for stopped in [false, true] {
        let (mut world, bad) = failing().await;
        world.through(&bad).await;
        let good = world.get(&path_of("web")).await.unwrap()["spec"]["template"].clone();
        let before = world.records().len();
        if stopped {
            world.stop().await;
        }
        world.undo_to("web:2").await;
        assert_eq!(Hold::on(&world.get(&path_of("web")).await.unwrap()), None, "as kubectl leaves it");
        if stopped {
            world.start();
        }
        world.until("it is judged", |source| !source.under_way.is_empty()).await;
        world.through(&bad).await;
        let live = world.get(&path_of("web")).await.unwrap();
        assert_eq!((image(&live), Hold::on(&live).unwrap().commit.as_str()), ("web:1", bad.as_str()));
        assert_eq!(live["spec"]["template"], good);
        assert_eq!(world.records().len(), before + 1);
        let last = world.records().pop().unwrap();
        assert_eq!(last.outcome, Outcome::RolledBack, "{:?}", last.reason);
    }
}

/// Nor is the next commit mixed with what it was taken back to.
#[tokio::test(start_paused = true)]
async fn the_next_commit_is_as_it_says() {
    let (mut world, _) = World::with_web().await;
    let with_note = broken("web", "ready-after=1s").replace("web:2", "web:1.1");
    let noted = world.push("web.yaml", &with_note, "With a note in its template");
    world.through(&noted).await;
    let bad = world.push("web.yaml", &deployment("web", "web:2", ""), "Next");
    world.through(&bad).await;
    world.undo_to("web:1.1").await;
    world.until("it is respected", |source| !source.held.is_empty()).await;
    let plain = world.push("web.yaml", &deployment("web", "web:3", ""), "Without the note");
    world.through(&plain).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), live["spec"]["template"]["metadata"].get("annotations")), ("web:3", None));
    assert_eq!(world.record(&plain, "Deployment default/web").outcome, Outcome::Complete);
}
