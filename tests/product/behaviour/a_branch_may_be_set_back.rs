//! A branch that is set back to an earlier commit brings no new commit, and is a new head all the same. Its manifests
//! are charged to earlier commits, which are known by their subject, even if they had been forgotten.

use std::time::Duration;

use belay::history::Retention;
use belay::web::Web;
use belay_core::rollout::{CommitId, Outcome, Record};

use crate::shows_itself_over_http::get;
use crate::support::daemon::{World, broken, config_map, deployment, image, path_of};

/// Sets the branch back to a commit, and waits until belay is through with it.
async fn set_back(world: &mut World, commit: &str) {
    world.repository.reset(commit);
    world.repository.force_push();
    world.through(commit).await;
}

fn records(world: &World, commit: &str, object: &str) -> Vec<Record> {
    let is_of = |record: &Record| record.commit.as_str() == commit && record.object.to_string() == object;
    world.records().into_iter().filter(is_of).collect()
}

fn subject(world: &World, commit: &str) -> Option<String> {
    let id: CommitId = commit.parse().unwrap();
    world.history().commit(&id).unwrap().map(|commit| commit.subject)
}

#[tokio::test(start_paused = true)]
async fn an_earlier_commit_that_was_forgotten_is_known_again() {
    let mut world = World::embedded().await;
    world.retention = Retention { age: None, records: Some(1) };
    let first = world.with_first_version().await;
    let note = world.push("note.yaml", "# nothing\n", "A note");
    world.through(&note).await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    let other = world.push("a.yaml", &config_map("a", "1"), "Another object");
    world.through(&other).await;
    world.stop().await;
    world.start();
    world.through(&other).await;
    // At its start belay forgets what is old.
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((subject(&world, &first), subject(&world, &note)), (None, None));
    set_back(&mut world, &note).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(subject(&world, &first).as_deref(), Some("First version"));
    assert_eq!(subject(&world, &note).as_deref(), Some("A note"));
}

#[tokio::test(start_paused = true)]
async fn what_it_brings_back_counts_with_the_commits_that_say_it() {
    let mut world = World::embedded().await;
    let first = world.with_first_version().await;
    let note = world.push("note.yaml", "# nothing\n", "A note");
    world.through(&note).await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    set_back(&mut world, &note).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let timeline = get(&web, "/timeline").await;
    let told = |line: &str| {
        let commit = [&first, &note, &second].into_iter().find(|id| line.contains(&format!("/commits/{id}")))?;
        let (_, what) = line.split_once("shop: ")?;
        Some((commit.clone(), what.split([':', '<']).next()?.to_owned()))
    };
    let lines: Vec<(String, String)> = timeline.lines().filter_map(told).collect();
    let line = |commit: &String, what: &str| (commit.clone(), what.to_owned());
    let expected = [
        line(&note, "brought back what earlier commits say"),
        line(&second, "1 complete"),
        line(&note, "changed nothing here"),
        line(&first, "1 complete"),
    ];
    assert_eq!(lines, expected);
}

#[tokio::test(start_paused = true)]
async fn what_is_charged_is_known_however_many_commits_come_at_once() {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    for number in 0..1000 {
        world.repository.write("note.yaml", format!("# {number}\n"));
        world.repository.commit("A note");
    }
    world.repository.push();
    world.start();
    let head = world.repository.tip().unwrap();
    world.through(&head).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(subject(&world, &first).as_deref(), Some("First version"));
}

#[tokio::test(start_paused = true)]
async fn what_it_writes_twice_is_complained_about_again() {
    let mut world = World::embedded().await;
    world.with_first_version().await;
    world.push("a.yaml", &config_map("a", "1"), "A ConfigMap");
    let twice = world.push("again.yaml", &config_map("a", "2"), "The same once more");
    world.through(&twice).await;
    assert_eq!(world.record(&twice, "ConfigMap default/a").outcome, Outcome::Rejected);
    world.repository.remove("again.yaml");
    let once = world.repository.commit("Once is enough");
    world.repository.push();
    world.through(&once).await;
    set_back(&mut world, &twice).await;
    let outcomes: Vec<Outcome> =
        records(&world, &twice, "ConfigMap default/a").iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::Rejected, Outcome::Rejected]);
}

#[tokio::test(start_paused = true)]
async fn what_it_no_longer_writes_twice_is_applied() {
    let mut world = World::embedded().await;
    world.with_first_version().await;
    let once = world.push("a.yaml", &config_map("a", "1"), "A ConfigMap");
    world.through(&once).await;
    let twice = world.push("again.yaml", &config_map("a", "2"), "The same once more");
    world.through(&twice).await;
    assert_eq!(world.record(&twice, "ConfigMap default/a").outcome, Outcome::Rejected);
    set_back(&mut world, &once).await;
    let newest = world.records().into_iter().rfind(|record| record.object.name == "a").unwrap();
    assert_eq!((newest.commit.as_str(), newest.outcome), (once.as_str(), Outcome::Unchanged));
    assert!(world.status().ended.is_empty(), "{:?}", world.status().ended);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_let_go_by_the_configuration_that_it_brings_back() {
    let mut world = World::embedded().await;
    let reads = "        envFrom:\n        - configMapRef: {name: settings}\n";
    world.repository.write("web.yaml", format!("{}{reads}", deployment("web", "web:1", "")));
    world.push("settings.yaml", &config_map("settings", "1"), "First version");
    world.start();
    let first = world.repository.tip().unwrap();
    world.through(&first).await;
    let bad = world.push("web.yaml", &format!("{}{reads}", broken("web", "never-ready")), "Broken");
    world.through(&bad).await;
    let settings = world.push("settings.yaml", &config_map("settings", "2"), "Other settings");
    world.through(&settings).await;
    assert_eq!(world.record(&settings, "Deployment default/web").outcome, Outcome::RolledBack);
    // The held manifest is the same, and its configuration is another one.
    set_back(&mut world, &bad).await;
    let tries = records(&world, &bad, "Deployment default/web");
    assert_eq!((tries.len(), tries[1].outcome, tries[1].rolls_out), (2, Outcome::RolledBack, true), "{tries:#?}");
}
