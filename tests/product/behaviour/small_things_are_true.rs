//! Small things that are said of what happened are true: who changed something, how often, how long it took.

use std::time::Duration;

use belay::clock::Clock;
use belay_core::rollout::{Hold, Outcome, SourceState, Trigger};
use jiff::SignedDuration;
use serde_json::json;

use crate::support::daemon::{WIDGETS, World, config_map, deployment, image, path_of};
use crate::support::workloads::{KINDS, Kind};

/// `belay retry` in the middle of a rollback.
#[tokio::test(start_paused = true)]
async fn a_retry_on_the_way_back_is_nobodys_drift() {
    for kind in KINDS {
        let mut world = World::embedded().await;
        let first = world.push("web.yaml", &kind.slowly("web:1", "ready-after=10s"), "First version");
        world.start();
        world.through(&first).await;
        let bad = world.push("web.yaml", &kind.slowly("web:2", "never-ready"), "Broken");
        world
            .until("it goes back", |source| source.under_way.values().any(|way| way.outcome == Outcome::RollingBack))
            .await;
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if Hold::on(&world.get(&kind.path()).await.unwrap()).is_some() {
                break;
            }
        }
        let note = json!({"belay.dev/hold": null, "belay.dev/note": "{\"by\": \"ada\", \"text\": \"again\"}"});
        world.patch(&kind.path(), "belay", &json!({"metadata": {"annotations": note}})).await;
        tokio::time::sleep(Duration::from_mins(6)).await;
        world.through(&bad).await;
        let records = world.records();
        let drift: Vec<_> = records.iter().filter(|record| matches!(record.trigger, Trigger::Drift(_))).collect();
        assert!(drift.is_empty(), "{kind:?}: {drift:#?}");
        assert!(records.iter().any(|record| record.trigger == Trigger::Retry), "{kind:?}: {records:#?}");
    }
}

/// What is put right was changed by somebody, also if the object does not say by whom.
#[tokio::test(start_paused = true)]
async fn drift_has_a_name() {
    let (mut world, first) = World::with_web().await;
    let map = world.push("settings.yaml", &config_map("settings", "1"), "Settings");
    world.through(&map).await;
    world.delete(&path_of("web")).await;
    world.delete("api/v1/namespaces/default/configmaps/settings").await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    world
        .patch(
            &path_of("web"),
            "",
            &json!({"spec": {"minReadySeconds": 3, "template": {"metadata": {"labels": {"a": "b"}}}}}),
        )
        .await;
    let nobody = json!({"data": {"A": "2"}, "metadata": {"managedFields": [{}]}});
    world.patch("api/v1/namespaces/default/configmaps/settings", "", &nobody).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    world.until("all is quiet", |source| source.settled).await;
    let records = world.records();
    let by = records.iter().filter_map(|record| match &record.trigger {
        Trigger::Drift(by) => Some((record.object.to_string(), by.clone())),
        _ => None,
    });
    let by: Vec<(String, String)> = by.collect();
    assert!(by.len() >= 3, "{first}: {by:?}");
    assert!(by.iter().all(|(_, by)| !by.trim().is_empty()), "{by:?}");
}

/// One object that leaves has one record that says so, also where belay is killed and starts again.
#[tokio::test(start_paused = true)]
async fn what_is_orphaned_is_so_once() {
    for kind in KINDS {
        let mut world = World::embedded().await;
        world.repository.write("settings.yaml", config_map("settings", "1"));
        world.repository.write("web.yaml", kind.manifest("web:1", "ready"));
        world.with_all_of_them().await;
        world.repository.remove("web.yaml");
        let leaves = world.repository.commit("It leaves");
        world.repository.push();
        world.through(&leaves).await;
        for _ in 0..2 {
            world.kill().await;
            world.start();
            tokio::time::sleep(Duration::from_mins(1)).await;
            world.patch(&kind.path(), "kubectl", &json!({"metadata": {"labels": {"a": "b"}}})).await;
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
        let records = world.records();
        let own = records.iter().filter(|record| record.object.to_string() == kind.object());
        let outcomes: Vec<Outcome> = own.map(|record| record.outcome).collect();
        assert_eq!(outcomes, [Outcome::Complete, Outcome::Orphaned], "{kind:?}: {records:#?}");
    }
}

/// With pruning off, the manifest of a rollout that fails leaves in the middle of it: the workload is not left half-way.
#[tokio::test(start_paused = true)]
async fn what_leaves_in_the_middle_is_not_left_half_way() {
    for (kind, is_killed) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let case = format!("{} killed: {is_killed}", kind.name);
        let mut world = World::embedded().await;
        world.repository.write("settings.yaml", config_map("settings", "1"));
        world.repository.write("web.yaml", kind.manifest("web:1", "ready"));
        world.with_all_of_them().await;
        let bad = world.push("web.yaml", &kind.manifest("web:2", "never-ready"), "Broken");
        world.until("it is under way", |source| !source.under_way.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.repository.remove("web.yaml");
        let leaves = world.repository.commit("It leaves");
        world.repository.push();
        if is_killed {
            world.kill().await;
            world.start();
        }
        world.through(&leaves).await;
        tokio::time::sleep(Duration::from_mins(6)).await;
        world.through(&leaves).await;
        let live = world.get(&kind.path()).await.unwrap();
        assert_eq!(image(&live), "web:1", "{case}: {:#?}", world.records());
        let pods = world.list("api/v1/namespaces/default/pods").await;
        assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "web:1"), "{case}");
        assert_eq!(world.record(&bad, &kind.object()).outcome, Outcome::RolledBack, "{case}: {:#?}", world.records());
        assert_ne!(world.status().state(), SourceState::Synced, "{case}: {}", world.status().summary());
    }
}

async fn is_down(world: &World, kind: Kind) -> bool {
    let live = world.get(&kind.path()).await.unwrap();
    let ready = live["status"]["readyReplicas"].as_i64().or(live["status"]["numberReady"].as_i64());
    ready.unwrap_or_default() == 0
}

/// All pods of a workload crash after it was complete: that is no rollout, and nobody calls the source `synced`.
#[tokio::test(start_paused = true)]
async fn what_crashes_after_it_was_complete_is_said() {
    for kind in KINDS {
        let mut world = World::embedded().await;
        let crashes = kind.manifest("web:1", "ready,crash-after=60s");
        let first = world.push("web.yaml", &crashes, "First version");
        world.start();
        world.through(&first).await;
        assert_eq!(world.record(&first, &kind.object()).outcome, Outcome::Complete, "{kind:?}");
        world.until("it is told", |source| source.state() == SourceState::Progressing).await;
        tokio::time::sleep(Duration::from_mins(20)).await;
        let mut wrong = Vec::new();
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_secs(15)).await;
            // Its controller reports it, and belay hears that, one after the other.
            if is_down(&world, kind).await && world.status().state() == SourceState::Synced {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if is_down(&world, kind).await && world.status().state() == SourceState::Synced {
                    wrong.push(world.status().summary());
                }
            }
        }
        assert!(wrong.is_empty(), "{kind:?}: {wrong:?}");
        assert_eq!(world.record(&first, &kind.object()).outcome, Outcome::Complete, "{kind:?}");
    }
}

/// A definition that is not in the repository is removed, and comes back: its objects wait for it meanwhile, and nothing else
/// is in the way.
#[tokio::test(start_paused = true)]
async fn a_foreign_definition_that_goes_and_comes_back_blocks_nothing() {
    let mut world = World::embedded().await;
    let definitions = "apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let widgets: serde_json::Value = serde_yaml::from_str(WIDGETS).unwrap();
    world.create(definitions, "kubectl", &widgets).await;
    world.repository.write("web.yaml", deployment("web", "web:1", ""));
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one}\nspec: {size: 1}\n";
    world.repository.write("widget.yaml", widget);
    world.with_all_of_them().await;
    world.delete(&format!("{definitions}/widgets.example.com")).await;
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (state, summary) = (world.status().state(), world.status().summary());
        assert_ne!(state, SourceState::Blocked, "{summary}: {:#?}", world.status());
    }
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.until("it is rolled out", |source| source.planned.as_ref().is_some_and(|head| head.as_str() == second)).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
    world.create(definitions, "kubectl", &widgets).await;
    tokio::time::sleep(Duration::from_mins(12)).await;
    let live = world.get("apis/example.com/v1/namespaces/default/widgets/one").await.expect("it is made anew");
    assert_eq!(live["spec"]["size"], 1);
    world.until("all is well", |source| source.state() == SourceState::Synced).await;
}

/// A clock that is set while a rollout is under way makes it neither longer nor shorter.
#[tokio::test(start_paused = true)]
async fn a_jump_of_the_clock_takes_no_time() {
    for (kind, seconds) in KINDS.into_iter().flat_map(|kind| [(kind, 86_400), (kind, -7200)]) {
        let mut world = World::embedded().await;
        // The clock of belay's machine alone.
        world.clock = Clock::tokio(world.clock.now());
        let first = world.push("web.yaml", &kind.manifest("web:1", "ready"), "First version");
        world.start();
        world.through(&first).await;
        let second = world.push("web.yaml", &kind.manifest("web:2", "ready-after=15s"), "Second version");
        world.until("it is under way", |source| !source.under_way.is_empty()).await;
        world.clock.jump(seconds);
        world.through(&second).await;
        let record = world.record(&second, &kind.object());
        let took = record.ended.unwrap().duration_since(record.started);
        let right = SignedDuration::from_secs(10)..SignedDuration::from_secs(120);
        assert!(right.contains(&took), "{kind:?} {seconds}: {took:?} {record:#?}");
    }
}
