//! The bake time: a rollout that is complete is watched on, and goes back when its pods fail then.

use std::time::Duration;

use belay::config::SourceConfig;
use belay_core::rollout::{ObjectState, Outcome, ReasonCode, Record, StepKind};
use serde_json::json;

use crate::support::daemon::{World, broken, deployment, image, path_of};
use crate::support::workloads::KINDS;

const WEB: &str = "Deployment default/web";

/// Returns a cluster with a bake time of two minutes, and the first version of the sample Deployment live.
async fn world() -> World {
    world_of(&deployment("web", "web:1", ""), |_| ()).await
}

/// Returns the same of another first version, configured otherwise.
async fn world_of(first: &str, configure: impl FnOnce(&mut SourceConfig)) -> World {
    let mut world = World::embedded().await;
    world.config.bake = "2m".parse().unwrap();
    configure(&mut world.config);
    let first = world.push("web.yaml", first, "First version");
    world.start();
    world.through(&first).await;
    world
}

/// Lets an autoscaler ask for more pods than may be made.
async fn ask_for_too_many_pods(world: &World) {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"}, "spec": {"hard": {"pods": "1"}}});
    world.create("api/v1/namespaces/default/resourcequotas", "admin", &quota).await;
    world.patch(&path_of("web"), "autoscaler", &json!({"spec": {"replicas": 3}})).await;
}

async fn live_image(world: &World) -> String {
    image(&world.get(&path_of("web")).await.unwrap()).to_owned()
}

/// Waits until the workload bakes.
async fn until_baking(world: &mut World, commit: &str) {
    let commit = commit.to_owned();
    world
        .until("the workload bakes", move |source| {
            source
                .under_way
                .iter()
                .any(|(key, way)| key.name == "web" && way.outcome == Outcome::Baking && way.commit.as_str() == commit)
        })
        .await;
}

/// Returns the seconds from a record's first step of a kind to its end.
fn seconds(world: &World, record: &Record, from: StepKind) -> i64 {
    let steps = world.history().steps(record.id).unwrap();
    let at = |kind: StepKind| steps.iter().find(|step| step.kind == kind).unwrap_or_else(|| panic!("{steps:#?}")).at;
    at(StepKind::Ended).duration_since(at(from)).as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_completion_goes_back_whatever_the_kind() {
    for kind in KINDS {
        let mut world = world_of(&kind.manifest("web:1", "ready"), |_| ()).await;
        let crashes = r#"crash-after=70s,code=3,log=\"no database\""#;
        let bad = world.push("web.yaml", &kind.manifest("web:2", crashes), "Crashes later");
        world.through(&bad).await;
        let record = world.record(&bad, &kind.object());
        assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
        let reason = record.reason.unwrap();
        assert_eq!(reason.code, ReasonCode::BakeFailed, "{reason:?}");
        assert!(reason.message.contains("within its bake time"), "{reason:?}");
        assert!(reason.message.contains("container app, exit code 3"), "{reason:?}");
        let pods = record.evidence.unwrap().pods;
        assert!(pods.iter().any(|pod| pod.log.iter().any(|line| line.contains("no database"))), "{pods:#?}");
        let live = world.get(&kind.path()).await.unwrap();
        assert_eq!(image(&live), "web:1", "{kind:?}");
        assert!(live["metadata"]["annotations"]["belay.dev/hold"].is_string(), "{live:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_bake_time_it_is_complete() {
    let mut world = world().await;
    let crashes = broken("web", "crash-after=70s")
        .replace("name: web\nspec", "name: web\n  annotations: {belay.dev/bake: 0s}\nspec");
    let bad = world.push("web.yaml", &crashes, "Crashes later");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, WEB).outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_good_version_bakes_for_its_time() {
    let mut world = world().await;
    let good = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    until_baking(&mut world, &good).await;
    let key = world.record(&good, WEB).object;
    assert_eq!(world.status().state_of(&key), ObjectState::Baking);
    assert_eq!(world.record(&good, WEB).outcome, Outcome::Baking);
    world.through(&good).await;
    let record = world.record(&good, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert!((120..=130).contains(&seconds(&world, &record, StepKind::Baking)), "{record:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_workload_may_ask_for_its_own_bake_time() {
    let mut world = World::embedded().await;
    let annotated =
        |manifest: String| manifest.replace("name: web\nspec", "name: web\n  annotations: {belay.dev/bake: 1m}\nspec");
    let first = world.push("web.yaml", &annotated(deployment("web", "web:1", "")), "First version");
    world.start();
    world.through(&first).await;
    let record = world.record(&first, WEB);
    assert!((60..=70).contains(&seconds(&world, &record, StepKind::Baking)), "{record:#?}");
    let bad = world.push("web.yaml", &annotated(broken("web", "unready-after=40s")), "Not ready later");
    world.through(&bad).await;
    let record = world.record(&bad, WEB);
    assert_eq!((record.outcome, record.reason.unwrap().code), (Outcome::RolledBack, ReasonCode::BakeFailed));
    assert_eq!(live_image(&world).await, "web:1");
    let wrong = world.push(
        "web.yaml",
        &deployment("web", "web:3", "")
            .replace("name: web\nspec", "name: web\n  annotations: {belay.dev/bake: soon}\nspec"),
        "A wrong time",
    );
    world.through(&wrong).await;
    let record = world.record(&wrong, WEB);
    assert_eq!(record.outcome, Outcome::Rejected);
    assert!(record.reason.unwrap().message.contains("belay.dev/bake is \"soon\""), "{:#?}", record.complaints);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_not_the_commits_fault() {
    let mut world = world().await;
    let good = world.push("web.yaml", &broken("web", "evict-after=100s"), "Evicted once and again");
    world.through(&good).await;
    assert_eq!(world.record(&good, WEB).outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn pods_for_which_there_is_no_room_are_not_its_fault() {
    let first = deployment("web", "web:1", "");
    let mut world = world_of(&first, |config| config.outage_timeout = "5m".parse().unwrap()).await;
    let second = deployment("web", "web:2", "").replace("  replicas: 2\n", "");
    let good = world.push("web.yaml", &second, "Second version");
    until_baking(&mut world, &good).await;
    ask_for_too_many_pods(&world).await;
    world.through(&good).await;
    let record = world.record(&good, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert_eq!(live_image(&world).await, "web:2");
}

#[tokio::test(start_paused = true)]
async fn a_newer_commit_ends_it_and_only_a_baked_revision_is_good() {
    let mut world = world().await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    until_baking(&mut world, &second).await;
    let bad = world.push("web.yaml", &broken("web", "never-ready").replace("web:2", "web:3"), "Never ready");
    world.through(&bad).await;
    assert_eq!(world.record(&second, WEB).outcome, Outcome::Superseded);
    assert_eq!(world.record(&bad, WEB).outcome, Outcome::RolledBack);
    assert_eq!(live_image(&world).await, "web:1", "the second version has not baked");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_leaves_the_workload_alone_does_not_end_it() {
    let mut world = world().await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    until_baking(&mut world, &second).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let other = world.push("other.yaml", &deployment("other", "web:2", ""), "Another workload");
    world.through(&other).await;
    let record = world.record(&second, WEB);
    assert_eq!(record.outcome, Outcome::Complete);
    assert!((120..=130).contains(&seconds(&world, &record, StepKind::Baking)), "{record:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_leaves_the_template_alone_lets_it_bake_on() {
    let mut world = world().await;
    let crashes = broken("web", "crash-after=130s");
    let second = world.push("web.yaml", &crashes, "Crashes later");
    until_baking(&mut world, &second).await;
    let more = crashes.replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 40");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let third = world.push("web.yaml", &more, "A longer deadline");
    world.through(&third).await;
    let record = world.record(&third, WEB);
    assert_eq!((record.outcome, record.reason.unwrap().code), (Outcome::RolledBack, ReasonCode::BakeFailed));
    assert_eq!(world.record(&second, WEB).outcome, Outcome::Superseded);
    assert_eq!(live_image(&world).await, "web:1");
}

#[tokio::test(start_paused = true)]
async fn a_kill_resumes_it_with_the_time_that_is_left() {
    let mut world = world().await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    until_baking(&mut world, &second).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    world.kill().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.start();
    world.through(&second).await;
    let record = world.record(&second, WEB);
    assert_eq!(record.outcome, Outcome::Complete);
    assert!((120..=140).contains(&seconds(&world, &record, StepKind::Baking)), "{record:#?}");

    // A restart of a pod while belay is not there is found afterwards.
    let bad = world.push("web.yaml", &broken("web", "crash-after=60s").replace("web:2", "web:3"), "Crashes later");
    until_baking(&mut world, &bad).await;
    world.kill().await;
    tokio::time::sleep(Duration::from_secs(75)).await;
    world.start();
    world.through(&bad).await;
    let record = world.record(&bad, WEB);
    assert_eq!((record.outcome, record.reason.unwrap().code), (Outcome::RolledBack, ReasonCode::BakeFailed));
    assert_eq!(live_image(&world).await, "web:2");
}

#[tokio::test(start_paused = true)]
async fn a_revert_has_no_bake_time_within_the_window() {
    let first = deployment("web", "web:1", "");
    let mut world = world_of(&first, |config| config.rollback_window = "30m".parse().unwrap()).await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    let revert = world.push("web.yaml", &deployment("web", "web:1", ""), "Revert");
    world.through(&revert).await;
    let record = world.record(&revert, WEB);
    assert_eq!(record.outcome, Outcome::Complete);
    let steps = world.history().steps(record.id).unwrap();
    assert!(steps.iter().all(|step| step.kind != StepKind::Baking), "{steps:#?}");
    // Later it bakes like any other.
    tokio::time::sleep(Duration::from_mins(40)).await;
    let again = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version again");
    world.through(&again).await;
    let steps = world.history().steps(world.record(&again, WEB).id).unwrap();
    assert!(steps.iter().any(|step| step.kind == StepKind::Baking), "{steps:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_bakes_too_within_its_budget() {
    let mut world = world_of(&deployment("web", "web:1", ""), |config| {
        config.rollback_window = "0s".parse().unwrap();
        config.rollback_budget = "1m".parse().unwrap();
    })
    .await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Never ready");
    world.through(&bad).await;
    let record = world.record(&bad, WEB);
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    assert!((60..=75).contains(&seconds(&world, &record, StepKind::Baking)), "{record:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_a_stateful_set_that_is_deleted_has_its_time_to_come_back() {
    let kind = KINDS[1];
    let slow = |image: &str| kind.manifest(image, "ready-after=70s").replace("\"30\"", "\"300\"");
    let mut world = world_of(&slow("web:1"), |config| config.bake = "6m".parse().unwrap()).await;
    let second = world.push("web.yaml", &slow("web:2"), "Second version");
    until_baking(&mut world, &second).await;
    world.delete("api/v1/namespaces/default/pods/web-0").await;
    world.through(&second).await;
    assert_eq!(world.record(&second, &kind.object()).outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_kill_makes_missing_pods_nobodys_fault() {
    let mut world = world().await;
    let second = deployment("web", "web:2", "").replace("  replicas: 2\n", "");
    let good = world.push("web.yaml", &second, "Second version");
    until_baking(&mut world, &good).await;
    ask_for_too_many_pods(&world).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.kill().await;
    world.start();
    world.through(&good).await;
    assert_eq!(world.record(&good, WEB).outcome, Outcome::Complete);
    assert_eq!(live_image(&world).await, "web:2");
}

#[tokio::test(start_paused = true)]
async fn a_way_back_to_what_ran_a_moment_ago_is_not_slow() {
    for kind in KINDS {
        let first = kind.manifest("web:1", "ready");
        let mut world = world_of(&first, |config| config.rollback_window = "1m".parse().unwrap()).await;
        tokio::time::sleep(Duration::from_mins(10)).await;
        let bad = world.push("web.yaml", &kind.manifest("web:2", "crash-after=50s"), "Crashes later");
        world.through(&bad).await;
        let record = world.record(&bad, &kind.object());
        assert_eq!(record.outcome, Outcome::RolledBack, "{kind:?}");
        let took = seconds(&world, &record, StepKind::WentBack);
        assert!(took < 60, "{kind:?}: {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn people_may_interfere() {
    let mut world = world().await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    until_baking(&mut world, &second).await;
    world.undo_to("web:1").await;
    world.through(&second).await;
    let record = world.record(&second, WEB);
    assert_eq!((record.outcome, record.reason.unwrap().code), (Outcome::RolledBack, ReasonCode::UndoneByHand));
    assert_eq!(live_image(&world).await, "web:1");

    let third = world.push("web.yaml", &deployment("web", "web:3", ""), "Third version");
    until_baking(&mut world, &third).await;
    let edited = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:9"}]}}}});
    world.patch(&path_of("web"), "a-person", &edited).await;
    world.through(&third).await;
    assert_eq!(world.record(&third, WEB).outcome, Outcome::Complete);
    assert_eq!(live_image(&world).await, "web:3");

    let fourth = world.push("web.yaml", &deployment("web", "web:4", ""), "Fourth version");
    until_baking(&mut world, &fourth).await;
    let suspended = json!({"metadata": {"annotations": {"belay.dev/suspend": "I look at it"}}});
    world.patch(&path_of("web"), "a-person", &suspended).await;
    world.through(&fourth).await;
    assert_eq!(world.record(&fourth, WEB).outcome, Outcome::Suspended);
    assert_eq!(live_image(&world).await, "web:4");
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_waits_until_it_has_baked() {
    let mut world = world().await;
    world.repository.write("web.yaml", deployment("web", "web:2", ""));
    let after = "name: other\n  annotations: {belay.dev/after: deployment/web}\nspec";
    let other = deployment("other", "web:1", "").replace("name: other\nspec", after);
    let second = world.push("other.yaml", &other, "Second version, and another that waits for it");
    until_baking(&mut world, &second).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.get(&path_of("other")).await.is_none());
    world.through(&second).await;
    assert!(world.get(&path_of("other")).await.is_some());
}
