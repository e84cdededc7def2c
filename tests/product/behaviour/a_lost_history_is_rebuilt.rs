//! The history file is lost or damaged: a fresh one is begun, what the cluster and Git still say is put into it and marked
//! as that, holds stay, and the way back is known.

use std::collections::BTreeMap;
use std::path::PathBuf;

use belay::daemon::Obstacle;
use belay::history::Query;
use belay_core::rollout::{Hold, Outcome, Record, SourceState, Trigger};

use crate::support::daemon::{World, broken, deployment, image, path_of};

/// Returns a first version, a second one, and a third that was taken back and is held.
async fn held() -> (World, [String; 3]) {
    let mut world = World::embedded().await;
    world.repository.author("Ada", "ada@example.com");
    let first = world.with_first_version().await;
    let second = world.push("web.yaml", &deployment("web", "web:1.1", ""), "Second version");
    world.through(&second).await;
    let third = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&third).await;
    world.stop().await;
    (world, [first, second, third])
}

fn file(world: &World) -> PathBuf {
    world.repository.beside("state/history.db")
}

fn rebuilt(world: &World) -> Vec<Record> {
    world.records().into_iter().filter(|record| record.trigger == Trigger::Rebuilt).collect()
}

async fn is_rebuilt(mut world: World, [first, second, third]: [String; 3]) {
    world.start();
    world.through(&third).await;
    let records = rebuilt(&world);
    let told: Vec<(&str, Outcome)> = records.iter().map(|record| (record.commit.as_str(), record.outcome)).collect();
    let wanted = [
        (first.as_str(), Outcome::Unknown),
        (second.as_str(), Outcome::Complete),
        (third.as_str(), Outcome::RolledBack),
    ];
    assert_eq!(told, wanted, "{records:#?}");
    let failed = &records[2];
    assert!(failed.reason.as_ref().unwrap().message.contains("progress deadline"), "{failed:#?}");
    assert_eq!(failed.back_to.as_ref().map(|commit| commit.as_str()), Some(second.as_str()));
    assert!(failed.manifest_hash.is_some() && failed.evidence.is_none() && failed.place.is_none(), "{failed:#?}");
    let known = world.history().commit(&records[0].commit).unwrap().expect("from Git");
    assert_eq!((known.subject.as_str(), known.author.name.as_str()), ("First version", "Ada"));
    assert!(world.history().rebuilt("shop").unwrap().is_some());

    // A held workload stays held, and is reported again.
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), Hold::on(&live).unwrap().commit.as_str()), ("web:1.1", third.as_str()));
    assert_eq!(world.status().held.len(), 1);
    let again = Query { outcomes: [Outcome::Held].into(), ..Query::default() };
    assert_eq!(world.history().records(&again).unwrap().len(), 1);

    // Nothing is rebuilt twice.
    world.stop().await;
    world.start();
    world.through(&third).await;
    assert_eq!(rebuilt(&world).len(), 3);

    // The way back is known, also if the cluster keeps no revision.
    let good = belay::history::History::read_only(&world.repository.beside("state")).unwrap();
    let last = good.last_good("shop", &records[0].object).unwrap().unwrap();
    assert_eq!(last.record.commit.as_str(), second);
    let containers = &last.template.unwrap()["spec"]["containers"];
    assert_eq!(containers[0]["image"], "web:1.1");
    let worse = world.push("web.yaml", &broken("web", "crash-after=1s").replace("web:2", "web:3"), "Worse");
    world.through(&worse).await;
    let record = world.record(&worse, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::RolledBack);
    assert_eq!(record.back_to.as_ref().map(|commit| commit.as_str()), Some(second.as_str()));
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1.1");
}

#[tokio::test(start_paused = true)]
async fn when_it_was_deleted() {
    let (world, commits) = held().await;
    std::fs::remove_file(file(&world)).unwrap();
    is_rebuilt(world, commits).await;
}

#[tokio::test(start_paused = true)]
async fn when_it_was_cut_off() {
    let (world, commits) = held().await;
    let whole = std::fs::read(file(&world)).unwrap();
    std::fs::write(file(&world), &whole[..whole.len() / 2]).unwrap();
    is_rebuilt(world, commits).await;
}

#[tokio::test(start_paused = true)]
async fn when_it_is_garbage() {
    let (world, commits) = held().await;
    std::fs::write(file(&world), "not a database\n".repeat(1000)).unwrap();
    is_rebuilt(world, commits).await;
}

#[tokio::test(start_paused = true)]
async fn when_the_whole_state_folder_is_gone() {
    let (world, commits) = held().await;
    std::fs::remove_dir_all(world.repository.beside("state")).unwrap();
    is_rebuilt(world, commits).await;
}

#[tokio::test(start_paused = true)]
async fn while_a_rollout_is_under_way_it_is_taken_up() {
    let (mut world, first) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    world.kill().await;
    for name in ["history.db", "history.db-wal", "history.db-shm"] {
        drop(std::fs::remove_file(world.repository.beside("state").join(name)));
    }
    world.start();
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack, "{:#?}", world.records());
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
    let told: Vec<String> = rebuilt(&world).iter().map(|record| record.commit.to_string()).collect();
    assert_eq!(told, [first], "what is under way has a record of its own");
}

#[tokio::test(start_paused = true)]
async fn every_kind_that_has_revisions() {
    let mut world = World::embedded().await;
    let set = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec:\n  selector: {matchLabels: {app: \
               agent}}\n  template:\n    metadata: {labels: {app: agent}}\n    spec:\n      containers: [{name: app, image: \
               \"agent:1\"}]\n";
    let stateful = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n  serviceName: db\n  selector: \
                    {matchLabels: {app: db}}\n  template:\n    metadata: {labels: {app: db}}\n    spec:\n      containers: \
                    [{name: app, image: \"db:1\"}]\n";
    world.repository.write("agent.yaml", set).write("db.yaml", stateful);
    let first = world.repository.commit("Agents and a database");
    world.repository.push();
    world.start();
    world.through(&first).await;
    world.repository.write("agent.yaml", set.replace("agent:1", "agent:2"));
    world.repository.write("db.yaml", stateful.replace("db:1", "db:2"));
    let second = world.repository.commit("Newer ones");
    world.repository.push();
    world.through(&second).await;
    world.stop().await;
    std::fs::remove_file(file(&world)).unwrap();
    world.start();
    world.through(&second).await;
    let mut told: Vec<(String, bool, Outcome)> = rebuilt(&world)
        .iter()
        .map(|record| (record.object.to_string(), record.commit.as_str() == second, record.outcome))
        .collect();
    told.sort();
    let (agent, db) = ("DaemonSet default/agent".to_owned(), "StatefulSet default/db".to_owned());
    assert_eq!(
        told,
        [
            (agent.clone(), false, Outcome::Unknown),
            (agent, true, Outcome::Complete),
            (db.clone(), false, Outcome::Unknown),
            (db, true, Outcome::Complete)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn when_it_is_damaged_while_it_is_in_use() {
    let (mut world, [first, second, third]) = held().await;
    world.start();
    world.through(&third).await;
    // Everything into the one file, and then over it, as a failing disk does it.
    let connection = rusqlite::Connection::open(file(&world)).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(connection);
    let length = std::fs::metadata(file(&world)).unwrap().len();
    let mut opened = std::fs::OpenOptions::new().write(true).open(file(&world)).unwrap();
    for page in 1..length / 4096 {
        std::io::Seek::seek(&mut opened, std::io::SeekFrom::Start(page * 4096)).unwrap();
        std::io::Write::write_all(&mut opened, &[0x5a; 600]).unwrap();
    }
    // The next commit finds out, or the daily look at the latest.
    let fourth = world.push("web.yaml", &deployment("web", "web:4", ""), "Fourth version");
    world.through(&fourth).await;
    for _ in 0..30 {
        if world.history().begun() == 1 {
            break;
        }
        world.history().mend(world.clock.now()).unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    }
    assert_eq!(world.history().begun(), 1);
    world.through(&fourth).await;
    world.until("it is planned anew", |source| source.settled).await;
    let names: Vec<String> = std::fs::read_dir(world.repository.beside("state"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.iter().any(|name| name.starts_with("history.db.damaged-")), "{names:?}");
    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    let told: Vec<String> = rebuilt(&world).iter().map(|record| record.commit.to_string()).collect();
    for commit in [&first, &second, &third] {
        assert!(told.contains(commit), "{told:?}");
    }
    assert_eq!(world.status().planned.unwrap().as_str(), fourth);
    let fifth = world.push("web.yaml", &deployment("web", "web:5", ""), "Fifth version");
    world.through(&fifth).await;
    assert_eq!(world.record(&fifth, "Deployment default/web").outcome, Outcome::Complete);
}

/// As on a full disk. With room again the plan is written down, and nothing is in the way any more; also if nothing else
/// of it is to be written.
#[tokio::test(start_paused = true)]
async fn one_that_could_not_be_written_blocks_no_longer_than_that() {
    let (mut world, _) = World::with_web().await;
    let disk = rusqlite::Connection::open(file(&world)).unwrap();
    let full = "SELECT RAISE(ABORT, 'database or disk is full')";
    disk.execute_batch(&format!("CREATE TRIGGER full BEFORE INSERT ON commits BEGIN {full}; END")).unwrap();
    let second = world.push("README.md", "Nothing to apply", "Second version");
    world.until("it is told", |source| source.state() == SourceState::Blocked).await;
    assert!(
        world.status().obstacles.trouble[&Obstacle::History].contains("disk is full"),
        "{:?}",
        world.status().obstacles.trouble
    );
    disk.execute_batch("DROP TRIGGER full").unwrap();
    world.through(&second).await;
    assert_eq!((world.status().state(), world.status().obstacles.trouble), (SourceState::Synced, BTreeMap::new()));
}
