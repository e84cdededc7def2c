//! ConfigMaps and Secrets that a failed workload names and that its commit changed go back with it; if somebody else
//! needs them as they are, that is said before anything is done.

use std::time::Duration;

use belay::config::OnFailure;
use belay_core::rollout::{Hold, Outcome, Record, Trigger};
use serde_json::json;

use crate::support::daemon::{World, broken, config_map, deployment, image, path_of};

pub const MAP: &str = "api/v1/namespaces/default/configmaps/settings";
const READS: &str = "        envFrom:\n        - configMapRef: {name: settings}\n";

fn reads(manifest: &str) -> String {
    format!("{manifest}{READS}")
}

/// Waits until a good version of `names` is complete, each of which reads the ConfigMap.
async fn first_version(world: &mut World, names: &[&str]) {
    world.repository.write("settings.yaml", config_map("settings", "1"));
    for name in names {
        world.repository.write(format!("{name}.yaml"), reads(&deployment(name, "web:1", "")));
    }
    let good = world.repository.commit("First version");
    world.repository.push();
    world.start();
    world.through(&good).await;
}

/// A good version of `names`, then one where those in `breaks` are broken, and the ConfigMap another.
pub async fn failed(names: &[&str], breaks: &[&str]) -> (World, String) {
    let mut world = World::embedded().await;
    first_version(&mut world, names).await;
    world.repository.write("settings.yaml", config_map("settings", "2"));
    for name in breaks {
        world.repository.write(format!("{name}.yaml"), reads(&broken(name, "never-ready")));
    }
    let bad = world.repository.commit("Other settings, and broken");
    world.repository.push();
    world.through(&bad).await;
    (world, bad)
}

async fn value(world: &World) -> String {
    world.get(MAP).await.unwrap()["data"]["A"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn what_its_commit_changed_goes_back() {
    let (mut world, bad) = failed(&["web"], &["web"]).await;
    assert_eq!(value(&world).await, "1");
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
    let record = world.records().into_iter().rfind(|record| record.object.kind == "ConfigMap").unwrap();
    assert!(
        matches!(&record.trigger, Trigger::Together(with) if with.to_string() == "Deployment default/web"),
        "{record:?}"
    );
    assert_eq!((record.outcome, record.commit.as_str()), (Outcome::RolledBack, bad.as_str()));
    // It stays back, also against somebody's hand and over a restart.
    world.patch(MAP, "kubectl-edit", &json!({"data": {"A": "9"}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    world.through(&bad).await;
    assert_eq!(value(&world).await, "1");
    world.stop().await;
    world.start();
    world.through(&bad).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(value(&world).await, "1");
}

/// Both take it along, at one moment or one after the other. It goes back once.
#[tokio::test(start_paused = true)]
async fn it_goes_back_once_with_two_workloads() {
    for on_failure in [OnFailure::RollBack, OnFailure::RollBackCommit] {
        for deadline in ["30", "31", "300"] {
            let mut world = World::embedded().await;
            world.config.on_failure = on_failure;
            world.repository.write("settings.yaml", config_map("settings", "1"));
            for name in ["api", "web"] {
                world.repository.write(format!("{name}.yaml"), reads(&deployment(name, "web:1", "")));
            }
            world.with_all_of_them().await;
            let slow = broken("web", "never-ready")
                .replace("progressDeadlineSeconds: 30", &format!("progressDeadlineSeconds: {deadline}"));
            world
                .repository
                .write("settings.yaml", config_map("settings", "2"))
                .write("api.yaml", reads(&broken("api", "never-ready")))
                .write("web.yaml", reads(&slow));
            let bad = world.repository.commit("Other settings, and both broken");
            world.repository.push();
            world.through(&bad).await;
            assert_eq!(value(&world).await, "1", "{on_failure:?} {deadline}");
            let went_back = |record: &Record| {
                record.commit.as_str() == bad
                    && record.object.kind == "ConfigMap"
                    && record.outcome == Outcome::RolledBack
            };
            let went_back: Vec<Record> = world.records().into_iter().filter(went_back).collect();
            assert_eq!(went_back.len(), 1, "{on_failure:?} {deadline}: {went_back:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fix_of_the_workload_brings_both_forward() {
    let (mut world, _) = failed(&["web"], &["web"]).await;
    let fix = world.push("web.yaml", &reads(&deployment("web", "web:3", "")), "Fix it");
    world.through(&fix).await;
    assert_eq!(value(&world).await, "2");
    assert_eq!(Hold::on(&world.get(MAP).await.unwrap()), None);
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:3");
    assert!(world.status().held.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_fix_of_the_configuration_brings_both_forward() {
    let (mut world, _) = failed(&["web"], &["web"]).await;
    let fix = world.push("settings.yaml", &config_map("settings", "3"), "Fix it");
    world.through(&fix).await;
    // The workload is as broken as before: it is tried again with the new settings, and goes back again.
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::RolledBack);
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_the_hold_off_gets_both_again() {
    let (mut world, bad) = failed(&["web"], &["web"]).await;
    world.patch(&path_of("web"), "belay", &json!({"metadata": {"annotations": {"belay.dev/hold": null}}})).await;
    world
        .until("it is tried again", |source| source.under_way.values().any(|way| way.outcome == Outcome::UnderWay))
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(value(&world).await, "2");
    world.through(&bad).await;
}

#[tokio::test(start_paused = true)]
async fn what_another_needs_stays_and_that_is_said_first() {
    let (world, bad) = failed(&["web", "other"], &["web"]).await;
    assert_eq!(value(&world).await, "2", "other names it, and has not failed");
    let record = world.record(&bad, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::RolledBack);
    let steps = world.history().steps(record.id).unwrap();
    let back = steps.iter().find(|step| step.kind == belay_core::rollout::StepKind::GoingBack).unwrap();
    assert!(
        back.detail.contains("ConfigMap default/settings") && back.detail.contains("Deployment default/other"),
        "{back:?}"
    );
    let events = world.list("api/v1/namespaces/default/events").await;
    let told = |event: &&serde_json::Value| event["reason"] == "RollingBack";
    assert!(events.iter().find(told).unwrap()["message"].as_str().unwrap().contains("Deployment default/other"));
}

#[tokio::test(start_paused = true)]
async fn where_all_who_need_it_failed_it_goes_back() {
    let (world, _) = failed(&["web", "other"], &["web", "other"]).await;
    assert_eq!(value(&world).await, "1");
    for name in ["web", "other"] {
        assert_eq!(image(&world.get(&path_of(name)).await.unwrap()), "web:1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_goes_back_and_shows_no_value() {
    const KEY: &str = "api/v1/namespaces/default/secrets/key";
    let secret = |value: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata:\n  name: key\nstringData:\n  token: \"{value}\"\n")
    };
    let uses = |manifest: &str| format!("{manifest}        envFrom:\n        - secretRef: {{name: key}}\n");
    let mut world = World::embedded().await;
    world.repository.write("key.yaml", secret("hunter-one"));
    let good = world.push("web.yaml", &uses(&deployment("web", "web:1", "")), "First version");
    world.start();
    world.through(&good).await;
    let before = world.get(KEY).await.unwrap()["data"].clone();
    world.repository.write("key.yaml", secret("hunter-two"));
    let bad = world.push("web.yaml", &uses(&broken("web", "crash-after=1s")), "Another key, and broken");
    world.through(&bad).await;
    world.until("both are held", |source| source.held.len() == 2).await;
    let live = world.get(KEY).await.unwrap();
    assert_eq!(live["data"], before);
    assert_eq!(Hold::on(&live).unwrap().commit.as_str(), bad);
    let told = format!("{:?} {}", world.records(), serde_json::to_string(&world.whole_status()).unwrap());
    for value in ["hunter-one", "hunter-two", "aHVudGVyLW9uZQ", "aHVudGVyLXR3bw"] {
        assert!(!told.contains(value), "{value} is shown");
    }
}

/// The store goes back to before the hold: the ConfigMap is held again with its workload, and nobody is said to have let
/// it in. Whoever takes the holds off then is obeyed.
#[tokio::test(start_paused = true)]
async fn what_the_cluster_lost_is_held_again_until_somebody_takes_it_off() {
    let mut world = World::embedded().await;
    first_version(&mut world, &["web"]).await;
    world.repository.write("settings.yaml", config_map("settings", "2"));
    world.repository.write("web.yaml", reads(&broken("web", "never-ready")));
    let bad = world.repository.commit("Other settings, and broken");
    world.repository.push();
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let backup = world.cluster.as_ref().unwrap().back_up();
    world.through(&bad).await;
    world.cluster.as_mut().unwrap().restore(&backup).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    world.until("all is quiet", |source| source.settled && source.held.len() == 2).await;
    assert_eq!((value(&world).await, image(&world.get(&path_of("web")).await.unwrap())), ("1".to_owned(), "web:1"));
    assert!(world.records().iter().all(|record| record.trigger != Trigger::Retry), "{:#?}", world.records());
    let off = json!({"metadata": {"annotations": {"belay.dev/hold": null}}});
    world.patch(&path_of("web"), "kubectl-annotate", &off).await;
    world.until("it is tried again", |source| !source.under_way.is_empty()).await;
    let tried = world.records().into_iter().any(|record| record.trigger == Trigger::Retry);
    assert!(tried, "{:#?}", world.records());
}

/// A commit changes what a workload reads while a bad version of it is rolled out: that did not help it, and the version
/// stays held after its verdict.
#[tokio::test(start_paused = true)]
async fn what_changed_before_the_verdict_lets_nothing_in() {
    for on_failure in [OnFailure::RollBack, OnFailure::RollBackCommit] {
        let mut world = World::embedded().await;
        world.config.on_failure = on_failure;
        first_version(&mut world, &["web"]).await;
        let bad = world.push("web.yaml", &reads(&broken("web", "never-ready")), "Broken");
        world.until("it is under way", |source| !source.under_way.is_empty()).await;
        let other = world.push("settings.yaml", &config_map("settings", "2"), "Other settings");
        world.through(&other).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        world.until("all is quiet", |source| source.settled).await;
        let of_web: Vec<Record> =
            world.records().into_iter().filter(|record| record.object.kind == "Deployment").collect();
        assert_eq!(of_web.len(), 2, "{on_failure:?}: {of_web:#?}");
        let hold = Hold::on(&world.get(&path_of("web")).await.unwrap()).expect("it is held");
        assert_eq!(hold.commit.as_str(), bad);
        // A later change may help it.
        let later = world.push("settings.yaml", &config_map("settings", "3"), "Once more");
        world.until("it is tried again", |source| source.under_way.keys().any(|key| key.kind == "Deployment")).await;
        world.through(&later).await;
    }
}
