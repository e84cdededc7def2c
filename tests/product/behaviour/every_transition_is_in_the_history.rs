//! Every transition of every rollout is in the history, and each record says what set it off.

use std::time::Duration;

use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, Record, StepKind, Trigger, marks};
use serde_json::json;

use crate::support::daemon::{World, broken, config_map, deployment, image, path_of};

/// The steps of a rollout that is rolled back.
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
/// The steps of a good one.
const WELL: [StepKind; 3] = [StepKind::Applying, StepKind::Applied, StepKind::Ended];

/// Returns the records that were set off so, the oldest first.
fn by(world: &World, trigger: &Trigger) -> Vec<Record> {
    world.records().into_iter().filter(|record| record.trigger == *trigger).collect()
}

/// Returns the records that commits have set off, the oldest first.
fn of_commits(world: &World) -> Vec<Record> {
    world.records().into_iter().filter(|record| record.trigger.is_commit()).collect()
}

/// Returns the steps of a record, without what repeats while it moves; their times never run backwards.
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
    let all = of_commits(&world);
    assert_eq!(all.iter().map(|record| record.commit.as_str()).collect::<Vec<_>>(), [&good, &bad]);
    assert_eq!((all[0].outcome, steps(&world, &all[0]).as_slice()), (Outcome::Complete, &WELL[..]));
    assert_eq!((all[1].outcome, steps(&world, &all[1]).as_slice()), (Outcome::RolledBack, &TAKEN_BACK[..]));
    // Its progress is there too.
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
    let of_commit = of_commits(&world);
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

/// Returns the Deployment with settings that it reads, and what else it says of its container.
fn configured(image: &str, value: &str, more: &str) -> String {
    let asks = "  name: web\n  annotations: {belay.dev/roll-on-config: \"true\"}\nspec:";
    let web = deployment("web", image, "").replace("  name: web\nspec:", asks);
    let reads = "        envFrom: [{configMapRef: {name: settings}}]\n";
    format!("{web}{reads}{more}---\n{}", config_map("settings", value))
}

#[tokio::test(start_paused = true)]
async fn by_what_a_commit_changes() {
    let (mut world, first) = World::with_web().await;
    let record = world.record(&first, "Deployment default/web");
    assert_eq!(record.trigger, Trigger::Commit, "there was no image before");
    let env = |value: &str| format!("        env: [{{name: B, value: {value}}}]\n");
    let versions = [
        (deployment("web", "web:1", "").replace("replicas: 2", "replicas: 3"), Trigger::Commit),
        (deployment("web", "web:2", ""), Trigger::NewImage),
        (configured("web:2", "a", ""), Trigger::Commit),
        (configured("web:2", "b", ""), Trigger::ConfigChange),
        (configured("web:2", "c", ""), Trigger::ConfigChange),
        (configured("web:2", "c", &env("b")), Trigger::Commit),
        (configured("web:3", "d", &env("c")), Trigger::NewImage),
    ];
    for (number, (version, trigger)) in versions.into_iter().enumerate() {
        let commit = world.push("web.yaml", &version, &format!("Version {number}"));
        world.through(&commit).await;
        let record = world.record(&commit, "Deployment default/web");
        assert_eq!((record.trigger, record.outcome), (trigger, Outcome::Complete), "version {number}");
    }
    let counted = world.metrics();
    assert_eq!(counted.rollouts("shop", "new-image", "complete"), 2);
    assert_eq!(counted.rollouts("shop", "config-change", "complete"), 2);
}

/// Taken up again, it is the same record.
#[tokio::test(start_paused = true)]
async fn by_a_new_image_before_a_restart_of_belay() {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.until("it is under way", |source| source.under_way.values().any(|way| way.message.contains("of 2"))).await;
    world.kill().await;
    world.start();
    world.through(&bad).await;
    let of_bad: Vec<Record> = world.records().into_iter().filter(|record| record.commit.as_str() == bad).collect();
    let ends: Vec<(Trigger, Outcome)> = of_bad.into_iter().map(|record| (record.trigger, record.outcome)).collect();
    assert_eq!(ends, [(Trigger::NewImage, Outcome::RolledBack)]);
}

#[tokio::test(start_paused = true)]
async fn by_a_restart() {
    let (mut world, first) = World::with_web().await;
    let restart = |at: jiff::Timestamp| {
        let annotations = json!({marks::RESTARTED_AT: format!("{at:.0}")});
        json!({"spec": {"template": {"metadata": {"annotations": annotations}}}})
    };
    // A restart before belay had it is nobody's business, nor one that can't have been.
    for at in [jiff::Timestamp::UNIX_EPOCH, "2999-01-01T00:00:00Z".parse().unwrap()] {
        world.patch(&path_of("web"), "kubectl-rollout", &restart(at)).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
    }
    let at = world.clock.now();
    world.patch(&path_of("web"), "kubectl-rollout", &restart(at)).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    world.kill().await;
    world.start();
    tokio::time::sleep(Duration::from_mins(1)).await;
    world.until("it is through", |source| source.settled).await;
    let others: Vec<Record> = world.records().into_iter().filter(|record| !record.trigger.is_commit()).collect();
    assert_eq!(others.len(), 1, "{others:#?}");
    assert_eq!(others[0].trigger, Trigger::Restart(Some("kubectl-rollout".to_owned())));
    assert_eq!((others[0].commit.as_str(), others[0].outcome), (first.as_str(), Outcome::Complete));
    assert_eq!(others[0].started.as_second(), at.as_second());
    // A restart by a person does not change the wanted state.
    let newest = world.history().newest("shop", &others[0].object).unwrap().unwrap();
    assert!(newest.trigger.is_commit(), "{newest:#?}");
}

#[tokio::test(start_paused = true)]
async fn by_an_autoscaler() {
    let (world, first) = World::with_web().await;
    let autoscaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"}, "spec": {"minReplicas": 1, "maxReplicas": 9,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
    world
        .create("apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "kubectl-create", &autoscaler)
        .await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let scale = format!("{}/scale", path_of("web"));
    let to = |replicas: u32| json!({"spec": {"replicas": replicas}});
    world.patch(&scale, "kubectl", &to(3)).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    // The first of many in a row is reported.
    for replicas in [6, 7, 8] {
        world.patch(&scale, "kube-controller-manager", &to(replicas)).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
    }
    tokio::time::sleep(Duration::from_hours(1)).await;
    world.patch(&scale, "kube-controller-manager", &to(4)).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let others: Vec<Record> = world.records().into_iter().filter(|record| !record.trigger.is_commit()).collect();
    let by = Trigger::Autoscaler(ObjectKey {
        group: "autoscaling".to_owned(),
        kind: "HorizontalPodAutoscaler".to_owned(),
        namespace: Some("default".to_owned()),
        name: "web".to_owned(),
    });
    let told: Vec<&str> = others.iter().map(|record| record.reason.as_ref().unwrap().message.as_str()).collect();
    assert_eq!(told, ["from 3 to 6 replicas", "from 8 to 4 replicas"]);
    assert!(others.iter().all(|record| record.trigger == by && record.commit.as_str() == first), "{others:#?}");
    assert_eq!(world.metrics().rollouts("shop", "autoscaler", "complete"), 2);
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
