//! A workload that is suspended during its rollout is left as it is, and goes on when it is taken up again.

use std::time::Duration;

use belay::config::OnFailure;
use belay::daemon::SourceStatus;
use belay_core::rollout::{Hold, Outcome, Record, SourceState};
use serde_json::{Value, json};

use crate::support::daemon::{World, broken, config_map, deployment, image, path_of};
use crate::support::workloads::{KINDS, Kind};

const SUSPEND: &str = "belay.dev/suspend";

async fn annotate(world: &World, path: &str, value: Value) {
    world.patch(path, "kubectl-annotate", &json!({"metadata": {"annotations": {SUSPEND: value}}})).await;
}

/// Waits, and sees that nothing about the object changes and no pod goes.
async fn stays(world: &World, path: &str) {
    tokio::time::sleep(Duration::from_secs(10)).await;
    let look = async || {
        let live = world.get(path).await.unwrap();
        let pods = world.list("api/v1/namespaces/default/pods").await;
        let uids: Vec<String> = pods.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect();
        (live["spec"].clone(), live["metadata"]["annotations"].clone(), uids)
    };
    let before = look().await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(look().await, before, "{path}");
}

/// Returns the rollout of a version that fails is under way.
async fn under_way(kind: Kind) -> (World, String) {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &kind.manifest("web:1", "ready"), "First version");
    world.start();
    world.through(&first).await;
    let bad = world.push("web.yaml", &kind.manifest("web:2", "never-ready"), "Broken");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    (world, bad)
}

#[tokio::test(start_paused = true)]
async fn it_is_not_taken_back_by_its_deadline() {
    for kind in KINDS {
        let (mut world, bad) = under_way(kind).await;
        annotate(&world, &kind.path(), json!("by Ann")).await;
        stays(&world, &kind.path()).await;
        let record = world.record(&bad, &kind.object());
        assert_eq!(record.outcome, Outcome::Suspended, "{kind:?}: {record:#?}");
        assert_eq!(record.reason.unwrap().message, "by Ann");
        // Also by the next daemon.
        world.kill().await;
        world.start();
        stays(&world, &kind.path()).await;
        annotate(&world, &kind.path(), Value::Null).await;
        world.until("it is taken back", |source| source.settled && !source.held.is_empty()).await;
        let live = world.get(&kind.path()).await.unwrap();
        assert_eq!((image(&live), Hold::on(&live).unwrap().commit.as_str()), ("web:1", bad.as_str()), "{kind:?}");
    }
}

/// Nothing is synced of which the head is not applied.
#[tokio::test(start_paused = true)]
async fn its_source_is_not_synced_until_it_is_taken_up_again() {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.through(&first).await;
    let published = |source: &SourceStatus| (source.state(), source.counts().to_string());
    assert_eq!(published(&world.status()), (SourceState::Synced, "1 complete".to_owned()));
    annotate(&world, &path_of("web"), json!("by Ann")).await;
    world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    stays(&world, &path_of("web")).await;
    assert_eq!(published(&world.status()), (SourceState::Progressing, "1 suspended".to_owned()));
    // The next daemon says so, too.
    world.kill().await;
    world.start();
    stays(&world, &path_of("web")).await;
    assert_eq!(published(&world.status()), (SourceState::Progressing, "1 suspended".to_owned()));
    annotate(&world, &path_of("web"), Value::Null).await;
    world.until("it is taken up again", |source| source.state() == SourceState::Synced).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:2");
    // Somebody brings by hand what the repository says afterwards: nothing is left to be done, at the next start either.
    annotate(&world, &path_of("web"), json!("by Ann")).await;
    let by_hand = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:3"}]}}}});
    world.patch(&path_of("web"), "kubectl-edit", &by_hand).await;
    world.push("web.yaml", &deployment("web", "web:3", ""), "Third version");
    stays(&world, &path_of("web")).await;
    annotate(&world, &path_of("web"), Value::Null).await;
    world.until("it is taken up again", |source| source.state() == SourceState::Synced).await;
    world.kill().await;
    world.start();
    world.until("it still is", |source| source.state() == SourceState::Synced).await;
}

#[tokio::test(start_paused = true)]
async fn on_its_way_back_it_is_left_where_it_is() {
    for kind in KINDS {
        let mut world = World::embedded().await;
        let first = world.push("web.yaml", &kind.slowly("web:1", "ready-after=12s"), "First version");
        world.start();
        world.through(&first).await;
        let bad = world.push("web.yaml", &kind.slowly("web:2", "never-ready"), "Broken");
        world
            .until("it goes back", |source| source.under_way.values().any(|way| way.outcome == Outcome::RollingBack))
            .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        annotate(&world, &kind.path(), json!("by Ann")).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        stays(&world, &kind.path()).await;
        annotate(&world, &kind.path(), Value::Null).await;
        tokio::time::sleep(Duration::from_mins(3)).await;
        world.until("it is back", |source| source.settled && !source.held.is_empty()).await;
        let live = world.get(&kind.path()).await.unwrap();
        assert_eq!((image(&live), Hold::on(&live).unwrap().commit.as_str()), ("web:1", bad.as_str()), "{kind:?}");
        // The failure is in the books.
        let newest = newest(&world, kind);
        assert_eq!(
            (newest.outcome, newest.commit.as_str()),
            (Outcome::RolledBack, bad.as_str()),
            "{kind:?}: {newest:#?}"
        );
    }
}

fn newest(world: &World, kind: Kind) -> Record {
    let of = |record: &Record| record.object.to_string() == kind.object();
    world.records().into_iter().filter(of).max_by_key(|record| record.id).unwrap()
}

/// A commit takes it up again when all limits of a rollout are over.
#[tokio::test(start_paused = true)]
async fn by_a_commit_for_longer_than_all_limits() {
    for kind in KINDS {
        let (mut world, _) = under_way(kind).await;
        let suspended =
            |text: String| text.replace("  name: web\n", "  name: web\n  annotations: {belay.dev/suspend: by Ann}\n");
        let suspend = kind
            .manifest("web:2", "never-ready")
            .replace("  annotations: {belay", "  annotations: {belay.dev/suspend: by Ann, belay");
        let suspend = if suspend.contains(SUSPEND) { suspend } else { suspended(suspend) };
        let suspend = world.push("web.yaml", &suspend, "Suspend it");
        world.through(&suspend).await;
        tokio::time::sleep(Duration::from_mins(40)).await;
        let resume = world.push("web.yaml", &kind.manifest("web:2", "never-ready"), "Resume it");
        world.through(&resume).await;
        world.until("it is taken back", |source| source.settled && !source.held.is_empty()).await;
        let live = world.get(&kind.path()).await.unwrap();
        assert_eq!((image(&live), world.status().state()), ("web:1", SourceState::Degraded), "{kind:?}");
    }
}

/// Its rollout is complete before it is taken up again.
#[tokio::test(start_paused = true)]
async fn it_is_complete_as_soon_as_it_is_taken_up_again() {
    for kind in KINDS {
        let mut world = World::embedded().await;
        let first = world.push("web.yaml", &kind.manifest("web:1", "ready"), "First version");
        world.start();
        world.through(&first).await;
        let good = world.push("web.yaml", &kind.manifest("web:2", "ready-after=10s"), "Second version");
        world.until("it is under way", |source| !source.under_way.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        annotate(&world, &kind.path(), json!("by Ann")).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        annotate(&world, &kind.path(), Value::Null).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        world.until("it is synced", |source| source.state() == SourceState::Synced).await;
        let end = newest(&world, kind);
        let is_over = matches!(end.outcome, Outcome::Complete | Outcome::Unchanged);
        assert!(is_over && end.commit.as_str() == good, "{kind:?}: {end:#?}");
        // It is the last good revision.
        let bad = world.push("web.yaml", &kind.manifest("web:3", "never-ready"), "Broken");
        world.through(&bad).await;
        assert_eq!(image(&world.get(&kind.path()).await.unwrap()), "web:2", "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_does_not_go_back_with_its_commit() {
    let mut world = World::embedded().await;
    world.config.on_failure = OnFailure::RollBackCommit;
    world.repository.write("a.yaml", deployment("a", "web:1", "")).write("b.yaml", deployment("b", "web:1", ""));
    world.repository.write("settings.yaml", config_map("settings", "1"));
    world.with_all_of_them().await;
    world.repository.write("a.yaml", broken("a", "never-ready")).write("b.yaml", deployment("b", "web:2", ""));
    world.repository.write("settings.yaml", config_map("settings", "2"));
    let bad = world.repository.commit("One of them is broken");
    world.repository.push();
    world.until("it is planned", |source| source.planned.as_ref().is_some_and(|at| at.as_str() == bad)).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let settings = "api/v1/namespaces/default/configmaps/settings";
    annotate(&world, &path_of("b"), json!("by Ann")).await;
    annotate(&world, settings, json!("by Ann")).await;
    world.through(&bad).await;
    stays(&world, &path_of("b")).await;
    assert_eq!(image(&world.get(&path_of("a")).await.unwrap()), "web:1");
    assert_eq!(image(&world.get(&path_of("b")).await.unwrap()), "web:2");
    assert_eq!(world.get(settings).await.unwrap()["data"]["A"], "2");
}

/// The rest of a commit that went back meanwhile goes back as soon as it is resumed, because of the object that failed and
/// not of one that was given up for that.
#[tokio::test(start_paused = true)]
async fn it_goes_back_with_its_commit_as_soon_as_it_is_resumed() {
    let settings = "api/v1/namespaces/default/configmaps/settings";
    let mut world = World::embedded().await;
    world.config.on_failure = OnFailure::RollBackCommit;
    for name in ["a", "b", "d"] {
        world.repository.write(format!("{name}.yaml"), deployment(name, "web:1", ""));
    }
    world.repository.write("settings.yaml", config_map("settings", "1"));
    world.with_all_of_them().await;
    let slow = broken("a", "never-ready").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 3000");
    world.repository.write("a.yaml", slow).write("b.yaml", deployment("b", "web:2", ""));
    world.repository.write("d.yaml", broken("d", "never-ready")).write("settings.yaml", config_map("settings", "2"));
    let bad = world.repository.commit("Two of them are broken");
    world.repository.push();
    world.until("it is planned", |source| source.planned.as_ref().is_some_and(|at| at.as_str() == bad)).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    for path in [path_of("b").as_str(), settings] {
        annotate(&world, path, json!("by Ann")).await;
    }
    world.through(&bad).await;
    for path in [path_of("b").as_str(), settings] {
        annotate(&world, path, Value::Null).await;
    }
    tokio::time::sleep(Duration::from_mins(2)).await;
    world.through(&bad).await;
    for name in ["a", "b", "d"] {
        assert_eq!(image(&world.get(&path_of(name)).await.unwrap()), "web:1", "{name}");
        let object = format!("Deployment default/{name}");
        let newest = world.records().into_iter().rfind(|record| record.object.to_string() == object).unwrap();
        let reason = newest.reason.unwrap().message;
        let because = "Deployment default/d of the same commit failed: ";
        assert_eq!(reason.matches("of the same commit failed").count(), usize::from(name != "d"), "{name}: {reason}");
        assert!(name == "d" || reason.starts_with(because), "{name}: {reason}");
    }
    assert_eq!(world.get(settings).await.unwrap()["data"]["A"], "1");
}

#[tokio::test(start_paused = true)]
async fn it_does_not_go_back_as_the_configuration_of_what_failed() {
    let reads = |manifest: String| format!("{manifest}        envFrom:\n        - configMapRef: {{name: settings}}\n");
    let settings = "api/v1/namespaces/default/configmaps/settings";
    let mut world = World::embedded().await;
    world.repository.write("settings.yaml", config_map("settings", "1"));
    world.repository.write("web.yaml", reads(deployment("web", "web:1", "")));
    world.with_all_of_them().await;
    world.repository.write("settings.yaml", config_map("settings", "2"));
    world.repository.write("web.yaml", reads(broken("web", "never-ready")));
    let bad = world.repository.commit("Broken, with other settings");
    world.repository.push();
    world.until("it is planned", |source| source.planned.as_ref().is_some_and(|at| at.as_str() == bad)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    annotate(&world, settings, json!("by Ann")).await;
    world.through(&bad).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
    assert_eq!(world.get(settings).await.unwrap()["data"]["A"], "2");
}
