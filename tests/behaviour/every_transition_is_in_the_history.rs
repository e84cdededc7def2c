//! Every transition of every rollout is in the history, and each record says what set it off.

use std::time::Duration;

use belay_core::rollout::{Outcome, Record, StepKind, Trigger, marks};
use serde_json::json;

use crate::world::daemon::{World, broken, deployment, image, path_of};

/// What a rollout goes through that is taken back.
const TAKEN_BACK: [StepKind; 8] = [
    StepKind::Applying,
    StepKind::Applied,
    StepKind::Verdict,
    StepKind::Evidence,
    StepKind::GoingBack,
    StepKind::WentBack,
    StepKind::Marked,
    StepKind::Ended,
];
/// What one goes through that is well.
const WELL: [StepKind; 3] = [StepKind::Applying, StepKind::Applied, StepKind::Ended];

/// The records that were set off so, the oldest first.
fn by(world: &World, trigger: &Trigger) -> Vec<Record> {
    world.records().into_iter().filter(|record| record.trigger == *trigger).collect()
}

/// The steps of a record, without what repeats while it moves; their times never run backwards.
fn steps(world: &World, record: &Record) -> Vec<StepKind> {
    let steps = world.history().steps(record.id).unwrap();
    assert!(steps.is_sorted_by_key(|step| step.at), "{steps:#?}");
    let ended = steps.last().unwrap();
    assert_eq!(Some(ended.at), record.ended);
    assert!(ended.detail.starts_with(&record.outcome.to_string()), "{ended:?}");
    steps.iter().map(|step| step.kind).filter(|kind| *kind != StepKind::Progress).collect()
}

#[tokio::test(start_paused = true)]
async fn by_a_commit() {
    let (mut world, good) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    let all = by(&world, &Trigger::Commit);
    assert_eq!(all.iter().map(|record| record.commit.as_str()).collect::<Vec<_>>(), [&good, &bad]);
    assert_eq!((all[0].outcome, steps(&world, &all[0]).as_slice()), (Outcome::Complete, &WELL[..]));
    assert_eq!((all[1].outcome, steps(&world, &all[1]).as_slice()), (Outcome::RolledBack, &TAKEN_BACK[..]));
    // How it moved is there too.
    let moved = world.history().steps(all[0].id).unwrap();
    assert!(moved.iter().any(|step| step.kind == StepKind::Progress && step.detail.contains("of 2")), "{moved:#?}");
}

#[tokio::test(start_paused = true)]
async fn by_a_commit_that_another_replaces() {
    let (mut world, _) = World::with_web().await;
    let slow = world.push("web.yaml", &broken("web", "ready-after=20s"), "Slow");
    world.until("it is under way", |source| source.under_way.values().any(|way| way.message.contains("of 2"))).await;
    let next = world.push("web.yaml", &deployment("web", "web:3", ""), "The next");
    world.through(&next).await;
    let (before, after) =
        (world.record(&slow, "Deployment default/web"), world.record(&next, "Deployment default/web"));
    assert_eq!((before.outcome, steps(&world, &before).as_slice()), (Outcome::Superseded, &WELL[..]));
    let by = before.reason.unwrap().message;
    assert!(by.contains(&next[..7]), "{by}");
    assert_eq!((after.outcome, steps(&world, &after).as_slice()), (Outcome::Complete, &WELL[..]));
}

#[tokio::test(start_paused = true)]
async fn by_a_retry() {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    world.patch(&path_of("web"), "belay", &json!({"metadata": {"annotations": {marks::HOLD: null}}})).await;
    world.until("it is tried again", |source| source.under_way.len() == 1).await;
    world.through(&bad).await;
    let again = by(&world, &Trigger::Retry);
    assert_eq!(again.len(), 1, "{again:#?}");
    assert_eq!((again[0].commit.as_str(), again[0].outcome), (bad.as_str(), Outcome::RolledBack));
    assert_eq!(steps(&world, &again[0]), TAKEN_BACK);
}

#[tokio::test(start_paused = true)]
async fn by_an_undo_of_somebody() {
    let (mut world, first) = World::with_web().await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    world.undo_to("web:1").await;
    world.until("it is respected", |source| !source.held.is_empty() && source.under_way.is_empty()).await;
    world.until("it is through", |source| source.settled).await;
    let undone = by(&world, &Trigger::UndoByHand("kubectl-rollout".to_owned()));
    assert_eq!(undone.len(), 1, "{:#?}", world.records());
    assert_eq!((undone[0].commit.as_str(), undone[0].outcome), (second.as_str(), Outcome::RolledBack));
    assert_eq!(steps(&world, &undone[0]), [StepKind::GoingBack, StepKind::Ended], "somebody else wrote it");
    assert_eq!(undone[0].back_to.as_ref().unwrap().as_str(), first);
    let of_commit = by(&world, &Trigger::Commit);
    assert_eq!(of_commit.last().unwrap().outcome, Outcome::Complete, "that stays as it was");
}

#[tokio::test(start_paused = true)]
async fn by_drift() {
    let (mut world, good) = World::with_web().await;
    let other = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:9"}]}}}});
    world.patch(&path_of("web"), "kubectl-set", &other).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    world.until("it is put right", |source| source.settled).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
    let drifted = by(&world, &Trigger::Drift("kubectl-set".to_owned()));
    assert_eq!(drifted.len(), 1, "{:#?}", world.records());
    assert_eq!((drifted[0].commit.as_str(), drifted[0].outcome), (good.as_str(), Outcome::Complete));
    assert_eq!((drifted[0].rolls_out, steps(&world, &drifted[0]).as_slice()), (true, &WELL[..]));
}

#[tokio::test(start_paused = true)]
async fn also_where_it_was_taken_up_again() {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.until("it is under way", |source| source.under_way.values().any(|way| way.message.contains("of 2"))).await;
    world.kill().await;
    world.start();
    world.through(&bad).await;
    let record = world.record(&bad, "Deployment default/web");
    let mut all = TAKEN_BACK.to_vec();
    all.insert(2, StepKind::Resumed);
    assert_eq!((record.outcome, steps(&world, &record)), (Outcome::RolledBack, all));
}
