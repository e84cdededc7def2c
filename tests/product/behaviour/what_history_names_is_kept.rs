//! Commits that history names stay in the mirror, whatever is pushed; and history itself stays within its bounds, at each
//! start and once a day.

use std::path::PathBuf;
use std::time::Duration;

use belay::clock::Clock;
use belay::history::Retention;
use belay_core::rollout::Outcome;
use minicluster::{MiniCluster, Part};

use crate::support::daemon::{EPOCH, World, broken, config_map, deployment, image, path_of};

/// Returns the mirror's own repository.
fn mirror(world: &World) -> git2::Repository {
    let mut folders: Vec<PathBuf> = vec![world.repository.beside("state/sources/shop")];
    while let Some(folder) = folders.pop() {
        if folder.join("HEAD").is_file() {
            return git2::Repository::open_bare(folder).unwrap();
        }
        folders
            .extend(std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()));
    }
    panic!("no mirror");
}

fn is_pinned(mirror: &git2::Repository, commit: &str) -> bool {
    mirror.find_reference(&format!("refs/belay/pins/{commit}")).is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_force_push_does_not_take_it_away() {
    let mut world = World::embedded().await;
    let root = world.push("other.yaml", &config_map("a", "1"), "Root");
    let good = world.with_first_version().await;
    // History is rewritten: the commit that made what is live is in no branch any more.
    world.repository.reset(&root);
    world.repository.write("web.yaml", deployment("web", "web:1", "")).write("note.yaml", "# note\n");
    let rewritten = world.repository.commit("Rewritten");
    world.repository.force_push();
    world.through(&rewritten).await;
    world.stop().await;
    world.start();
    world.through(&rewritten).await;
    // At its start belay lets go of everything but what history names.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let mirror = mirror(&world);
    assert!(is_pinned(&mirror, &good), "history names it");
    assert!(mirror.find_commit(git2::Oid::from_str(&good).unwrap()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_way_back_survives_a_force_push() {
    let mut world = World::embedded().await;
    let root = world.push("other.yaml", &config_map("a", "1"), "Root");
    let limit = "  revisionHistoryLimit: 0\n";
    let good = world.push("web.yaml", &deployment("web", "web:1", limit), "First version");
    world.start();
    world.through(&good).await;
    world.repository.reset(&root);
    let worse = broken("web", "never-ready").replace("  selector:", "  revisionHistoryLimit: 0\n  selector:");
    world.repository.write("web.yaml", worse);
    let bad = world.repository.commit("Rewritten, and broken");
    world.repository.force_push();
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
}

#[tokio::test(start_paused = true)]
async fn old_records_are_forgotten_but_not_what_is_needed() {
    let mut world = World::embedded().await;
    world.retention = Retention { age: None, records: Some(2) };
    let mut newest = String::new();
    let mut first = None;
    world.start();
    for version in 1..6 {
        newest = world.push("web.yaml", &deployment("web", &format!("web:{version}"), ""), "Another version");
        first.get_or_insert_with(|| newest.clone());
        world.through(&newest).await;
    }
    assert_eq!(world.records().len(), 5);
    world.stop().await;
    world.start();
    world.through(&newest).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.records().len(), 2);
    assert_eq!(world.record(&newest, "Deployment default/web").outcome, Outcome::Complete);
    assert!(!is_pinned(&mirror(&world), &first.unwrap()), "nobody names it any more");
}

#[tokio::test(start_paused = true)]
async fn once_a_day_what_is_old_is_forgotten() {
    // Days go by: nodes and controllers would be busy all the time.
    let clock = Clock::tokio(EPOCH.parse().unwrap());
    let quiet = MiniCluster::builder().clock(clock.clone()).without(Part::Kubelet).without(Part::Controllers);
    let cluster = quiet.start().await.unwrap();
    let mut world = World::on(cluster.client_as("belay"), clock, Some(cluster));
    world.config.interval = belay::config::Span(Duration::from_hours(1));
    let hours = |hours: i64| Some(jiff::SignedDuration::from_hours(hours));
    world.retention = Retention { age: hours(30), records: None };
    let root = world.push("README.md", "The shop", "Root");
    world.start();
    let mut commits = Vec::new();
    for version in 1..4 {
        // History is rewritten each time, so that only a pin keeps what was.
        world.repository.reset(&root);
        world.repository.write("a.yaml", config_map("a", &version.to_string()));
        let commit = world.repository.commit("Another version");
        world.repository.force_push();
        tokio::time::sleep(Duration::from_hours(1)).await;
        world.through(&commit).await;
        commits.push(commit);
    }
    let pinned = |world: &World| -> Vec<bool> {
        let mirror = mirror(world);
        commits.iter().map(|commit| is_pinned(&mirror, commit)).collect()
    };
    assert_eq!(world.records().len(), 3);
    // An ancestor of the branch needs no pin. After a day they are looked at, and are not old enough; after two they
    // are.
    tokio::time::sleep(Duration::from_hours(24)).await;
    assert_eq!((world.records().len(), pinned(&world)), (3, vec![true, true, false]));
    tokio::time::sleep(Duration::from_hours(24)).await;
    assert_eq!((world.records().len(), pinned(&world)), (1, vec![false, false, false]));
    assert_eq!(world.record(&commits[2], "ConfigMap default/a").outcome, Outcome::Complete);
}
