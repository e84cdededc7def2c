//! `fail_fast`: belay does not wait for the deadline once the pods show that they can't start.

use belay_core::rollout::Outcome;

use crate::support::daemon::{World, broken, deployment, image, path_of};

const DEADLINE: i64 = 600;

/// Returns how the second version ends, after how many seconds, and why.
async fn after(fail_fast: bool, second: &str) -> (Outcome, i64, String) {
    let mut world = World::embedded().await;
    world.config.fail_fast = fail_fast;
    let long = |manifest: &str| {
        manifest.replace("progressDeadlineSeconds: 30", &format!("progressDeadlineSeconds: {DEADLINE}"))
    };
    let good = world.push("web.yaml", &long(&deployment("web", "web:1", "")), "First version");
    world.start();
    world.through(&good).await;
    let bad = world.push("web.yaml", &long(second), "Second version");
    world.through(&bad).await;
    let record = world.record(&bad, "Deployment default/web");
    let steps = world.history().steps(record.id).unwrap();
    let ruled = steps.iter().find(|step| step.kind == belay_core::rollout::StepKind::Verdict);
    let took = ruled.map_or(0, |step| step.at.duration_since(record.started).as_secs());
    if record.outcome == Outcome::RolledBack {
        assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
    }
    (record.outcome, took, record.reason.map(|reason| reason.code.to_string()).unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn an_image_with_an_impossible_name_at_once() {
    let (outcome, took, code) = after(true, &deployment("web", "WEB::1", "")).await;
    assert_eq!((outcome, code.as_str()), (Outcome::RolledBack, "InvalidImageName"));
    assert!(took <= 15, "{took} s");
}

#[tokio::test(start_paused = true)]
async fn configuration_that_is_not_there_at_once() {
    let missing =
        format!("{}        envFrom:\n        - configMapRef: {{name: nowhere}}\n", deployment("web", "web:2", ""));
    let (outcome, took, code) = after(true, &missing).await;
    assert_eq!((outcome, code.as_str()), (Outcome::RolledBack, "CreateContainerConfigError"));
    assert!(took <= 15, "{took} s");
}

#[tokio::test(start_paused = true)]
async fn crashes_after_three_restarts() {
    let (outcome, took, code) = after(true, &broken("web", "crash-after=1s")).await;
    assert_eq!((outcome, code.as_str()), (Outcome::RolledBack, "CrashLoopBackOff"));
    assert!((30..120).contains(&took), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn pulls_that_fail_for_a_minute() {
    let (outcome, took, _) = after(true, &broken("web", "image-pull-error")).await;
    assert_eq!(outcome, Outcome::RolledBack);
    assert!((60..90).contains(&took), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn pulls_that_heal_are_waited_for() {
    let (outcome, ..) = after(true, &broken("web", "image-pull-error,for=15s")).await;
    assert_eq!(outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn what_only_is_not_ready_has_its_whole_deadline() {
    let (outcome, took, _) = after(true, &broken("web", "never-ready")).await;
    assert_eq!(outcome, Outcome::RolledBack);
    assert!(took >= DEADLINE, "{took} s");
}

#[tokio::test(start_paused = true)]
async fn not_where_nobody_asked() {
    let (outcome, took, _) = after(false, &broken("web", "crash-after=1s")).await;
    assert_eq!(outcome, Outcome::RolledBack);
    assert!(took >= DEADLINE, "{took} s");
}
