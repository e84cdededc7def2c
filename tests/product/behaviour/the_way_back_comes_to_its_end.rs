//! A restart of a workload on its way back does not keep it from getting there.

use std::time::Duration;

use belay_core::rollout::{Hold, ObjectState, Outcome};
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
        let at = json!({"kubectl.kubernetes.io/restartedAt": world.clock.now().to_string()});
        let restart = json!({"spec": {"template": {"metadata": {"annotations": at}}}});
        world.patch(&kind.path(), "kubectl-rollout", &restart).await;
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
