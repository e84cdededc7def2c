//! The way back does not hang on one memory: past the cluster's own history, with the Git server away, without the history
//! file.

use std::time::Duration;

use belay::daemon::{Obstacle, SourceStatus};
use belay_core::rollout::{Hold, Outcome};
use serde_json::Value;

use crate::every_kind_of_workload::{DAEMON, STATEFUL, daemon, stateful};
use crate::support::daemon::{World, broken, deployment, image, path_of};

const DEPLOYMENT: &str = "apis/apps/v1/namespaces/default/deployments/web";
const SETS: &str = "apis/apps/v1/namespaces/default/replicasets";

/// Returns one that keeps no revisions, and whose old pods go before new ones come.
fn forgetful(manifest: &str) -> String {
    manifest.replace("  selector:", "  revisionHistoryLimit: 0\n  strategy: {type: Recreate}\n  selector:")
}

/// Returns a good version, then a broken one under way, whose cluster keeps nothing of the good one any more.
async fn forgotten() -> (World, String, String) {
    let mut world = World::embedded().await;
    let good = world.push("web.yaml", &forgetful(&deployment("web", "web:1", "")), "First version");
    world.start();
    world.through(&good).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let bad = world.push("web.yaml", &forgetful(&broken("web", "never-ready")), "Broken");
    under_way_and_forgotten(&mut world).await;
    (world, good, bad)
}

/// Waits until the broken version is under way, and takes from the cluster what it keeps of the good one.
async fn under_way_and_forgotten(world: &mut World) {
    world.until("it is under way", |source| source.under_way.values().any(|way| way.message.contains("of 2"))).await;
    for set in world.list(SETS).await.iter().filter(|set| image(set) == "web:1") {
        world.delete(&format!("{SETS}/{}", set["metadata"]["name"].as_str().unwrap())).await;
    }
    assert!(world.list(SETS).await.iter().all(|set| image(set) == "web:2"));
}

/// Returns the same where somebody else had made the good version: belay never saw it complete, and Git never had it.
async fn adopted() -> (World, String) {
    let mut world = World::embedded().await;
    let made: Value = serde_yaml::from_str(&forgetful(&deployment("web", "web:1", ""))).unwrap();
    world.create("apis/apps/v1/namespaces/default/deployments", "kubectl-create", &made).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let bad = world.push("web.yaml", &forgetful(&broken("web", "never-ready")), "Broken");
    world.start();
    under_way_and_forgotten(&mut world).await;
    (world, bad)
}

/// Asserts that the workload is back at a template for which no commit is known.
async fn is_back_by_itself(world: &World, bad: &str) {
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), &live["status"]["availableReplicas"]), ("web:1", &2.into()));
    assert_eq!(Hold::on(&live).unwrap().commit.as_str(), bad);
    let record = world.record(bad, "Deployment default/web");
    assert_eq!((record.outcome, record.back_to), (Outcome::RolledBack, None));
}

async fn is_back(world: &World, good: &str, bad: &str) {
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), &live["status"]["availableReplicas"]), ("web:1", &2.into()));
    assert_eq!(Hold::on(&live).unwrap().commit.as_str(), bad);
    let record = world.record(bad, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::RolledBack);
    assert_eq!(record.back_to.unwrap().as_str(), good);
}

async fn goes_back_with_git_away(world: &mut World) {
    world.until("it went back", |source| !source.held.is_empty() && source.under_way.is_empty()).await;
    assert!(
        world.status().obstacles.trouble.contains_key(&Obstacle::Repository),
        "{:?}",
        world.status().obstacles.trouble
    );
}

#[tokio::test(start_paused = true)]
async fn by_the_record_with_git_away() {
    let (mut world, good, bad) = forgotten().await;
    world.repository.go_away();
    goes_back_with_git_away(&mut world).await;
    is_back(&world, &good, &bad).await;
    world.repository.come_back();
    let fix = world.push("web.yaml", &forgetful(&deployment("web", "web:3", "")), "Fix it");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn by_git_without_the_record() {
    let (mut world, good, bad) = forgotten().await;
    starts_without_its_history(&mut world).await;
    world.through(&bad).await;
    is_back(&world, &good, &bad).await;
}

/// Git's version is tried without any record of it: where it crashes, and a newer commit ends that, it is not tried again.
#[tokio::test(start_paused = true)]
async fn but_not_twice_to_what_crashes() {
    let mut world = World::embedded().await;
    let crashing = broken("web", "crash-after=0s").replace("web:2", "web:1");
    world.push("web.yaml", &forgetful(&crashing), "First version");
    world.start();
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    let bad = world.push("web.yaml", &forgetful(&broken("web", "never-ready")), "Broken");
    tokio::time::sleep(Duration::from_secs(10)).await;
    under_way_and_forgotten(&mut world).await;
    starts_without_its_history(&mut world).await;
    let goes_back = |source: &SourceStatus| source.under_way.values().any(|way| way.outcome == Outcome::RollingBack);
    world.until("it goes back", goes_back).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let worse = broken("web", "image-pull-error").replace("web:2", "web:3");
    let worse = world.push("web.yaml", &forgetful(&worse), "Broken in another way");
    world.through(&worse).await;
    assert_ne!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    let record = world.record(&worse, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::Failed, "{record:#?}");
}

async fn starts_without_its_history(world: &mut World) {
    world.kill().await;
    for entry in std::fs::read_dir(world.repository.beside("state")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("history.db") {
            std::fs::remove_file(path).unwrap();
        }
    }
    // An object of the same second as the restart counts as made by it.
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.start();
}

/// The record that is rebuilt does not say that it is back while it is on its way: there is one record, of what comes of it.
#[tokio::test(start_paused = true)]
async fn while_it_already_goes_back() {
    let slow = |manifest: &str| {
        manifest.replace("  selector:", "  minReadySeconds: 20\n  strategy: {type: Recreate}\n  selector:")
    };
    let mut world = World::embedded().await;
    let good = world.push("web.yaml", &slow(&deployment("web", "web:1", "")), "First version");
    world.start();
    world.through(&good).await;
    let bad = world.push("web.yaml", &slow(&broken("web", "never-ready")), "Broken");
    let goes_back = |source: &SourceStatus| source.under_way.values().any(|way| way.outcome == Outcome::RollingBack);
    world.until("it goes back", goes_back).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    starts_without_its_history(&mut world).await;
    world.until("it goes on", goes_back).await;
    let of_bad = |world: &World| -> Vec<Outcome> {
        world.records().iter().filter(|record| record.commit.as_str() == bad).map(|record| record.outcome).collect()
    };
    assert!(matches!(of_bad(&world)[..], [outcome] if !outcome.is_final()), "{:#?}", world.records());
    world.through(&bad).await;
    assert_eq!(of_bad(&world), [Outcome::RolledBack], "{:#?}", world.records());
    is_back(&world, &good, &bad).await;
}

/// A workload, its manifest with an image and a fate, and where it is.
type Kind = (&'static str, fn(&str, &str) -> String, &'static str);
const WITH_REVISIONS: [Kind; 2] =
    [("StatefulSet default/db", stateful, STATEFUL), ("DaemonSet default/agent", daemon, DAEMON)];

/// Somebody else made it; the cluster keeps its first revision.
#[tokio::test(start_paused = true)]
async fn by_the_revisions_without_the_record() {
    let web = |image: &str, fate: &str| broken("web", fate).replace("web:2", image);
    let all: [Kind; 3] = [("Deployment default/web", web, DEPLOYMENT), WITH_REVISIONS[0], WITH_REVISIONS[1]];
    let mut world = World::embedded().await;
    for (_, manifest, path) in all {
        let made: Value = serde_yaml::from_str(&manifest("app:1", "ready")).unwrap();
        world.create(path.rsplit_once('/').unwrap().0, "kubectl-create", &made).await;
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    for (number, (_, manifest, _)) in all.iter().enumerate() {
        world.repository.write(format!("{number}.yaml"), manifest("app:2", "never-ready"));
    }
    let bad = world.repository.commit("All of them broken");
    world.repository.push();
    world.start();
    world.through(&bad).await;
    for (object, _, path) in all {
        let record = world.record(&bad, object);
        assert_eq!((record.outcome, record.back_to_revision), (Outcome::RolledBack, Some(1)), "{record:#?}");
        assert_eq!(image(&world.get(path).await.unwrap()), "app:1", "{object}");
    }
}

/// The history is lost in the middle of a rollout, and with it the revisions that the cluster kept.
#[tokio::test(start_paused = true)]
async fn by_git_also_other_kinds() {
    for (object, manifest, path) in WITH_REVISIONS {
        let mut world = World::embedded().await;
        let good = world.push("app.yaml", &manifest("app:1", "ready"), "First version");
        world.start();
        world.through(&good).await;
        let bad = world.push("app.yaml", &manifest("app:2", "never-ready"), "Broken");
        world.until("it is under way", |source| !source.under_way.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let revisions = "apis/apps/v1/namespaces/default/controllerrevisions";
        for kept in world.list(revisions).await.iter().filter(|kept| kept["revision"] == 1) {
            world.delete(&format!("{revisions}/{}", kept["metadata"]["name"].as_str().unwrap())).await;
        }
        starts_without_its_history(&mut world).await;
        world.through(&bad).await;
        let record = world.record(&bad, object);
        assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
        assert_eq!(record.back_to.unwrap().as_str(), good);
        assert_eq!(image(&world.get(path).await.unwrap()), "app:1");
    }
}

#[tokio::test(start_paused = true)]
async fn by_what_it_took_the_place_of() {
    let (mut world, bad) = adopted().await;
    // Killed in the middle, and then with Git away: what it took the place of is remembered.
    world.kill().await;
    world.start();
    world.until("it is under way again", |source| !source.under_way.is_empty()).await;
    world.repository.go_away();
    goes_back_with_git_away(&mut world).await;
    is_back_by_itself(&world, &bad).await;
    world.repository.come_back();
    let fix = world.push("web.yaml", &forgetful(&deployment("web", "web:3", "")), "Fix it");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
    // From here on there is something better.
    let key = world.record(&fix, "Deployment default/web").object;
    assert_eq!(world.history().fallback_template("shop", &key).unwrap(), None);
    let worse = world.push("web.yaml", &forgetful(&broken("web", "never-ready")), "Broken again");
    world.through(&worse).await;
    let record = world.record(&worse, "Deployment default/web");
    assert_eq!((record.outcome, record.back_to.unwrap().as_str()), (Outcome::RolledBack, fix.as_str()));
}

/// Never to what only gave way to the next, and was not seen complete.
#[tokio::test(start_paused = true)]
async fn past_what_gave_way_to_it() {
    let (mut world, _) = adopted().await;
    let worse = broken("web", "image-pull-error").replace("web:2", "web:3");
    let worse = world.push("web.yaml", &forgetful(&worse), "Broken in another way");
    is_alone(&mut world, &worse).await;
    world.through(&worse).await;
    is_back_by_itself(&world, &worse).await;
}

/// Waits until a commit is under way, and takes from the cluster what it keeps of the others.
async fn is_alone(world: &mut World, commit: &str) {
    let is_its = |source: &SourceStatus| source.under_way.values().any(|way| way.commit.as_str() == commit);
    world.until("that one is under way", is_its).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let present = image(&world.get(DEPLOYMENT).await.unwrap()).to_owned();
    for set in world.list(SETS).await.iter().filter(|set| image(set) != present) {
        world.delete(&format!("{SETS}/{}", set["metadata"]["name"].as_str().unwrap())).await;
    }
}

/// Never to a version in Git that was never applied, because a newer one came with it.
#[tokio::test(start_paused = true)]
async fn past_what_was_never_applied() {
    let (mut world, first) = adopted().await;
    world.repository.commit_file("web.yaml", &forgetful(&deployment("web", "web:3", "")), "Skipped");
    let worse = broken("web", "image-pull-error").replace("web:2", "web:4");
    let worse = world.push("web.yaml", &forgetful(&worse), "Broken in another way");
    is_alone(&mut world, &worse).await;
    world.through(&worse).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Superseded);
    is_back_by_itself(&world, &worse).await;
}

/// An object that was made anew meanwhile never had it.
#[tokio::test(start_paused = true)]
async fn not_where_it_was_made_anew() {
    let (mut world, _) = adopted().await;
    world.kill().await;
    world.delete(&path_of("web")).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let bad = broken("web", "never-ready").replace("web:2", "web:3");
    let bad = world.push("web.yaml", &forgetful(&bad), "Broken again");
    world.start();
    world.through(&bad).await;
    let record = world.record(&bad, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::Failed, "{record:#?}");
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:3");
}
