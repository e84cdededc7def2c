//! `on_failure = "roll-back-commit"`: when one object of a commit fails, everything that the commit touched goes back, and
//! is let go when the one that failed is put right.

use belay::config::OnFailure;
use belay_core::rollout::{Hold, Outcome, Trigger};
use serde_json::Value;

use crate::support::daemon::{World, broken, config_map, deployment, image, path_of};
use crate::support::tap::Went;

const MAP: &str = "api/v1/namespaces/default/configmaps/settings";

async fn failed() -> (World, String) {
    let mut world = World::embedded().await;
    world.config.on_failure = OnFailure::RollBackCommit;
    world
        .repository
        .write("a.yaml", deployment("a", "web:1", ""))
        .write("b.yaml", deployment("b", "web:1", ""))
        .write("c.yaml", deployment("c", "web:1", ""))
        .write("settings.yaml", config_map("settings", "1"));
    let good = world.repository.commit("All of them");
    world.repository.push();
    world.start();
    world.through(&good).await;
    world
        .repository
        .write("a.yaml", broken("a", "never-ready"))
        .write("b.yaml", deployment("b", "web:2", ""))
        .write("settings.yaml", config_map("settings", "2"));
    let bad = world.repository.commit("One of them is broken");
    world.repository.push();
    world.through(&bad).await;
    (world, bad)
}

async fn images(world: &World) -> Vec<String> {
    let mut images = Vec::new();
    for name in ["a", "b", "c"] {
        images.push(image(&world.get(&path_of(name)).await.unwrap()).to_owned());
    }
    images
}

#[tokio::test(start_paused = true)]
async fn what_is_complete_already_goes_back_too() {
    let (world, bad) = failed().await;
    assert_eq!(images(&world).await, ["web:1", "web:1", "web:1"]);
    assert_eq!(world.get(MAP).await.unwrap()["data"]["A"], "1");
    assert_eq!(world.record(&bad, "Deployment default/a").outcome, Outcome::RolledBack);
    for object in ["Deployment default/b", "ConfigMap default/settings"] {
        let records: Vec<_> = world
            .records()
            .into_iter()
            .filter(|record| record.commit.as_str() == bad && record.object.to_string() == object)
            .collect();
        assert_eq!(records.len(), 2, "{records:#?}");
        assert_eq!(records[0].outcome, Outcome::Complete);
        assert!(
            matches!(&records[1].trigger, Trigger::Together(with) if with.to_string() == "Deployment default/a"),
            "{:?}",
            records[1]
        );
        assert_eq!(records[1].outcome, Outcome::RolledBack, "{records:#?}");
    }
    assert!(Hold::on(&world.get(&path_of("c")).await.unwrap()).is_none(), "the commit did not touch it");
    assert_eq!(world.status().held.len(), 3);
}

/// The configuration may be what it failed by: the workload goes back onto what it was well with, though others of the
/// commit read the same.
#[tokio::test(start_paused = true)]
async fn its_configuration_goes_back_before_it() {
    let (mut world, tap) = World::tapped().await;
    world.config.on_failure = OnFailure::RollBackCommit;
    let reads = |manifest: String| format!("{manifest}        envFrom: [{{configMapRef: {{name: settings}}}}]\n");
    world
        .repository
        .write("a.yaml", reads(deployment("a", "web:1", "")))
        .write("b.yaml", reads(deployment("b", "web:1", "")))
        .write("c.yaml", reads(deployment("c", "web:1", "")))
        .write("settings.yaml", config_map("settings", "1"));
    let good = world.repository.commit("All of them");
    world.repository.push();
    world.start();
    world.through(&good).await;
    tap.take();
    world
        .repository
        .write("a.yaml", reads(broken("a", "never-ready")))
        .write("b.yaml", reads(deployment("b", "web:2", "")))
        .write("settings.yaml", config_map("settings", "2"));
    let bad = world.repository.commit("One of them is broken");
    world.repository.push();
    world.through(&bad).await;
    let writes: Vec<_> = tap.take().into_iter().filter(Went::changes_an_object).collect();
    let last = |name: &str| writes.iter().rposition(|went| went.path.contains(name)).unwrap();
    assert!(last("/configmaps/settings?") < last("/deployments/a?"), "{writes:#?}");
    assert_eq!(world.get(MAP).await.unwrap()["data"]["A"], "1");
    assert_eq!(images(&world).await, ["web:1", "web:1", "web:1"]);
    let settings: Vec<_> = world.records().into_iter().filter(|record| record.object.kind == "ConfigMap").collect();
    let outcomes: Vec<_> = settings.iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::Complete, Outcome::Complete, Outcome::RolledBack], "{settings:#?}");
}

#[tokio::test(start_paused = true)]
async fn it_stays_back_after_a_restart() {
    let (mut world, bad) = failed().await;
    let generation = |live: Value| live["metadata"]["generation"].clone();
    let before = generation(world.get(&path_of("b")).await.unwrap());
    world.stop().await;
    world.start();
    world.through(&bad).await;
    tokio::time::sleep(std::time::Duration::from_mins(5)).await;
    assert_eq!(images(&world).await, ["web:1", "web:1", "web:1"]);
    assert_eq!(world.get(MAP).await.unwrap()["data"]["A"], "1");
    assert_eq!(generation(world.get(&path_of("b")).await.unwrap()), before);
}

#[tokio::test(start_paused = true)]
async fn all_of_it_goes_on_when_the_one_that_failed_is_put_right() {
    let (mut world, _) = failed().await;
    let fix = world.push("a.yaml", &deployment("a", "web:3", ""), "Fix it");
    world.through(&fix).await;
    assert_eq!(images(&world).await, ["web:3", "web:2", "web:1"]);
    assert_eq!(world.get(MAP).await.unwrap()["data"]["A"], "2");
    assert!(world.status().held.is_empty(), "{:?}", world.status().held);
}

#[tokio::test(start_paused = true)]
async fn what_is_still_under_way_goes_back_at_once() {
    let mut world = World::embedded().await;
    world.config.on_failure = OnFailure::RollBackCommit;
    world.repository.write("a.yaml", deployment("a", "web:1", "")).write("b.yaml", deployment("b", "web:1", ""));
    let good = world.repository.commit("Both");
    world.repository.push();
    world.start();
    world.through(&good).await;
    let slow = broken("b", "never-ready").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 3000");
    world.repository.write("a.yaml", broken("a", "never-ready")).write("b.yaml", slow);
    let bad = world.repository.commit("Both broken, one slowly");
    world.repository.push();
    world.through(&bad).await;
    let other = world.record(&bad, "Deployment default/b");
    assert_eq!(other.outcome, Outcome::RolledBack);
    assert!(other.reason.unwrap().message.contains("Deployment default/a of the same commit failed"));
    assert!(other.ended.unwrap().duration_since(other.started).as_secs() < 120);
}

/// The next daemon finishes it, wherever the first was killed.
#[tokio::test(start_paused = true)]
async fn a_kill_in_the_middle_changes_nothing() {
    for moment in 0..12 {
        let mut world = World::embedded().await;
        world.config.on_failure = OnFailure::RollBackCommit;
        world.repository.write("a.yaml", deployment("a", "web:1", "")).write("b.yaml", deployment("b", "web:1", ""));
        world
            .repository
            .write("c.yaml", deployment("c", "web:1", ""))
            .write("settings.yaml", config_map("settings", "1"));
        world.with_all_of_them().await;
        let slow = broken("c", "never-ready").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 3000");
        world.repository.write("a.yaml", broken("a", "never-ready")).write("b.yaml", deployment("b", "web:2", ""));
        world.repository.write("c.yaml", slow).write("settings.yaml", config_map("settings", "2"));
        let bad = world.repository.commit("One of them is broken");
        world.repository.push();
        world.until("a is back", |source| source.ended.keys().any(|key| key.name == "a")).await;
        tokio::time::sleep(std::time::Duration::from_millis(moment * 2)).await;
        world.kill().await;
        world.start();
        world.through(&bad).await;
        tokio::time::sleep(std::time::Duration::from_mins(3)).await;
        world.through(&bad).await;
        assert_eq!(images(&world).await, ["web:1", "web:1", "web:1"], "{moment}");
        assert_eq!(world.get(MAP).await.unwrap()["data"]["A"], "1", "{moment}");
        for object in ["Deployment default/b", "Deployment default/c", "ConfigMap default/settings"] {
            let of = |record: &belay_core::rollout::Record| {
                record.commit.as_str() == bad && record.object.to_string() == object
            };
            let newest = world.records().into_iter().rfind(of).unwrap();
            assert_eq!(newest.outcome, Outcome::RolledBack, "{moment}: {newest:#?}");
        }
    }
}

/// A daemon that took over, and that knows of what was complete only that it was as the commit says.
#[tokio::test(start_paused = true)]
async fn all_of_it_goes_back_after_a_failover_too() {
    let mut world = World::embedded().await;
    world.config.on_failure = OnFailure::RollBackCommit;
    world.repository.write("a.yaml", deployment("a", "web:1", "")).write("b.yaml", deployment("b", "web:1", ""));
    world.repository.write("c.yaml", deployment("c", "web:1", "")).write("settings.yaml", config_map("settings", "1"));
    world.with_all_of_them().await;
    world.repository.write("a.yaml", broken("a", "never-ready")).write("b.yaml", deployment("b", "web:2", ""));
    world.repository.write("settings.yaml", config_map("settings", "2"));
    let bad = world.repository.commit("One of them is broken");
    world.repository.push();
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    world.kill().await;
    // The killed daemon's last writes go with its folder.
    std::fs::rename(world.repository.beside("state"), world.repository.beside("lost-state")).unwrap();
    world.start();
    world.through(&bad).await;
    assert_eq!(images(&world).await, ["web:1", "web:1", "web:1"]);
    assert_eq!(world.get(MAP).await.unwrap()["data"]["A"], "1");
}

/// Workloads `a` and `b` that read the settings, and are rolled out when those change.
async fn readers_of_settings() -> World {
    let mut world = World::embedded().await;
    (world.config.roll_on_config, world.config.on_failure) = (true, OnFailure::RollBackCommit);
    world.repository.write("settings.yaml", config_map("settings", "1"));
    for name in ["a", "b"] {
        world.repository.write(format!("{name}.yaml"), reads(&deployment(name, "web:1", "")));
    }
    world.with_all_of_them().await;
    world
}

fn reads(manifest: &str) -> String {
    format!("{manifest}        envFrom: [{{configMapRef: {{name: settings}}}}]\n")
}

async fn template(world: &World, name: &str) -> Value {
    world.get(&path_of(name)).await.unwrap()["spec"]["template"].clone()
}

/// Pushes other settings with a broken `a`, and waits until `b` is complete with them.
async fn b_is_complete_with_a_bad_commit(world: &mut World) -> String {
    world.repository.write("settings.yaml", config_map("settings", "2"));
    let bad = world.push("a.yaml", &reads(&broken("a", "never-ready")), "One of them is broken");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(std::time::Duration::from_secs(15)).await;
    assert_eq!(world.record(&bad, "Deployment default/b").outcome, Outcome::Complete);
    bad
}

/// The commit changed only the configuration that they read, which a daemon without the history sees in Git alone.
#[tokio::test(start_paused = true)]
async fn what_its_configuration_rolled_goes_back_after_a_failover_too() {
    for knows_the_good_one in [false, true] {
        let mut world = readers_of_settings().await;
        let (a, b) = (template(&world, "a").await, template(&world, "b").await);
        let (state, other) = (world.repository.beside("state"), world.repository.beside("other-state"));
        if knows_the_good_one {
            world.stop().await;
            let copied = std::process::Command::new("cp").arg("-r").arg(&state).arg(&other).status().unwrap();
            assert!(copied.success());
            world.start();
        }
        let bad = b_is_complete_with_a_bad_commit(&mut world).await;
        world.kill().await;
        // The killed daemon's last writes go with its folder.
        std::fs::rename(&state, world.repository.beside("lost-state")).unwrap();
        if knows_the_good_one {
            std::fs::rename(&other, &state).unwrap();
        }
        world.start();
        world.through(&bad).await;
        assert_eq!(world.get(MAP).await.unwrap()["data"]["A"], "1", "{knows_the_good_one}");
        assert_eq!(template(&world, "a").await, a, "{knows_the_good_one}");
        assert_eq!(template(&world, "b").await, b, "{knows_the_good_one}");
        tokio::time::sleep(std::time::Duration::from_mins(5)).await;
        world.through(&bad).await;
        assert_eq!(template(&world, "b").await, b, "{knows_the_good_one}");
    }
}

/// A commit of which one was replaced before it was complete, and not complete since, is nothing to go back to.
#[tokio::test(start_paused = true)]
async fn all_of_it_goes_back_before_a_commit_that_never_was_complete() {
    let mut world = readers_of_settings().await;
    let (a, b) = (template(&world, "a").await, template(&world, "b").await);
    b_is_complete_with_a_bad_commit(&mut world).await;
    let second = world.push("settings.yaml", &config_map("settings", "3"), "Other settings, in a hurry");
    world.through(&second).await;
    assert_eq!(world.get(MAP).await.unwrap()["data"]["A"], "1");
    assert_eq!((template(&world, "a").await, template(&world, "b").await), (a, b));
}
