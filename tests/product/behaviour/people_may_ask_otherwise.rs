//! Annotations on a manifest or a live object go before the source's settings.

use std::time::Duration;

use belay::config::OnFailure;
use belay_core::rollout::{Hold, Outcome, Trigger, marks};
use serde_json::json;

use crate::support::daemon::{World, broken, config_map, deployment, image, path_of};

fn annotated(manifest: &str, annotation: &str) -> String {
    manifest.replacen("metadata:\n", &format!("metadata:\n  annotations: {{{annotation}}}\n"), 1)
}

/// Suspends the sample Deployment as a person does, or takes it up again.
async fn suspend(world: &World, why: Option<&str>) {
    let annotated = json!({"metadata": {"annotations": {marks::SUSPEND: why}}});
    world.patch(&path_of("web"), "kubectl-annotate", &annotated).await;
}

#[tokio::test(start_paused = true)]
async fn one_object_is_only_reported() {
    let mut world = World::embedded().await;
    let report = |manifest: String| annotated(&manifest, "belay.dev/on-failure: report");
    let good = world.push("web.yaml", &report(deployment("web", "web:1", "")), "First version");
    world.start();
    world.through(&good).await;
    let bad = world.push("web.yaml", &report(broken("web", "never-ready")), "Broken");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::Failed);
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:2");
}

#[tokio::test(start_paused = true)]
async fn one_object_goes_back_in_a_source_that_only_reports() {
    let mut world = World::embedded().await;
    world.config.on_failure = OnFailure::Report;
    let roll_back = |manifest: String| annotated(&manifest, "belay.dev/on-failure: roll-back");
    let good = world.push("web.yaml", &roll_back(deployment("web", "web:1", "")), "First version");
    world.start();
    world.through(&good).await;
    let bad = world.push("web.yaml", &roll_back(broken("web", "never-ready")), "Broken");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    assert!(Hold::on(&world.get(&path_of("web")).await.unwrap()).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_live_object_can_say_it_too() {
    let (mut world, _) = World::with_web().await;
    let report = json!({"metadata": {"annotations": {marks::ON_FAILURE: "report"}}});
    world.patch(&path_of("web"), "kubectl-annotate", &report).await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::Failed);
}

#[tokio::test(start_paused = true)]
async fn what_says_nothing_is_complained_about_at_its_place() {
    let mut world = World::embedded().await;
    let wrong = annotated(&deployment("web", "web:1", ""), "belay.dev/on-failure: rollback");
    let first = world.push("web.yaml", &wrong, "A word that is none");
    world.start();
    world.through(&first).await;
    let record = world.record(&first, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::Rejected);
    let complaint = &record.complaints[0];
    assert_eq!((complaint.place.line, complaint.hint.as_deref()), (4, Some("write report or roll-back")));
    assert_eq!(world.get(&path_of("web")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_object_is_left_alone_until_it_is_taken_up_again() {
    let (mut world, _) = World::with_web().await;
    suspend(&world, Some("an experiment")).await;
    world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 5}})).await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    let record = world.record(&second, "Deployment default/web");
    assert_eq!((record.outcome, record.reason.unwrap().message.as_str()), (Outcome::Suspended, "an experiment"));
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), &live["spec"]["replicas"]), ("web:1", &json!(5)));
    suspend(&world, None).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    world.through(&second).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), &live["spec"]["replicas"]), ("web:2", &json!(2)));
}

/// A rollout that was suspended before it was through, while belay was away, is judged when it is taken up again.
#[tokio::test(start_paused = true)]
async fn what_was_suspended_before_it_was_through_is_judged_after_it() {
    let (mut world, good) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    world.kill().await;
    suspend(&world, Some("let me look")).await;
    world.start();
    world.through(&bad).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:2");
    suspend(&world, None).await;
    world.until("it is held", |source| !source.held.is_empty()).await;
    world.through(&bad).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), marks::annotation(&live, marks::COMMIT)), ("web:1", Some(good.as_str())));
}

/// Nobody watches its kind for the head's sake any more.
#[tokio::test(start_paused = true)]
async fn what_left_while_belay_was_away_is_deleted_when_it_is_taken_up_again() {
    let (mut world, _) = World::with_web().await;
    suspend(&world, Some("let me look")).await;
    world.stop().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    world.repository.remove("web.yaml").write("other.yaml", config_map("other", "1"));
    let gone = world.repository.commit("Away with it");
    world.repository.push();
    for restart in [false, true] {
        if restart {
            world.stop().await;
        }
        world.start();
        world.through(&gone).await;
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert!(world.get(&path_of("web")).await.is_some());
    }
    suspend(&world, None).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.get(&path_of("web")).await, None);
}

/// An object that left the repository meanwhile is deleted then. The commit that took it away is charged with that, also
/// if others have come since.
#[tokio::test(start_paused = true)]
async fn what_was_suspended_when_it_left_is_deleted_after_it() {
    for others_follow in [false, true] {
        let (mut world, _) = World::with_web().await;
        world.stop().await;
        world.config.prune = true;
        world.config.prune_limit = "100%".to_owned();
        world.start();
        suspend(&world, Some("let me look")).await;
        world.repository.remove("web.yaml").write("other.yaml", config_map("other", "1"));
        let gone = world.repository.commit("Away with it");
        world.repository.push();
        world.through(&gone).await;
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert!(world.get(&path_of("web")).await.is_some());
        if others_follow {
            let other = world.push("other.yaml", &config_map("other", "2"), "Another");
            world.through(&other).await;
        }
        suspend(&world, None).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(world.get(&path_of("web")).await, None);
        let of_web = world.records().into_iter().filter(|record| record.object.name == "web").skip(1);
        let ends: Vec<_> = of_web.map(|record| (record.commit.to_string(), record.trigger, record.outcome)).collect();
        let expected = [(Trigger::Commit, Outcome::Suspended), (Trigger::Retry, Outcome::Pruned)];
        let expected = expected.map(|(trigger, outcome)| (gone.clone(), trigger, outcome));
        assert_eq!(ends, expected, "others follow: {others_follow}");
    }
}
