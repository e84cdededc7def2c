//! A source is `synced` only while all of it is: what is rejected, failed, held, waiting or orphaned is told in the status
//! and over HTTP by one word each, until its cause has left.

use std::time::Duration;

use belay::daemon::SourceStatus;
use belay::history::ObjectStanding;
use belay_core::rollout::{ObjectState, Outcome, SourceState};

use crate::support::daemon::{World, broken, config_map, deployment};

/// Returns the one object of which something is told, with its state and why.
fn only(source: &SourceStatus) -> (String, ObjectState, String) {
    assert_eq!(source.ended.len(), 1, "{source:#?}");
    let (key, ObjectStanding { reason, .. }) = source.ended.iter().next().unwrap();
    let reason = reason.as_ref().map(ToString::to_string).unwrap_or_default();
    (key.to_string(), source.state_of(key), reason)
}

/// Commands read the state that the daemon publishes.
fn noted(world: &World) -> Vec<(String, ObjectState)> {
    let noted = world.history().object_standings("shop").unwrap();
    noted.into_iter().map(|(key, standing)| (key.to_string(), standing.state)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_rejected_degrades_its_source_until_it_is_mended_or_gone() {
    let (mut world, _) = World::with_web().await;
    assert_eq!((world.status().state(), world.status().summary()), (SourceState::Synced, "synced (1 complete)".into()));
    world.repository.write("settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {nam: settings}\n");
    let bad = world.push("other.yaml", "kind: [ConfigMap\n", "Two that are wrong");
    world.through(&bad).await;
    let status = world.status();
    assert_eq!(status.state(), SourceState::Degraded, "{status:#?}");
    assert_eq!(status.counts().of(ObjectState::Rejected), 2, "{status:#?}");
    assert_eq!(status.summary(), "degraded (2 rejected, 1 complete)");
    assert_eq!(noted(&world).len(), 2);
    // A restart knows it still.
    world.stop().await;
    world.start();
    world.through(&bad).await;
    assert_eq!(world.status().summary(), "degraded (2 rejected, 1 complete)");
    // One is mended, the other leaves.
    world.repository.remove("other.yaml");
    let mended = world.push("settings.yaml", &config_map("settings", "1"), "Mend one, take the other away");
    world.through(&mended).await;
    assert_eq!(world.status().summary(), "synced (2 complete)", "{:#?}", world.status());
    assert_eq!(noted(&world), []);
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_the_server_refuses_is_rejected_as_well() {
    let (mut world, _) = World::with_web().await;
    let bad = world.push(
        "web.yaml",
        &deployment("web", "web:2", "  replicas: -1\n").replacen("replicas: 2", "x: y", 1),
        "No",
    );
    world.through(&bad).await;
    let (key, state, reason) = only(&world.status());
    assert_eq!((key.as_str(), state), ("Deployment default/web", ObjectState::Rejected), "{reason}");
    assert_eq!(world.status().state(), SourceState::Degraded);
}

#[tokio::test(start_paused = true)]
async fn what_went_back_is_held_and_the_history_says_rolled_back() {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    world.until("the hold is seen", |source| !source.held.is_empty()).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome.word(), "rolled-back");
    assert_eq!(world.status().summary(), "degraded (1 held)");
    let fixed = world.push("web.yaml", &deployment("web", "web:3", ""), "Fix");
    world.through(&fixed).await;
    world.until("nothing is held", |source| source.held.is_empty()).await;
    assert_eq!(world.status().summary(), "synced (1 complete)");
}

/// A missing thing is waited for under a record, which names it; nothing of it stays when the manifest leaves.
#[tokio::test(start_paused = true)]
async fn what_waits_says_for_what_until_it_leaves() {
    let (mut world, _) = World::with_web().await;
    let lost = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: later}\n";
    let commit = world.push("settings.yaml", lost, "Into a namespace that is not there");
    world.until("it waits", |source| source.under_way.values().any(|way| way.message.contains("later"))).await;
    let record = world.record(&commit, "ConfigMap later/settings");
    assert_eq!((record.outcome, record.outcome.word()), (Outcome::Waiting, "waiting"));
    let steps = world.history().steps(record.id).unwrap();
    assert!(steps.last().unwrap().detail.contains("later"), "{steps:#?}");
    assert_eq!(world.status().summary(), "progressing (1 waiting, 1 complete)");
    // Asking again and again, as long as `outage_timeout` lasts, writes it down once.
    tokio::time::sleep(std::time::Duration::from_mins(8)).await;
    assert_eq!(world.history().steps(record.id).unwrap().len(), steps.len());
    world.repository.remove("settings.yaml");
    let gone = world.repository.commit("Take it away");
    world.repository.push();
    world.through(&gone).await;
    assert_eq!(world.status().summary(), "synced (1 complete)", "{:#?}", world.status());
    assert!(world.status().obstacles.trouble.is_empty(), "{:#?}", world.status().obstacles.trouble);
}

#[tokio::test(start_paused = true)]
async fn what_left_with_pruning_off_is_orphaned_until_it_is_gone() {
    let mut world = World::embedded().await;
    world.with_maps(2).await;
    world.repository.remove("0.yaml");
    let gone = world.repository.commit("Away with it");
    world.repository.push();
    world.through(&gone).await;
    let (key, state, reason) = only(&world.status());
    assert_eq!((key.as_str(), state), ("ConfigMap default/map-0", ObjectState::Orphaned));
    assert!(reason.contains("pruning is off"), "{reason}");
    assert_eq!(world.record(&gone, "ConfigMap default/map-0").outcome, Outcome::Orphaned);
    assert_eq!(world.status().summary(), "synced (1 complete, 1 orphaned)");
    world.stop().await;
    world.start();
    world.through(&gone).await;
    assert_eq!(noted(&world), [("ConfigMap default/map-0".to_owned(), ObjectState::Orphaned)]);
    // Somebody makes it again as it was.
    world.make_anew("api/v1/namespaces/default/configmaps/map-0").await;
    world.until("it is told again", |source| source.summary() == "synced (1 complete, 1 orphaned)").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(noted(&world), [("ConfigMap default/map-0".to_owned(), ObjectState::Orphaned)]);
    world.delete("api/v1/namespaces/default/configmaps/map-0").await;
    world.until("nothing is told of it", |source| source.ended.is_empty()).await;
    assert_eq!(noted(&world), []);
}
