//! The way back does not hang on one memory: past the cluster's own history, with the Git server away, without the history
//! file.

use std::time::Duration;

use belay::rollout::{Hold, Outcome};

use crate::world::daemon::{World, broken, deployment, image, path_of};

const SETS: &str = "apis/apps/v1/namespaces/default/replicasets";

/// One that keeps no revisions, and whose old pods go before new ones come.
fn forgetful(manifest: &str) -> String {
    manifest.replace("  selector:", "  revisionHistoryLimit: 0\n  strategy: {type: Recreate}\n  selector:")
}

/// A good version, then a broken one under way, whose cluster keeps nothing of the good one any more.
async fn forgotten() -> (World, String, String) {
    let mut world = World::embedded().await;
    let good = world.push("web.yaml", &forgetful(&deployment("web", "web:1", "")), "First version");
    world.start();
    world.through(&good).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let bad = world.push("web.yaml", &forgetful(&broken("web", "never-ready")), "Broken");
    world.until("it is under way", |source| source.under_way.values().any(|way| way.message.contains("of 2"))).await;
    for set in world.list(SETS).await.iter().filter(|set| image(set) == "web:1") {
        world.delete(&format!("{SETS}/{}", set["metadata"]["name"].as_str().unwrap())).await;
    }
    assert!(world.list(SETS).await.iter().all(|set| image(set) == "web:2"));
    (world, good, bad)
}

async fn is_back(world: &World, good: &str, bad: &str) {
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), &live["status"]["availableReplicas"]), ("web:1", &2.into()));
    assert_eq!(Hold::on(&live).unwrap().commit.as_str(), bad);
    let record = world.record(bad, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::RolledBack);
    assert_eq!(record.back_to.unwrap().as_str(), good);
}

#[tokio::test(start_paused = true)]
async fn by_the_record_with_git_away() {
    let (mut world, good, bad) = forgotten().await;
    let (here, away) = (world.repository.path().to_owned(), world.repository.beside("away"));
    std::fs::rename(&here, &away).unwrap();
    world.until("it went back", |source| !source.held.is_empty() && source.under_way.is_empty()).await;
    assert!(world.status().trouble.contains_key("repository"), "{:?}", world.status().trouble);
    is_back(&world, &good, &bad).await;
    std::fs::rename(&away, &here).unwrap();
    let fix = world.push("web.yaml", &forgetful(&deployment("web", "web:3", "")), "Fix it");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn by_git_without_the_record() {
    let (mut world, good, bad) = forgotten().await;
    world.kill().await;
    for entry in std::fs::read_dir(world.repository.beside("state")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("history.db") {
            std::fs::remove_file(path).unwrap();
        }
    }
    // What was made in the second of the restart counts as made by it.
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.start();
    world.through(&bad).await;
    is_back(&world, &good, &bad).await;
}
