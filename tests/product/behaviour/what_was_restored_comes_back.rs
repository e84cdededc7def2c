//! A cluster whose etcd is restored from an older snapshot comes back to what Git says: what was complete, what was under way,
//! what is held. Nothing untrue is said of a version that is not there meanwhile.

use std::time::Duration;

use belay_core::rollout::{Hold, Outcome, Record, SourceState};
use minicluster::{Backup, Part};

use crate::support::daemon::{World, image};
use crate::support::workloads::{KINDS, Kind};

/// The state of belay while the cluster goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belay {
    Runs,
    IsKilled,
    IsStopped,
}

const BELAYS: [Belay; 3] = [Belay::Runs, Belay::IsKilled, Belay::IsStopped];

/// Each kind of workload, with one of the three for belay: all pairs would take minutes.
fn each_kind() -> impl Iterator<Item = (Kind, Belay)> {
    KINDS.into_iter().zip(BELAYS.into_iter().cycle())
}

/// A workload whose first version is complete; the cluster as it was then; and a first push's commit.
async fn with_first_version(kind: Kind, fate: &str) -> (World, Backup, String) {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &kind.slowly("web:1", fate), "First version");
    world.start();
    world.through(&first).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let backup = world.cluster.as_ref().unwrap().back_up();
    (world, backup, first)
}

/// The cluster goes back to a backup.
async fn restore(world: &mut World, backup: &Backup, belay: Belay) {
    match belay {
        Belay::Runs => {}
        Belay::IsKilled => world.kill().await,
        Belay::IsStopped => world.stop().await,
    }
    world.cluster.as_mut().unwrap().restore(backup).await;
    if belay != Belay::Runs {
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.start();
    }
}

/// Waits until all is quiet; the workload has this image then, and is held or not.
async fn ends_with(world: &mut World, kind: Kind, wanted: &str, held: Option<&str>, case: &str) {
    tokio::time::sleep(Duration::from_mins(4)).await;
    world.until("all is quiet", |source| source.settled).await;
    let live = world.get(&kind.path()).await.unwrap_or_else(|| panic!("{case}: it is there"));
    let hold = Hold::on(&live).map(|hold| hold.commit.to_string());
    assert_eq!((image(&live), hold.as_deref()), (wanted, held), "{case}: {:#?}", world.records());
    for pod in world.list("api/v1/namespaces/default/pods").await {
        assert_eq!(pod["spec"]["containers"][0]["image"], wanted, "{case}");
    }
    assert_eq!(world.status().held.len(), usize::from(held.is_some()), "{case}");
}

/// The record of what a commit brought, and nothing else that is open or says otherwise.
fn outcome(world: &World, commit: &str, kind: Kind) -> (Outcome, Vec<Record>) {
    let all = world.records();
    let of = |record: &&Record| record.commit.as_str() == commit && record.object.to_string() == kind.object();
    let own: Vec<&Record> = all.iter().filter(of).filter(|record| record.trigger.is_commit()).collect();
    assert_eq!(own.len(), 1, "{kind:?}: {all:#?}");
    (own[0].outcome, all)
}

#[tokio::test(start_paused = true)]
async fn what_was_under_way() {
    for (kind, belay) in each_kind() {
        for (fate, image, expected) in
            [("ready-after=15s", "web:2", Outcome::Complete), ("never-ready", "web:1", Outcome::RolledBack)]
        {
            let case = format!("{} {belay:?} {fate}", kind.name);
            let (mut world, backup, _) = with_first_version(kind, "ready").await;
            let second = world.push("web.yaml", &kind.slowly("web:2", fate), "Second version");
            world.until("it is under way", |source| !source.under_way.is_empty()).await;
            tokio::time::sleep(Duration::from_secs(8)).await;
            restore(&mut world, &backup, belay).await;
            let held = (expected == Outcome::RolledBack).then_some(second.as_str());
            ends_with(&mut world, kind, image, held, &case).await;
            assert_eq!(outcome(&world, &second, kind).0, expected, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_complete_is_under_way_again() {
    for (kind, belay) in each_kind() {
        let case = format!("{} {belay:?}", kind.name);
        let (mut world, _, _) = with_first_version(kind, "ready").await;
        let second = world.push("web.yaml", &kind.slowly("web:2", "ready-after=15s"), "Second version");
        world.until("it is under way", |source| !source.under_way.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(8)).await;
        let backup = world.cluster.as_ref().unwrap().back_up();
        world.through(&second).await;
        restore(&mut world, &backup, belay).await;
        ends_with(&mut world, kind, "web:2", None, &case).await;
        assert_eq!(outcome(&world, &second, kind).0, Outcome::Complete, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_held_is_held_again() {
    for (kind, belay) in each_kind() {
        // The store goes back to before the bad version came, or to when it was live.
        for later in [None, Some(Duration::from_secs(10))] {
            let case = format!("{} {belay:?} {later:?}", kind.name);
            let (mut world, mut backup, _) = with_first_version(kind, "ready").await;
            let bad = world.push("web.yaml", &kind.slowly("web:2", "never-ready"), "Broken");
            if let Some(later) = later {
                world.until("it is under way", |source| !source.under_way.is_empty()).await;
                tokio::time::sleep(later).await;
                backup = world.cluster.as_ref().unwrap().back_up();
            }
            world.through(&bad).await;
            restore(&mut world, &backup, belay).await;
            ends_with(&mut world, kind, "web:1", Some(&bad), &case).await;
            assert_eq!(outcome(&world, &bad, kind).0, Outcome::RolledBack, "{case}");
            assert!(world.status().summary().contains("1 held"), "{case}: {}", world.status().summary());
            let fix = world.push("web.yaml", &kind.slowly("web:3", "ready"), "Fix it");
            ends_with(&mut world, kind, "web:3", None, &case).await;
            assert_eq!(outcome(&world, &fix, kind).0, Outcome::Complete, "{case}");
        }
    }
}

/// The store goes back while the controllers are away: no verdict is spoken on a version that is not there.
#[tokio::test(start_paused = true)]
async fn while_the_controllers_are_away() {
    for kind in KINDS {
        let (mut world, backup, _) = with_first_version(kind, "ready").await;
        let second = world.push("web.yaml", &kind.slowly("web:2", "ready"), "Second version");
        world.through(&second).await;
        let cluster = world.cluster.as_mut().unwrap();
        cluster.stop_part(Part::Controllers).await;
        cluster.restore(&backup).await;
        tokio::time::sleep(Duration::from_mins(3)).await;
        assert_ne!(world.status().state(), SourceState::Synced, "{kind:?}: {}", world.status().summary());
        world.cluster.as_mut().unwrap().start_part(Part::Controllers);
        ends_with(&mut world, kind, "web:2", None, kind.name).await;
        assert_eq!(outcome(&world, &second, kind).0, Outcome::Complete, "{kind:?}");
    }
}
