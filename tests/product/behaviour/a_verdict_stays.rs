//! Events beside a rollout change no verdict: a workload that recovers too late stays failed, and that is reported;
//! evictions are nobody's fault; scaling in the middle is no failure.

use std::time::Duration;

use belay_core::rollout::{Hold, Outcome};
use serde_json::{Value, json};

use crate::support::daemon::{World, broken, image, path_of};

async fn events(world: &World, reason: &str) -> Vec<String> {
    let events = world.list("api/v1/namespaces/default/events").await;
    let text = |event: &Value| event["message"].as_str().or(event["note"].as_str()).unwrap_or_default().to_owned();
    events.iter().filter(|event| event["reason"] == reason).map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn who_recovers_after_the_deadline_stays_failed_and_that_is_said() {
    let mut world = World::embedded().await;
    world.config.on_failure = belay::config::OnFailure::Report;
    world.with_first_version().await;
    let slow = world.push("web.yaml", &broken("web", "ready-after=100s"), "Slow");
    world.through(&slow).await;
    assert_eq!(world.record(&slow, "Deployment default/web").outcome, Outcome::Failed);
    tokio::time::sleep(Duration::from_mins(10)).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), &live["status"]["availableReplicas"]), ("web:2", &json!(2)));
    assert_eq!(world.record(&slow, "Deployment default/web").outcome, Outcome::Failed, "it stays ruled");
    let told = events(&world, "RolloutRecovered").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("Slow") && told[0].contains("after its deadline"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn evictions_are_waited_out() {
    let (mut world, _) = World::with_web().await;
    let patient = |manifest: String| manifest.replace("  selector:", "  minReadySeconds: 20\n  selector:");
    let second = world.push("web.yaml", &patient(broken("web", "evict-after=5s")), "Second version");
    world.until("it says so", |source| source.under_way.values().any(|way| way.in_the_way.is_some())).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let record = world.record(&second, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::UnderWay, "{record:#?}");
    assert_eq!(Hold::on(&world.get(&path_of("web")).await.unwrap()), None);
    assert!(!events(&world, "RolloutWaiting").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_that_scales_in_the_middle_is_no_failure() {
    let (mut world, _) = World::with_web().await;
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 9}});
    world.create("apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "kubectl", &scaler).await;
    let second = world.push("web.yaml", &broken("web", "ready-after=15s"), "Second version");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    for replicas in [5, 7, 4] {
        tokio::time::sleep(Duration::from_secs(8)).await;
        world.patch(&path_of("web"), "horizontal-pod-autoscaler", &json!({"spec": {"replicas": replicas}})).await;
    }
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((&live["spec"]["replicas"], &live["status"]["availableReplicas"]), (&json!(4), &json!(4)));
}

#[tokio::test(start_paused = true)]
async fn what_somebody_deletes_or_changes_in_the_middle_is_put_right() {
    let (mut world, _) = World::with_web().await;
    let second = world.push("web.yaml", &broken("web", "ready-after=15s"), "Second version");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.delete(&path_of("web")).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let other = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:9"}]}}}});
    world.patch(&path_of("web"), "kubectl-edit", &other).await;
    world.through(&second).await;
    let record = world.record(&second, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), &live["status"]["availableReplicas"]), ("web:2", &json!(2)));
    assert_eq!(Hold::on(&live), None);
}

/// As `kubectl replace --force` does it, while belay does not look: the generations are counted anew.
#[tokio::test(start_paused = true)]
async fn what_is_made_anew_in_the_middle_is_applied_again() {
    let (mut world, _) = World::with_web().await;
    let next = world.push("web.yaml", &broken("web", "ready-after=20s"), "Second version");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    world.stop().await;
    let fresh = world.make_anew(&path_of("web")).await;
    assert_eq!(fresh["metadata"]["generation"], 1);
    world.start();
    world.through(&next).await;
    assert_eq!(world.record(&next, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:2");
}
