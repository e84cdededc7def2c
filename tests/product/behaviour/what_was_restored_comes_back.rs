//! A cluster whose etcd is restored from an older snapshot comes back to what Git says: what was idle, what was under way,
//! what is held, what had failed. Nothing untrue is said of a version that is not there meanwhile.

use std::time::Duration;

use belay::config::{OnFailure, Span};
use belay_core::rollout::{Hold, ObjectState, Outcome, Record, SourceState, Trigger};
use minicluster::{Backup, Part};

use crate::support::daemon::{World, config_map, deployment, image};
use crate::support::tap::Fate;
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
    // A failed workload that is left as it is may have pods of both.
    let failed = world.status().ended.values().any(|one| one.state == ObjectState::Failed);
    for pod in world.list("api/v1/namespaces/default/pods").await {
        assert!(pod["spec"]["containers"][0]["image"] == wanted || failed, "{case}: {pod:#}");
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
async fn what_was_idle() {
    for (kind, belay) in each_kind() {
        let case = format!("{} {belay:?}", kind.name);
        let (mut world, backup, _) = with_first_version(kind, "ready").await;
        let second = world.push("web.yaml", &kind.slowly("web:2", "ready"), "Second version");
        world.through(&second).await;
        let settings = world.push("settings.yaml", &config_map("settings", "2"), "Something else");
        world.through(&settings).await;
        restore(&mut world, &backup, belay).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let live = world.get(&kind.path()).await.unwrap();
        let is_back = image(&live) == "web:2" && live["status"]["observedGeneration"] == live["metadata"]["generation"];
        assert!(is_back || world.status().state() != SourceState::Synced, "{case}: {}", world.status().summary());
        ends_with(&mut world, kind, "web:2", None, &case).await;
        let (outcome, all) = outcome(&world, &second, kind);
        assert_eq!(outcome, Outcome::Complete, "{case}");
        assert!(all.iter().all(|record| record.outcome == Outcome::Complete), "{case}: {all:#?}");
        let settings = world.get("api/v1/namespaces/default/configmaps/settings").await.expect("it is made anew");
        assert_eq!(settings["data"]["A"], "2", "{case}");
        world.until("it is synced", |source| source.summary() == "synced (2 complete)").await;
    }
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

/// The deadline passes before the object is read again: nothing is ruled on the version that the store was set back to.
#[tokio::test(start_paused = true)]
async fn what_was_under_way_with_a_short_deadline() {
    for kind in KINDS {
        for away in [0, 25].map(Duration::from_secs) {
            let case = format!("{} away for {away:?}", kind.name);
            let (mut world, tap) = World::tapped().await;
            world.config.outage_timeout = Span(Duration::from_secs(20));
            let quickly =
                |image, fate| kind.slowly(image, fate).replace("\"30\"", "\"12\"").replace(": 30\n", ": 12\n");
            let first = world.push("web.yaml", &quickly("web:1", "ready"), "First version");
            world.start();
            world.through(&first).await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            let backup = world.cluster.as_ref().unwrap().back_up();
            let second = world.push("web.yaml", &quickly("web:2", "ready-after=10s"), "Second version");
            world.until("it is under way", |source| !source.under_way.is_empty()).await;
            tokio::time::sleep(Duration::from_secs(6)).await;
            if !away.is_zero() {
                tap.refuse_watches(true);
                tap.rule(|_, _| Fate::Fail(503));
            }
            restore(&mut world, &backup, Belay::Runs).await;
            tokio::time::sleep(away).await;
            tap.refuse_watches(false);
            tap.rule(|_, _| Fate::Pass);
            ends_with(&mut world, kind, "web:2", None, &case).await;
            assert_eq!(outcome(&world, &second, kind).0, Outcome::Complete, "{case}");
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
            let (of_bad, all) = outcome(&world, &bad, kind);
            assert_eq!(of_bad, Outcome::RolledBack, "{case}");
            assert!(all.iter().all(|record| record.trigger != Trigger::Retry), "{case}: nobody let it in: {all:#?}");
            assert!(world.status().summary().contains("1 held"), "{case}: {}", world.status().summary());
            let fix = world.push("web.yaml", &kind.slowly("web:3", "ready"), "Fix it");
            ends_with(&mut world, kind, "web:3", None, &case).await;
            assert_eq!(outcome(&world, &fix, kind).0, Outcome::Complete, "{case}");
        }
    }
}

/// The store goes back to when an older manifest was held.
#[tokio::test(start_paused = true)]
async fn what_was_held_after_another() {
    for (kind, belay) in each_kind() {
        let case = format!("{} {belay:?}", kind.name);
        let (mut world, _, _) = with_first_version(kind, "ready").await;
        let bad = world.push("web.yaml", &kind.slowly("web:2", "never-ready"), "Broken");
        world.through(&bad).await;
        let backup = world.cluster.as_ref().unwrap().back_up();
        let worse = world.push("web.yaml", &kind.slowly("web:3", "never-ready"), "Broken, too");
        world.through(&worse).await;
        restore(&mut world, &backup, belay).await;
        ends_with(&mut world, kind, "web:1", Some(&worse), &case).await;
        let (of_worse, all) = outcome(&world, &worse, kind);
        assert_eq!(of_worse, Outcome::RolledBack, "{case}");
        let failed = all.iter().filter(|record| record.outcome == Outcome::RolledBack).count();
        assert_eq!(failed, 2, "{case}: none of them was let in again: {all:#?}");
    }
}

/// A person has taken a workload back to a revision that never was complete: that is what the person wants, and no
/// rollout of belay's that may fail.
#[tokio::test(start_paused = true)]
async fn what_a_person_took_back() {
    let kind = KINDS[0];
    for (belay, newest) in BELAYS.into_iter().flat_map(|belay| [(belay, "web:2"), (belay, "web:3")]) {
        let case = format!("{belay:?}, set back to when {newest} was under way");
        let (mut world, ..) = with_first_version(kind, "ready").await;
        let (mut good, mut backup) = (String::new(), None);
        for (image, fate) in [("web:2", "never-ready"), ("web:3", "ready-after=10s")] {
            good = world.push("web.yaml", &kind.manifest(image, fate), "Another version");
            world.until("it is under way", |source| !source.under_way.is_empty()).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            if image == newest {
                backup = Some(world.cluster.as_ref().unwrap().back_up());
            }
        }
        world.through(&good).await;
        world.undo_to("web:2").await;
        world.until("it is held", |source| !source.held.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        restore(&mut world, backup.as_ref().unwrap(), belay).await;
        tokio::time::sleep(Duration::from_mins(4)).await;
        world.until("all is quiet", |source| source.settled).await;
        let live = world.get(&kind.path()).await.unwrap();
        let hold = Hold::on(&live).map(|hold| hold.commit.to_string());
        assert_eq!((image(&live), hold), ("web:2", Some(good.clone())), "{case}");
        let (of_good, all) = outcome(&world, &good, kind);
        assert_eq!(of_good, Outcome::Complete, "{case}");
        let failed = all.iter().filter(|record| record.outcome == Outcome::RollbackFailed).count();
        assert_eq!(failed, 0, "{case}: {all:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_on_its_way_back() {
    for (kind, belay) in each_kind() {
        for later in [None, Some(Duration::from_secs(10))] {
            let case = format!("{} {belay:?} {later:?}", kind.name);
            let (mut world, mut backup, _) = with_first_version(kind, "ready-after=15s").await;
            let bad = world.push("web.yaml", &kind.slowly("web:2", "never-ready"), "Broken");
            if let Some(later) = later {
                world.until("it is under way", |source| !source.under_way.is_empty()).await;
                tokio::time::sleep(later).await;
                backup = world.cluster.as_ref().unwrap().back_up();
            }
            world
                .until("it goes back", |source| {
                    source.under_way.values().any(|way| way.outcome == Outcome::RollingBack)
                })
                .await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            restore(&mut world, &backup, belay).await;
            ends_with(&mut world, kind, "web:1", Some(&bad), &case).await;
            assert_eq!(outcome(&world, &bad, kind).0, Outcome::RolledBack, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_had_failed_is_what_git_says_too() {
    for (kind, belay) in each_kind() {
        // A first version that failed, and a second one that is only reported.
        for is_first in [true, false] {
            let case = format!("{} {belay:?} first: {is_first}", kind.name);
            let mut world = World::embedded().await;
            world.config.on_failure = OnFailure::Report;
            world.start();
            let other = world.push("settings.yaml", &config_map("settings", "1"), "Something else");
            world.through(&other).await;
            if !is_first {
                let first = world.push("web.yaml", &kind.slowly("web:1", "ready"), "First version");
                world.through(&first).await;
            }
            let backup = world.cluster.as_ref().unwrap().back_up();
            let bad = world.push("web.yaml", &kind.slowly("web:2", "never-ready"), "Broken");
            world.through(&bad).await;
            assert_eq!(world.record(&bad, &kind.object()).outcome, Outcome::Failed, "{case}");
            restore(&mut world, &backup, belay).await;
            // The rolling update of a ReplicationController stays half-way: its own pods are still the former ones.
            let is_half_way = kind.name == "ReplicationController" && !is_first;
            ends_with(&mut world, kind, if is_half_way { "web:1" } else { "web:2" }, None, &case).await;
            let pods = world.list("api/v1/namespaces/default/pods").await;
            assert!(pods.iter().any(|pod| pod["spec"]["containers"][0]["image"] == "web:2"), "{case}: {pods:#?}");
            assert_eq!(outcome(&world, &bad, kind).0, Outcome::Failed, "{case}");
            assert_eq!(world.status().state(), SourceState::Degraded, "{case}: {}", world.status().summary());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_pruned_goes_again() {
    for (belay, others_follow) in BELAYS.into_iter().flat_map(|belay| [(belay, false), (belay, true)]) {
        let mut world = World::embedded().await;
        (world.config.prune, world.config.prune_limit) = (true, "100%".to_owned());
        world.with_maps(2).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let backup = world.cluster.as_ref().unwrap().back_up();
        world.repository.remove("0.yaml");
        let goes = world.repository.commit("One goes");
        world.repository.push();
        world.through(&goes).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let path = "api/v1/namespaces/default/configmaps/map-0";
        assert!(world.get(path).await.is_none());
        if others_follow {
            let other = world.push("1.yaml", &config_map("map-1", "2"), "Another");
            world.through(&other).await;
        }
        restore(&mut world, &backup, belay).await;
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert!(world.get(path).await.is_none(), "{belay:?} {others_follow}: {:#?}", world.records());
        let of = |record: &Record| record.commit.as_str() == goes && record.object.name == "map-0";
        let records: Vec<(Trigger, Outcome)> =
            world.records().into_iter().filter(of).map(|record| (record.trigger, record.outcome)).collect();
        assert!(
            matches!(&records[..], [(Trigger::Commit, Outcome::Pruned), (Trigger::Drift(_), Outcome::Pruned)]),
            "{belay:?}, others follow: {others_follow}: {records:?}"
        );
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

/// Others write so much after the restore that resource versions are past those that belay knows when it can read again.
#[tokio::test(start_paused = true)]
async fn though_resource_versions_are_as_they_were() {
    let (mut world, tap) = World::tapped().await;
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.through(&first).await;
    let backup = world.cluster.as_ref().unwrap().back_up();
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    tap.rule(|_, _| Fate::Fail(503));
    tap.refuse_watches(true);
    world.cluster.as_mut().unwrap().restore(&backup).await;
    for number in 0..300 {
        let object: serde_json::Value = serde_yaml::from_str(&config_map(&format!("other-{number}"), "1")).unwrap();
        world.create("api/v1/namespaces/default/configmaps", "kubectl", &object).await;
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    tap.rule(|_, _| Fate::Pass);
    tap.refuse_watches(false);
    ends_with(&mut world, KINDS[0], "web:2", None, "Deployment").await;
}
