//! A failure stays a failure in the books, also if a newer commit takes its place before it is back.

use belay::history::Query;
use belay_core::rollout::{Outcome, marks};

use crate::support::daemon::{World, image};
use crate::support::workloads::{KINDS, Kind};

/// The way back of a second version is under way; the first one takes its time.
async fn going_back(kind: Kind) -> (World, String) {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &kind.slowly("web:1", "ready-after=10s"), "First version");
    world.start();
    world.through(&first).await;
    let bad = world.push("web.yaml", &kind.slowly("web:2", "never-ready"), "Broken");
    world
        .until("it goes back", |source| source.under_way.values().any(|way| way.outcome == Outcome::RollingBack))
        .await;
    (world, bad)
}

fn is_failed(world: &World, kind: Kind, bad: &str) {
    let record = world.record(bad, &kind.object());
    assert_eq!(record.outcome, Outcome::Failed, "{kind:?}: {record:#?}");
    let reason = record.reason.unwrap();
    assert!(reason.message.ends_with("took its place on the way back"), "{reason}");
    assert_ne!(reason.code.as_str(), "Superseded", "{kind:?}");
    let failed = Query { outcomes: [Outcome::Failed].into(), ..Query::default() };
    assert_eq!(world.history().records(&failed).unwrap().len(), 1, "{kind:?}");
}

#[tokio::test(start_paused = true)]
async fn a_revert_on_the_way_back() {
    for kind in KINDS {
        let (mut world, bad) = going_back(kind).await;
        let revert = world.push("web.yaml", &kind.slowly("web:1", "ready-after=10s"), "Revert");
        world.through(&revert).await;
        assert_eq!(image(&world.get(&kind.path()).await.unwrap()), "web:1");
        assert!(marks::annotation(&world.get(&kind.path()).await.unwrap(), marks::HOLD).is_none(), "{kind:?}");
        is_failed(&world, kind, &bad);
        assert!(world.status().ended.is_empty(), "{kind:?}: {:?}", world.status().ended);
    }
}

#[tokio::test(start_paused = true)]
async fn a_revert_that_the_next_daemon_hears_of() {
    for kind in KINDS {
        let (mut world, bad) = going_back(kind).await;
        world.kill().await;
        let revert = world.push("web.yaml", &kind.manifest("web:3", "ready"), "Onwards");
        world.start();
        world.through(&revert).await;
        assert_eq!(image(&world.get(&kind.path()).await.unwrap()), "web:3");
        is_failed(&world, kind, &bad);
    }
}
