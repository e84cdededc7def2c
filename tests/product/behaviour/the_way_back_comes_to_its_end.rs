//! A restart of a workload on its way back does not keep it from getting there.

use std::time::Duration;

use belay_core::rollout::{Hold, ObjectState, Outcome, Record};
use serde_json::json;

use crate::support::daemon::{World, image};
use crate::support::workloads::{KINDS, Kind};

async fn going_back(kind: Kind) -> (World, String) {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &kind.slowly("web:1", "ready-after=10s"), "First version");
    world.start();
    world.through(&first).await;
    let bad = world.push("web.yaml", &kind.slowly("web:2", "never-ready"), "Broken");
    world
        .until("it goes back", |source| source.under_way.values().any(|way| way.outcome == Outcome::RollingBack))
        .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    (world, bad)
}

#[tokio::test(start_paused = true)]
async fn a_restart_on_the_way_back() {
    for kind in KINDS {
        let (mut world, bad) = going_back(kind).await;
        restart(&world, kind, &world.clock.now().to_string()).await;
        world.through(&bad).await;
        tokio::time::sleep(Duration::from_mins(5)).await;
        world.through(&bad).await;
        let record = world.record(&bad, &kind.object());
        assert_eq!(record.outcome, Outcome::RolledBack, "{kind:?}: {record:#?}");
        let live = world.get(&kind.path()).await.unwrap();
        assert_eq!((image(&live), Hold::on(&live).unwrap().commit.as_str()), ("web:1", bad.as_str()), "{kind:?}");
        let status = world.status();
        let states: Vec<ObjectState> = status.workloads.keys().map(|key| status.state_of_workload(key)).collect();
        assert_eq!((status.held.len(), &states[..]), (1, &[ObjectState::Held][..]), "{kind:?}");
    }
}

/// People restart what runs, before it fails and while it is held. Each restart stays, and so does the hold.
#[tokio::test(start_paused = true)]
async fn restarts_before_and_while_it_is_held() {
    for kind in KINDS {
        let mut world = World::embedded().await;
        let first = world.push("web.yaml", &kind.manifest("web:1", "ready"), "First version");
        world.start();
        world.through(&first).await;
        restart(&world, kind, "2026-11-20T09:00:00Z").await;
        world.through(&first).await;
        let bad = world.push("web.yaml", &kind.manifest("web:2", "never-ready"), "Broken");
        world.through(&bad).await;
        for at in ["2026-11-21T09:00:00Z", "2026-11-22T09:00:00Z"] {
            restart(&world, kind, at).await;
            tokio::time::sleep(Duration::from_mins(5)).await;
            world.through(&bad).await;
            let live = world.get(&kind.path()).await.unwrap();
            let annotations = &live["spec"]["template"]["metadata"]["annotations"];
            assert_eq!(annotations["kubectl.kubernetes.io/restartedAt"], at, "{kind:?}");
            assert_eq!((image(&live), Hold::on(&live).unwrap().commit.as_str()), ("web:1", bad.as_str()), "{kind:?}");
        }
        // A person who takes the hold off lets the failed manifest in.
        let release = json!({"metadata": {"annotations": {"belay.dev/hold": null}}});
        world.patch(&kind.path(), "kubectl-annotate", &release).await;
        let failures = |world: &World| {
            let failed =
                |record: &Record| record.object.to_string() == kind.object() && record.outcome == Outcome::RolledBack;
            world.records().into_iter().filter(failed).count()
        };
        let mut waited = 0;
        while failures(&world) < 2 {
            waited += 1;
            assert!(waited < 60, "{kind:?}: {:#?}", world.records());
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    }
}

/// Restarts a workload as kubectl does.
async fn restart(world: &World, kind: Kind, at: &str) {
    let at = json!({"kubectl.kubernetes.io/restartedAt": at});
    let restart = json!({"spec": {"template": {"metadata": {"annotations": at}}}});
    world.patch(&kind.path(), "kubectl-rollout", &restart).await;
}
