//! A revision that stopped being well while it was the current one is no last good revision.

use std::time::Duration;

use belay_core::rollout::{Hold, Outcome, StepKind};
use serde_json::{Value, json};

use crate::support::daemon::{World, broken, deployment, image, path_of};

fn crashing() -> String {
    broken("web", "crash-after=3s")
}

#[tokio::test(start_paused = true)]
async fn belay_goes_further_back() {
    for restarted in [false, true] {
        let (mut world, _) = World::with_web().await;
        let crashing = world.push("web.yaml", &crashing(), "Crashes when it has been ready for a moment");
        world.through(&crashing).await;
        let record = world.record(&crashing, "Deployment default/web");
        assert_eq!(record.outcome, Outcome::Complete, "it was complete for a moment");
        tokio::time::sleep(Duration::from_mins(2)).await;
        if restarted {
            world.stop().await;
            world.start();
        }
        let third = broken("web", "never-ready").replace("web:2", "web:3");
        let third = world.push("web.yaml", &third, "Fails");
        world.through(&third).await;
        let live = world.get(&path_of("web")).await.unwrap();
        assert_eq!((image(&live), Hold::on(&live).is_some()), ("web:1", true));
        assert_eq!(world.record(&third, "Deployment default/web").outcome, Outcome::RolledBack);
        let steps = world.history().steps(record.id).unwrap();
        assert!(steps.iter().any(|step| step.kind == StepKind::Unwell), "{steps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn or_says_that_there_is_nothing_to_go_back_to() {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &crashing(), "Crashes when it has been ready for a moment");
    world.start();
    world.through(&first).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let second = broken("web", "never-ready").replace("web:2", "web:3");
    let second = world.push("web.yaml", &second, "Fails");
    world.through(&second).await;
    let record = world.record(&second, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::Failed, "{record:#?}");
    assert!(record.reason.unwrap().message.contains("was not well when it was replaced"));
}

/// A version that waited for another workload, which failed, was in Git and never in the cluster.
#[tokio::test(start_paused = true)]
async fn nor_to_what_never_ran() {
    let mut world = World::embedded().await;
    let late = |manifest: &str| {
        manifest.replacen("metadata:\n", "metadata:\n  annotations: {belay.dev/after: deployment/db}\n", 1)
    };
    let fails = |image: &str, fate: &str| late(&broken("late", fate).replace("web:2", image));
    let first = late(&deployment("late", "late:1", ""));
    world.repository.write("db.yaml", broken("db", "never-ready")).write("late.yaml", first);
    let never = world.repository.commit("Its dependency fails");
    world.repository.push();
    world.start();
    world.through(&never).await;
    assert_eq!(world.record(&never, "Deployment default/late").outcome, Outcome::Skipped);
    world
        .repository
        .write("db.yaml", deployment("db", "db:3", ""))
        .write("late.yaml", fails("late:2", "crash-after=0s"));
    let unwell = world.repository.commit("Its dependency is mended");
    world.repository.push();
    world.until("it is under way", |source| source.under_way.keys().any(|key| key.name == "late")).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let bad = world.push("late.yaml", &fails("late:3", "never-ready"), "Fails, too");
    world.through(&bad).await;
    let record = world.record(&bad, "Deployment default/late");
    assert_eq!(record.outcome, Outcome::Failed, "{record:#?}");
    assert_eq!(world.record(&unwell, "Deployment default/late").outcome, Outcome::Superseded);
    assert_eq!(image(&world.get(&path_of("late")).await.unwrap()), "late:3", "it is left as it is");
}

/// A revision that nobody has judged, because a newer commit came too soon, is judged by its pods.
#[tokio::test(start_paused = true)]
async fn though_it_was_replaced_before_it_was_judged() {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &broken("web", "crash-after=0s"), "Crashes");
    world.start();
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let second = broken("web", "never-ready").replace("web:2", "web:3");
    let second = world.push("web.yaml", &second, "Fails");
    world.through(&second).await;
    let (first, second) = [&first, &second].map(|commit| world.record(commit, "Deployment default/web")).into();
    assert_eq!((first.outcome, second.outcome), (Outcome::Superseded, Outcome::Failed), "{second:#?}");
    assert!(second.reason.unwrap().message.contains("was not well when it was replaced"));
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:3", "it is left as it is");
}

/// Nor has the history a record of its rollout, only of a suspension after that.
#[tokio::test(start_paused = true)]
async fn also_where_the_history_was_lost_and_it_was_suspended() {
    let (mut world, _) = World::with_web().await;
    let crashing = world.push("web.yaml", &broken("web", "crash-after=0s"), "Crashes");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.stop().await;
    std::fs::remove_dir_all(world.repository.beside("state")).unwrap();
    world.start();
    world.until("it is taken up", |source| !source.under_way.is_empty()).await;
    let suspend = |why: Value| json!({"metadata": {"annotations": {"belay.dev/suspend": why}}});
    world.patch(&path_of("web"), "kubectl-annotate", &suspend(json!("an incident"))).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let third = broken("web", "never-ready").replace("web:2", "web:3");
    let third = world.push("web.yaml", &third, "Fails");
    world.through(&third).await;
    world.patch(&path_of("web"), "kubectl-annotate", &suspend(Value::Null)).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    world.through(&third).await;
    assert_eq!(world.record(&crashing, "Deployment default/web").outcome, Outcome::Suspended);
    let live = world.get(&path_of("web")).await.unwrap();
    assert_ne!(image(&live), "web:2", "{:#?}", world.records());
}

/// A commit that is taken back before it is applied leaves what there was, under another commit.
#[tokio::test(start_paused = true)]
async fn whichever_commit_brought_it_last() {
    let after = |text: String| {
        text.replacen("  name: api\n", "  name: api\n  annotations: {belay.dev/after: deployment/web}\n", 1)
    };
    let (mut world, _) = World::with_web().await;
    let first = world.push("api.yaml", &after(deployment("api", "api:1", "")), "First version of the other");
    world.through(&first).await;
    let crashing = after(broken("api", "crash-after=3s"));
    let second = world.push("api.yaml", &crashing, "Crashes when it has been ready for a moment");
    world.through(&second).await;
    world.repository.write("web.yaml", deployment("web", "web:2", ""));
    let third = world.push("api.yaml", &after(deployment("api", "api:3", "")), "Waits for the other");
    world.until("it waits", |source| source.under_way.len() == 2).await;
    world.repository.write("web.yaml", deployment("web", "web:1", ""));
    let fourth = world.push("api.yaml", &crashing, "As it was");
    world.through(&fourth).await;
    assert_eq!(world.record(&third, "Deployment default/api").outcome, Outcome::Superseded);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let fails = after(broken("api", "never-ready").replace("web:2", "api:5"));
    let fails = world.push("api.yaml", &fails, "Fails");
    world.through(&fails).await;
    assert_eq!(world.record(&fails, "Deployment default/api").outcome, Outcome::RolledBack);
    assert_eq!(image(&world.get(&path_of("api")).await.unwrap()), "api:1");
}

/// An eviction, or a person who deletes pods, says nothing against it.
#[tokio::test(start_paused = true)]
async fn what_others_did_to_it_does_not_count() {
    let (mut world, _) = World::with_web().await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    for pod in world.list("api/v1/namespaces/default/pods").await {
        world.delete(&format!("api/v1/namespaces/default/pods/{}", pod["metadata"]["name"].as_str().unwrap())).await;
    }
    let third = broken("web", "never-ready").replace("web:2", "web:3");
    let third = world.push("web.yaml", &third, "Fails");
    world.through(&third).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:2");
}

/// A pod that crashes every few minutes is ready in between. A daemon that has not seen it crash doubts it for a while.
#[tokio::test(start_paused = true)]
async fn a_restart_forgets_no_crash() {
    let (mut world, _) = World::with_web().await;
    let crashing =
        world.push("web.yaml", &broken("web", "crash-after=4m"), "Crashes when it has been ready for a while");
    world.through(&crashing).await;
    let complete = |world: &World| world.status().settled;
    tokio::time::sleep(Duration::from_mins(14)).await;
    assert!(complete(&world));
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(live["status"]["readyReplicas"], live["spec"]["replicas"], "it is ready again");
    world.stop().await;
    world.start();
    let third = broken("web", "never-ready").replace("web:2", "web:3");
    let third = world.push("web.yaml", &third, "Fails");
    world.through(&third).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
}
