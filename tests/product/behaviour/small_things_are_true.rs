//! Small things that are said of what happened are true: who changed something, and how often.

use std::time::Duration;

use belay_core::rollout::{Outcome, Trigger};
use serde_json::json;

use crate::support::daemon::{World, config_map, path_of};
use crate::support::workloads::KINDS;

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
