//! `belay.dev/after` on an object: it is applied when the workloads that it names are complete at this commit.

use std::time::Duration;

use belay_core::rollout::{Outcome, Trigger};

use crate::support::daemon::{World, broken, config_map, deployment, image, path_of, short};
use crate::support::tap::Fate;

/// Returns a Deployment that waits for others.
fn after(name: &str, others: &str, manifest: &str) -> String {
    let named = format!("  name: {name}\n");
    manifest.replacen(&named, &format!("{named}  annotations: {{belay.dev/after: \"{others}\"}}\n"), 1)
}

fn ready_after(name: &str, image: &str, seconds: u32) -> String {
    broken(name, &format!("ready-after={seconds}s")).replace("web:2", image)
}

#[tokio::test(start_paused = true)]
async fn one_begins_when_the_other_is_complete() {
    let mut world = World::embedded().await;
    world.repository.write("db.yaml", ready_after("db", "db:1", 20));
    world.repository.write("queue.yaml", ready_after("queue", "queue:1", 10));
    world
        .repository
        .write("web.yaml", after("web", "deploy/db, default/deployment/queue", &deployment("web", "web:1", "")));
    world.repository.write("settings.yaml", after("settings", "deployment/web", &config_map("settings", "1")));
    let first = world.repository.commit("All at once");
    world.repository.push();
    world.start();
    world
        .until("it says so", |source| {
            source.under_way.values().any(|way| way.message == "waits for deployment/db, deployment/queue")
        })
        .await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert!(world.get(&path_of("web")).await.is_none());
    world
        .until("one less", |source| source.under_way.values().any(|way| way.message == "waits for deployment/db"))
        .await;
    assert!(!world.status().settled);
    world.through(&first).await;
    let record = |name: &str| world.record(&first, name);
    let (db, web) = (record("Deployment default/db"), record("Deployment default/web"));
    assert_eq!((db.outcome, web.outcome), (Outcome::Complete, Outcome::Complete));
    let applied = |id| {
        world
            .history()
            .steps(id)
            .unwrap()
            .into_iter()
            .find(|step| step.kind == belay_core::rollout::StepKind::Applied)
            .unwrap()
            .at
    };
    assert!(applied(web.id) >= db.ended.unwrap(), "applied before the other was complete");
    let settings = record("ConfigMap default/settings");
    assert!(settings.ended.unwrap() >= web.ended.unwrap(), "{settings:#?}");
    assert!(world.status().under_way.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_does_not_change_is_complete_already() {
    let mut world = World::embedded().await;
    world.repository.write("db.yaml", deployment("db", "db:1", ""));
    let first = world.push("web.yaml", &after("web", "deployment/db", &deployment("web", "web:1", "")), "First");
    world.start();
    world.through(&first).await;
    let second = world.push("web.yaml", &after("web", "deployment/db", &deployment("web", "web:2", "")), "Second");
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_failure_is_skipped_until_that_is_mended() {
    let mut world = World::embedded().await;
    world.repository.write("db.yaml", deployment("db", "db:1", ""));
    world.repository.write("web.yaml", after("web", "deployment/db", &deployment("web", "web:1", "")));
    let first = world.push("ui.yaml", &after("ui", "deployment/web", &deployment("ui", "ui:1", "")), "First");
    world.start();
    world.through(&first).await;
    world.repository.write("db.yaml", broken("db", "crash-after=1s"));
    world.repository.write("web.yaml", after("web", "deployment/db", &deployment("web", "web:2", "")));
    let bad = world.push("ui.yaml", &after("ui", "deployment/web", &deployment("ui", "ui:2", "")), "Bad");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/db").outcome, Outcome::RolledBack);
    let web = world.record(&bad, "Deployment default/web");
    assert_eq!(web.outcome, Outcome::Skipped);
    let reason = web.reason.unwrap().message;
    assert!(reason.starts_with("waits for deployment/db, which is rolled-back: "), "{reason}");
    let ui = world.record(&bad, "Deployment default/ui");
    assert_eq!(ui.outcome, Outcome::Skipped, "{ui:#?}");
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
    // Nothing is tried in between, also not by a daemon that starts again.
    let count = world.records().len();
    world.stop().await;
    world.start();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(world.records().len(), count);
    let mended = world.push("db.yaml", &deployment("db", "db:3", ""), "Mend the database");
    world.through(&mended).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:2");
    world.until("all of it", |source| source.settled && source.under_way.is_empty()).await;
    assert_eq!(image(&world.get(&path_of("ui")).await.unwrap()), "ui:2");
    let records = world.records();
    let again = records.iter().rfind(|record| record.object.name == "web").unwrap();
    assert_eq!((again.commit.as_str(), again.outcome), (bad.as_str(), Outcome::Complete));
    assert_eq!(again.trigger, Trigger::After("deployment/db".to_owned()));
}

/// The API server refuses the first of a row before anything is applied: nobody in the row waits for good, in whichever
/// order their names are.
#[tokio::test(start_paused = true)]
async fn a_row_behind_what_is_refused_is_skipped_and_begun_later() {
    for third in ["zoo", "api"] {
        let mut world = World::embedded().await;
        let write = |world: &mut World, version: u32, db: &str| {
            let of = |name: &str| deployment(name, &format!("{name}:{version}"), "");
            world.repository.write("db.yaml", db);
            world.repository.write("web.yaml", after("web", "deployment/db", &of("web")));
            world.repository.write("third.yaml", after(third, "deployment/web", &of(third)));
            let commit = world.repository.commit(&format!("Version {version}"));
            world.repository.push();
            commit
        };
        let first = write(&mut world, 1, &deployment("db", "db:1", ""));
        world.start();
        world.through(&first).await;
        let second = write(&mut world, 2, &deployment("db", "db:2", "").replace("app: db", "app: other"));
        world.through(&second).await;
        let outcome = |name: &str| world.record(&second, &format!("Deployment default/{name}")).outcome;
        assert_eq!(
            (outcome("db"), outcome("web"), outcome(third)),
            (Outcome::Rejected, Outcome::Skipped, Outcome::Skipped)
        );
        assert!(world.status().under_way.is_empty(), "{:#?}", world.status().under_way);
        world.push("db.yaml", &deployment("db", "db:2", ""), "Mended");
        world.until("it is synced", |source| source.summary() == "synced (3 complete)").await;
        assert_eq!(image(&world.get(&path_of(third)).await.unwrap()), format!("{third}:2"));
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_survives_a_restart_and_gives_way_to_a_newer_commit() {
    let mut world = World::embedded().await;
    world.repository.write("db.yaml", ready_after("db", "db:1", 25));
    let first = world.push("web.yaml", &after("web", "deployment/db", &deployment("web", "web:1", "")), "First");
    world.start();
    world
        .until("it waits", |source| source.under_way.values().any(|way| way.message == "waits for deployment/db"))
        .await;
    world.kill().await;
    world.start();
    world
        .until("it waits", |source| source.under_way.values().any(|way| way.message == "waits for deployment/db"))
        .await;
    let second = world.push("web.yaml", &after("web", "deployment/db", &deployment("web", "web:2", "")), "Second");
    world.through(&second).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Superseded);
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
    let (db, web) = (world.record(&first, "Deployment default/db"), world.record(&second, "Deployment default/web"));
    assert!(web.ended.unwrap() > db.ended.unwrap());
}

#[tokio::test(start_paused = true)]
async fn cycles_and_unknown_names_are_complaints() {
    let mut world = World::embedded().await;
    let web = after("web", "deployment/db", &deployment("web", "web:1", ""));
    let first = world.push("web.yaml", &web, "Forgotten");
    world.start();
    world.through(&first).await;
    let record = world.record(&first, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::Rejected);
    let complaint = &record.complaints[0];
    assert!(complaint.message.contains("waits for deployment/db, which is not in the repository"), "{complaint}");
    assert_eq!(complaint.place.to_string(), "web.yaml:5:17");
    let second = world.push("bd.yaml", &deployment("bd", "db:1", ""), "Almost");
    world.through(&second).await;
    assert!(world.get(&path_of("web")).await.is_none());
    let third = world.push("db.yaml", &after("db", "deployment/web", &deployment("db", "db:1", "")), "A circle");
    world.through(&third).await;
    for (name, circle) in [
        ("db", "deployment/db → deployment/web → deployment/db"),
        ("web", "deployment/web → deployment/db → deployment/web"),
    ] {
        let record = world.record(&third, &format!("Deployment default/{name}"));
        assert_eq!(record.outcome, Outcome::Rejected);
        let complaint = record.complaints[0].to_string();
        assert!(
            complaint.contains(circle) && complaint.contains("db.yaml:5:") && complaint.contains("web.yaml:5:"),
            "{complaint}"
        );
        assert!(world.get(&path_of(name)).await.is_none());
    }
    let mended = world.push("db.yaml", &deployment("db", "db:1", ""), "No circle");
    world.through(&mended).await;
    assert_eq!(world.record(&mended, "Deployment default/web").outcome, Outcome::Complete);
    let wrong = world.push("web.yaml", &after("web", "db", &deployment("web", "web:2", "")), "Without its kind");
    world.through(&wrong).await;
    let record = world.record(&wrong, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::Rejected);
    assert!(record.complaints[0].hint.as_ref().unwrap().contains("deployment/db"), "{record:#?}");
    assert!(!short(&wrong).is_empty());
}

/// A look at what waits that began before a newer commit was planned, and comes to its end after it, says nothing any more.
#[tokio::test(start_paused = true)]
async fn what_was_looked_into_for_an_older_commit_is_never_applied_under_a_newer_one() {
    let (mut world, tap) = World::tapped().await;
    let write = |world: &mut World, version: u32, seconds: u32| {
        world.repository.write("web.yaml", ready_after("web", &format!("web:{version}"), seconds));
        let api = deployment("api", &format!("api:{version}"), "");
        world.repository.write("api.yaml", after("api", "deployment/web", &api));
        let commit = world.repository.commit(&format!("Version {version}"));
        world.repository.push();
        commit
    };
    let first = write(&mut world, 1, 1);
    world.start();
    world.through(&first).await;
    write(&mut world, 2, 5);
    world.until("it waits", |source| source.under_way.values().any(|way| way.message.contains("waits for"))).await;
    // The look at what waited takes ever longer waits between its tries.
    tap.rule(|went, _| match went.path.contains("/deployments/api") && went.path.contains("dryRun") {
        true => Fate::Fail(500),
        false => Fate::Pass,
    });
    tokio::time::sleep(Duration::from_secs(78)).await;
    let third = write(&mut world, 3, 20);
    tokio::time::sleep(Duration::from_secs(5)).await;
    tap.rule(|_, _| Fate::Pass);
    tap.take();
    world.through(&third).await;
    assert_eq!(image(&world.get(&path_of("api")).await.unwrap()), "api:3");
    assert_eq!(world.record(&third, "Deployment default/api").outcome, Outcome::Complete);
    let applied = tap.take().into_iter().filter(|went| went.is_write() && went.path.contains("/deployments/api"));
    assert_eq!(applied.count(), 1);
}
