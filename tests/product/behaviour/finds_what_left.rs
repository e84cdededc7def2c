//! An object that has left the repository is found and deleted also if belay did not see it leave: it was not running,
//! its history is lost, it did not delete then, or it was killed while it did.

use std::time::Duration;

use belay::daemon::Obstacle;
use belay_core::rollout::Outcome;

use crate::support::daemon::{World, config_map, deployment, path_of};
use crate::support::tap::{Fate, Tap};

const MAP: &str = "api/v1/namespaces/default/configmaps/map-0";
const JOB: &str = "apis/batch/v1/namespaces/default/cronjobs/nightly";
const CRON_JOB: &str = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec:\n  schedule: \"0 3 * * *\"\n  \
                        jobTemplate:\n    spec:\n      template:\n        spec:\n          restartPolicy: Never\n          \
                        containers: [{name: app, image: \"app:1\"}]\n";

/// Some maps and the only CronJob; belay has stopped.
async fn stopped() -> (World, Tap) {
    let (mut world, tap) = World::tapped().await;
    world.config.prune = true;
    world.repository.write("job.yaml", CRON_JOB);
    world.with_maps(10).await;
    world.stop().await;
    tap.take();
    (world, tap)
}

fn remove(world: &mut World, files: &[&str]) -> String {
    for file in files {
        world.repository.remove(file);
    }
    let commit = world.repository.commit("Away with it");
    world.repository.push();
    commit
}

#[tokio::test(start_paused = true)]
async fn with_the_history_lost_and_its_kind_gone_from_the_repository() {
    let (mut world, tap) = stopped().await;
    std::fs::remove_dir_all(world.repository.beside("state")).unwrap();
    world.repository.write("1.yaml", config_map("map-1", "2"));
    let gone = remove(&mut world, &["job.yaml"]);
    world.start();
    world.through(&gone).await;
    assert_eq!(world.get(JOB).await, None);
    let deleted = world.record(&gone, "CronJob default/nightly");
    assert_eq!(deleted.outcome, Outcome::Pruned);
    // Once for all: nothing is looked through again.
    tap.take();
    tokio::time::sleep(Duration::from_hours(1)).await;
    let asked = tap.take();
    assert!(asked.iter().all(|went| !went.path.contains("cronjobs?")), "{asked:?}");
}

/// The commit is charged that took the manifest away, also one of a branch that was merged, and not the newest one.
#[tokio::test(start_paused = true)]
async fn by_the_commit_that_took_it_away_with_the_history_lost() {
    for merged in [false, true] {
        let (mut world, _) = stopped().await;
        std::fs::remove_dir_all(world.repository.beside("state")).unwrap();
        if merged {
            world.repository.branch("side");
        }
        world.repository.remove("job.yaml");
        let gone = world.repository.commit("Away with it");
        if merged {
            world.repository.switch("main").commit_file("1.yaml", &config_map("map-1", "2"), "Beside it");
            world.repository.merge(&["side"], "Both");
        }
        let later = world.push("2.yaml", &config_map("map-2", "2"), "Something else");
        world.start();
        world.through(&later).await;
        world.until("it is deleted", |source| source.settled).await;
        assert_eq!(world.get(JOB).await, None);
        assert_eq!(world.record(&gone, "CronJob default/nightly").outcome, Outcome::Pruned, "merged: {merged}");
    }
}

#[tokio::test(start_paused = true)]
async fn with_prune_switched_on_later_and_its_kind_gone_from_the_repository() {
    let (mut world, _) = stopped().await;
    world.config.prune = false;
    let gone = remove(&mut world, &["job.yaml"]);
    world.start();
    world.through(&gone).await;
    assert!(world.get(JOB).await.is_some(), "prune is off");
    world.stop().await;
    world.config.prune = true;
    world.start();
    world.through(&gone).await;
    assert_eq!(world.get(JOB).await, None);
    // It was orphaned for as long as pruning was off.
    let records = world.records().into_iter().filter(|record| record.object.kind == "CronJob");
    let outcomes: Vec<Outcome> =
        records.filter(|record| record.commit.as_str() == gone).map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::Orphaned, Outcome::Pruned]);
}

/// An object to which another controller has copied the label is not belay's.
#[tokio::test(start_paused = true)]
async fn never_what_only_has_the_label() {
    let (mut world, _) = stopped().await;
    let copied = config_map("copied", "1").replace("name: copied", "name: copied\n  labels: {belay.dev/source: shop}");
    let copied = serde_yaml::from_str(&copied).unwrap();
    world.create("api/v1/namespaces/default/configmaps", "copier", &copied).await;
    let gone = remove(&mut world, &["job.yaml"]);
    world.start();
    world.through(&gone).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(world.get(JOB).await, None);
    assert!(world.get("api/v1/namespaces/default/configmaps/copied").await.is_some());
}

/// A webhook that converts a kind may be down for days.
#[tokio::test(start_paused = true)]
async fn a_kind_that_can_not_be_listed_keeps_nothing_waiting_and_is_listed_later() {
    let (mut world, tap) = stopped().await;
    tap.rule(|went, _| if went.path.contains("cronjobs?") { Fate::Fail(500) } else { Fate::Pass });
    let gone = remove(&mut world, &["job.yaml", "0.yaml"]);
    std::fs::remove_dir_all(world.repository.beside("state")).unwrap();
    world.start();
    world.through(&gone).await;
    assert_eq!(world.get(MAP).await, None);
    assert!(world.get(JOB).await.is_some());
    tap.rule(|_, _| Fate::Pass);
    tokio::time::sleep(Duration::from_mins(15)).await;
    assert_eq!(world.get(JOB).await, None);
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_request_it_ends_the_same() {
    let mut died = 0;
    for number in 0..12 {
        for fate in [Fate::DieBefore, Fate::DieAfter] {
            let (mut world, tap) = World::tapped().await;
            world.config.prune = true;
            world.repository.write("web.yaml", deployment("web", "web:1", ""));
            world.with_maps(10).await;
            let mut before = 0;
            tap.rule(move |went, _| {
                // From the plan on: what is read of what has left.
                before += usize::from(before > 0 || went.path.ends_with("/map-0") || went.path.ends_with("/web"));
                if before == number + 1 { fate } else { Fate::Pass }
            });
            let gone = remove(&mut world, &["web.yaml", "0.yaml"]);
            died += usize::from(world.through_a_kill(&tap, &gone).await);
            assert_eq!(world.get(MAP).await, None, "{fate:?} at {number}");
            assert_eq!(world.get(&path_of("web")).await, None, "{fate:?} at {number}");
            for object in ["ConfigMap default/map-0", "Deployment default/web"] {
                let record = world.record(&gone, object);
                assert_eq!((record.outcome, record.reason), (Outcome::Pruned, None), "{object}: {fate:?} at {number}");
            }
            assert!(world.history().open_records("shop").unwrap().is_empty());
        }
    }
    assert!(died >= 10, "{died}");
}

/// The object is still there after a conflict, and goes when it is asked again.
#[tokio::test(start_paused = true)]
async fn a_conflict_is_not_the_end_of_it() {
    let (mut world, tap) = stopped().await;
    let mut times = 0;
    tap.rule(move |went, _| {
        times += usize::from(went.method == "DELETE");
        if went.method == "DELETE" && times < 4 { Fate::Fail(409) } else { Fate::Pass }
    });
    let gone = remove(&mut world, &["0.yaml"]);
    world.start();
    world.through(&gone).await;
    assert_eq!(world.get(MAP).await, None);
    assert_eq!(world.record(&gone, "ConfigMap default/map-0").outcome, Outcome::Pruned);
    assert_eq!(tap.take().iter().filter(|went| went.method == "DELETE").count(), 4);
}

/// Nobody may be told that it is gone while it is there.
#[tokio::test(start_paused = true)]
async fn a_conflict_without_end_is_told() {
    let (mut world, tap) = stopped().await;
    tap.rule(|went, _| if went.method == "DELETE" { Fate::Fail(409) } else { Fate::Pass });
    let gone = remove(&mut world, &["0.yaml"]);
    world.start();
    world.until("it is told", |source| source.obstacles.trouble.values().any(|told| told.contains("conflict"))).await;
    tokio::time::sleep(Duration::from_mins(12)).await;
    assert!(world.get(MAP).await.is_some());
    let record = world.record(&gone, "ConfigMap default/map-0");
    assert_eq!(record.outcome, Outcome::Failed, "{record:?}");
    assert!(record.reason.unwrap().message.contains("conflict"));
}

/// Anybody who can write one object can write the label, and can name the field manager as belay does.
#[tokio::test(start_paused = true)]
async fn never_what_has_the_marks_and_was_not_made_by_belay() {
    let (mut world, _) = stopped().await;
    let forge = async |world: &World, number: usize| {
        let path = format!("api/v1/namespaces/default/configmaps/forged-{number}");
        let forged = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"A": "1"},
            "metadata": {"name": format!("forged-{number}"), "labels": {"belay.dev/source": "shop"}}});
        world.apply(&path, "belay", &forged).await;
        path
    };
    let mut forged = Vec::new();
    for number in 0..30 {
        forged.push(forge(&world, number).await);
    }
    // They count for nothing: what really has left goes, within the limit of 10 %.
    let gone = remove(&mut world, &["0.yaml"]);
    world.start();
    world.through(&gone).await;
    assert_eq!(world.get(MAP).await, None);
    assert_eq!(world.record(&gone, "ConfigMap default/map-0").outcome, Outcome::Pruned);
    let told = world.status().obstacles.trouble[&Obstacle::Unmanaged].clone();
    assert!(told.contains("30 objects have the label belay.dev/source=shop") && told.contains("forged-0"), "{told}");
    // At once also while belay runs.
    forged.push(forge(&world, 30).await);
    world
        .until("it is told", |source| {
            source.obstacles.trouble.get(&Obstacle::Unmanaged).is_some_and(|told| told.contains("31 objects"))
        })
        .await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    for path in &forged {
        assert!(world.get(path).await.is_some(), "{path}");
        world.delete(path).await;
    }
    world.stop().await;
    world.start();
    world
        .until("nothing is told any more", |source| {
            source.settled && !source.obstacles.trouble.contains_key(&Obstacle::Unmanaged)
        })
        .await;
}
