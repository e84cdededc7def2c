//! A daemon that starts while the repository does not answer keeps up what was planned last, and no more.

use std::path::PathBuf;
use std::time::Duration;

use belay::history::Trouble;
use belay::rollout::{Hold, Outcome, Trigger};
use serde_json::json;

use crate::world::daemon::{World, broken, config_map, image, path_of};

/// Kills the daemon, takes the repository away, and starts it again. Returns where the repository is meanwhile.
async fn restarted(world: &mut World) -> PathBuf {
    world.kill().await;
    let away = taken_away(world);
    world.start();
    away
}

fn taken_away(world: &World) -> PathBuf {
    let away = world.repository.beside("away");
    std::fs::rename(world.repository.path(), &away).unwrap();
    away
}

fn is_back(world: &World, away: PathBuf) {
    std::fs::rename(away, world.repository.path()).unwrap();
}

/// What the history says is in the source's way.
fn trouble(world: &World) -> Option<Trouble> {
    world.history().followed().unwrap().remove(0).trouble
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_judged_on_and_taken_back() {
    let (mut world, good) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    let away = restarted(&mut world).await;
    world.until("it went back", |source| !source.held.is_empty() && source.under_way.is_empty()).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((image(&live), Hold::on(&live).unwrap().commit.as_str()), ("web:1", bad.as_str()));
    let record = world.record(&bad, "Deployment default/web");
    assert_eq!((record.outcome, record.back_to.unwrap().as_str()), (Outcome::RolledBack, good.as_str()));
    let told = world.status().trouble.remove("repository").expect("it says so");
    assert_eq!(trouble(&world).expect("and notes it").message, told);
    assert!(!world.status().settled, "nobody may think that all is through");

    is_back(&world, away);
    let fix = world.push("web.yaml", &broken("web", "ready-after=1s"), "Fix it");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!((trouble(&world), world.status().trouble.get("repository")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn holds_are_told_and_drift_is_put_right() {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "image-pull-error"), "Broken");
    world.through(&bad).await;
    restarted(&mut world).await;
    world.until("the hold is told", |source| source.held.values().any(|held| held.commit.as_str() == bad)).await;
    world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 5}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((&live["spec"]["replicas"], image(&live)), (&json!(2), "web:1"));
    assert_eq!(world.records().pop().unwrap().trigger, Trigger::Drift("kubectl-scale".to_owned()));
}

/// A branch that is gone is no more of an answer.
#[tokio::test(start_paused = true)]
async fn or_while_its_branch_is_gone() {
    let (mut world, first) = World::with_web().await;
    world.kill().await;
    world.repository.push_refspec("refs/heads/main:refs/heads/other");
    world.repository.delete_pushed("main");
    world.start();
    world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 5}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 2);
    assert!(trouble(&world).unwrap().message.contains("has no branch main"), "{:?}", trouble(&world));
    world.repository.push();
    world.through(&first).await;
    assert_eq!(trouble(&world), None);
}

/// Another daemon may have gone on with commits that this one has never seen.
#[tokio::test(start_paused = true)]
async fn what_another_daemon_has_applied_is_left_alone() {
    let (mut world, first) = World::with_web().await;
    let unknown = "f".repeat(40);
    let newer = json!({"metadata": {"annotations": {"belay.dev/commit": unknown}},
        "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:7"}]}}}});
    world.stop().await;
    world.patch(&path_of("web"), "belay-elsewhere", &newer).await;
    let away = taken_away(&world);
    world.start();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:7");
    is_back(&world, away);
    world.through(&first).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1", "now it is known what Git says");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted() {
    let map = "api/v1/namespaces/default/configmaps/map-0";
    let mut world = World::embedded().await;
    for number in 0..3 {
        world.repository.write(format!("{number}.yaml"), config_map(&format!("map-{number}"), "1"));
    }
    let first = world.repository.commit("All of them");
    world.repository.push();
    world.start();
    world.through(&first).await;
    world.repository.remove("0.yaml");
    let gone = world.repository.commit("Away with it");
    world.repository.push();
    world.through(&gone).await;
    assert!(world.get(map).await.is_some(), "prune is off");
    world.config.prune = true;
    let away = restarted(&mut world).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(world.get(map).await.is_some());
    is_back(&world, away);
    world.through(&gone).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.get(map).await, None);
}
