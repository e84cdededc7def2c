//! A held workload that is then deleted is made anew from the last good revision, and held; only a change of its
//! manifest, or `belay retry`, lets the failed one in.

use std::time::Duration;

use belay_core::rollout::{Hold, Outcome, Record};
use serde_json::{Value, json};

use crate::support::daemon::{World, anew, config_map, image};
use crate::support::workloads::{KINDS, Kind};

/// Returns a workload whose second version has failed and is held; and that version's commit.
async fn held(kind: Kind) -> (World, String) {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &kind.manifest("web:1", "ready"), "First version");
    world.start();
    world.through(&first).await;
    let bad = world.push("web.yaml", &kind.manifest("web:2", "never-ready"), "Broken");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, &kind.object()).outcome, Outcome::RolledBack, "{kind:?}");
    (world, bad)
}

async fn until_there(world: &World, path: &str) -> Value {
    for _ in 0..600 {
        if let Some(live) = world.get(path).await.filter(|live| live["metadata"].get("deletionTimestamp").is_none()) {
            return live;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("{path} is not made anew");
}

/// The workload is there, on its first version, held for what `commit` brought; and no pod of the failed version is.
async fn is_held(world: &mut World, kind: Kind, commit: &str) {
    until_there(world, &kind.path()).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    world.until("all is quiet", |source| source.settled).await;
    let live = world.get(&kind.path()).await.unwrap();
    let hold = Hold::on(&live).unwrap_or_else(|| panic!("{kind:?} is not held: {live:#}"));
    assert_eq!((image(&live), hold.commit.as_str()), ("web:1", commit), "{kind:?}");
    assert!(hold.is_about(&live["spec"]["template"]), "{kind:?}: {live:#}");
    for pod in world.list("api/v1/namespaces/default/pods").await {
        assert_eq!(pod["spec"]["containers"][0]["image"], "web:1", "{kind:?}");
    }
    assert_eq!(world.status().held.len(), 1, "{kind:?}");
    let complete = |record: &Record| record.commit.as_str() == commit && record.outcome == Outcome::Complete;
    let complete: Vec<Record> = world
        .records()
        .into_iter()
        .filter(|record| record.object.to_string() == kind.object() && complete(record))
        .collect();
    assert!(complete.is_empty(), "{kind:?}: the commit that failed is not complete: {complete:#?}");
}

#[tokio::test(start_paused = true)]
async fn it_is_made_anew_from_the_last_good_revision() {
    for kind in KINDS {
        let (mut world, bad) = held(kind).await;
        world.delete(&kind.path()).await;
        is_held(&mut world, kind, &bad).await;
        // A second time, and while belay is not there.
        world.kill().await;
        world.delete(&kind.path()).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        world.start();
        is_held(&mut world, kind, &bad).await;
        let other = world.push("settings.yaml", &config_map("settings", "1"), "Something else");
        world.through(&other).await;
        is_held(&mut world, kind, &bad).await;
        // It is counted once, also after a restart.
        assert_eq!(world.status().summary(), "degraded (1 held, 1 complete)", "{kind:?}");
        let fix = world.push("web.yaml", &kind.manifest("web:3", "ready"), "Fix it");
        world.through(&fix).await;
        assert_eq!(world.record(&fix, &kind.object()).outcome, Outcome::Complete, "{kind:?}");
        // A hold that was released stays released, though the manifest that failed comes back.
        let back = world.push("web.yaml", &kind.manifest("web:2", "never-ready"), "Broken again");
        world.through(&back).await;
        assert_eq!(world.record(&back, &kind.object()).outcome, Outcome::RolledBack, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn so_it_is_with_what_somebody_made_anew_without_its_hold() {
    for kind in KINDS {
        let (mut world, bad) = held(kind).await;
        let mut object = anew(world.get(&kind.path()).await.unwrap());
        object["metadata"]["annotations"] = json!({});
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
        world.delete(&kind.path()).await;
        // It is a race: belay makes it anew at once.
        let list = kind.path().trim_end_matches("/web").to_owned();
        let request = http::Request::post(format!("/{list}?fieldManager=kubectl-create"))
            .header("Content-Type", "application/json")
            .body(object.to_string().into_bytes())
            .unwrap();
        world.client.request::<Value>(request).await.ok();
        is_held(&mut world, kind, &bad).await;
    }
}

#[tokio::test(start_paused = true)]
async fn so_it_is_with_what_is_deleted_on_the_way_back() {
    for kind in KINDS {
        let mut world = World::embedded().await;
        let first = world.push("web.yaml", &kind.slowly("web:1", "ready-after=10s"), "First version");
        world.start();
        world.through(&first).await;
        let bad = world.push("web.yaml", &kind.slowly("web:2", "never-ready"), "Broken");
        world
            .until("it goes back", |source| source.under_way.values().any(|way| way.outcome == Outcome::RollingBack))
            .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.delete(&kind.path()).await;
        is_held(&mut world, kind, &bad).await;
        let of = |record: &Record| record.commit.as_str() == bad && record.trigger.is_commit();
        let record = world.records().into_iter().find(of).unwrap();
        assert_eq!(record.outcome, Outcome::RolledBack, "{kind:?}: {record:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_lets_it_in_also_after_a_deletion() {
    for kind in KINDS {
        let (mut world, bad) = held(kind).await;
        world.delete(&kind.path()).await;
        is_held(&mut world, kind, &bad).await;
        world.patch(&kind.path(), "kubectl", &json!({"metadata": {"annotations": {"belay.dev/hold": null}}})).await;
        world
            .until("it is tried again", |source| source.under_way.values().any(|way| way.outcome == Outcome::UnderWay))
            .await;
    }
}
