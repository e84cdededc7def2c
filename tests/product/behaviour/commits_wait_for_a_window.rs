//! `[[source.window]]`: commits wait outside of the windows; all else goes on.

use std::time::Duration;

use belay::config::WindowConfig;
use belay_core::rollout::{Outcome, SourceState};
use jiff::tz::TimeZone;
use serde_json::json;

use crate::support::daemon::{World, broken, config_map, deployment, image, path_of};

/// Returns a world whose clock shows Thursday, 0:00, and in which commits wait from 0:05 to 2:00. Its first commit is live.
async fn closed_from_five_past_midnight() -> World {
    let mut world = World::embedded().await;
    let deny = Some("Thu 00:05-02:00".parse().unwrap());
    world.config.window = vec![WindowConfig { allow: None, deny, timezone: TimeZone::UTC }];
    world.repository.write("other.yaml", deployment("other", "web:1", ""));
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "The first");
    world.start();
    world.through(&first).await;
    world
}

async fn live_image(world: &World, name: &str) -> String {
    image(&world.get(&path_of(name)).await.expect("it is live")).to_owned()
}

/// Waits until the clock of the world shows a time of its first day.
async fn until(world: &World, time: &str) {
    let at: jiff::Timestamp = format!("2026-01-01T{time}Z").parse().unwrap();
    let left = at.duration_since(world.clock.now());
    tokio::time::sleep(Duration::try_from(left).expect("it is not over")).await;
}

async fn until_it_waits(world: &mut World) {
    let waits = "waits until Thu 2026-01-01 02:00 UTC: outside of its windows";
    world.until("it waits", |source| source.obstacles.waits.as_deref() == Some(waits)).await;
}

#[tokio::test(start_paused = true)]
async fn they_go_out_as_one_head_when_it_opens() {
    let mut world = closed_from_five_past_midnight().await;
    until(&world, "00:05:00").await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "The second");
    until_it_waits(&mut world).await;
    world.until_state("shop", Some(SourceState::Waiting)).await;
    world.repository.write("map.yaml", config_map("map", "1"));
    let third = world.push("web.yaml", &deployment("web", "web:3", ""), "The third");
    world.until("the third is seen", |source| source.head.as_ref().is_some_and(|head| head.as_str() == third)).await;
    until(&world, "01:59:58").await;
    assert_eq!(live_image(&world, "web").await, "web:1");
    assert!(world.get("api/v1/namespaces/default/configmaps/map").await.is_none());
    world.through(&third).await;
    assert_eq!(live_image(&world, "web").await, "web:3");
    assert_eq!(world.record(&third, "Deployment default/web").outcome, Outcome::Complete);
    assert!(world.records().iter().all(|record| record.commit.as_str() != second), "{:#?}", world.records());
    assert_eq!(world.status().obstacles.waits, None);
    let passed = world.clock.now().duration_since("2026-01-01T02:00:00Z".parse().unwrap());
    assert!((0..60).contains(&passed.as_secs()), "{passed}");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_does_not_wait_nor_does_a_correction() {
    let mut world = closed_from_five_past_midnight().await;
    until(&world, "00:04:45").await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Never ready");
    world.until("it rolls out", |source| !source.under_way.is_empty()).await;
    until(&world, "00:05:00").await;
    let good = world.push("web.yaml", &deployment("web", "web:3", ""), "The fix");
    until_it_waits(&mut world).await;
    for _ in 0..300 {
        if world.record(&bad, "Deployment default/web").outcome.is_final() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    assert_eq!(live_image(&world, "web").await, "web:1");

    // Another's change is put right, by the daemon that is there, and by one that begins meanwhile.
    for begins in [false, true] {
        let container = json!([{"name": "app", "image": "web:9"}]);
        let change = json!({"spec": {"template": {"spec": {"containers": container}}}});
        if begins {
            world.kill().await;
        }
        world.patch(&path_of("other"), "kubectl-edit", &change).await;
        if begins {
            world.start();
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(live_image(&world, "other").await, "web:1", "{begins}");
        until_it_waits(&mut world).await;
    }
    until(&world, "01:59:00").await;
    assert_eq!(live_image(&world, "web").await, "web:1");
    world.through(&good).await;
    assert_eq!(live_image(&world, "web").await, "web:3");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_was_planned_does_not_wait_after_a_restart() {
    let mut world = closed_from_five_past_midnight().await;
    until(&world, "00:04:45").await;
    let second = world.push("web.yaml", &broken("web", "ready-after=25s"), "Slow");
    world.until("it rolls out", |source| !source.under_way.is_empty()).await;
    world.kill().await;
    until(&world, "00:05:05").await;
    world.start();
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
    until(&world, "01:00:00").await;
    assert_eq!(world.status().obstacles.waits, None);
}

#[tokio::test(start_paused = true)]
async fn a_configuration_without_the_window_lets_it_through() {
    let mut world = closed_from_five_past_midnight().await;
    until(&world, "00:05:00").await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "The second");
    until_it_waits(&mut world).await;
    world.config.window.clear();
    world.reload().await.expect("a good configuration");
    world.through(&second).await;
    assert_eq!(live_image(&world, "web").await, "web:2");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_taken_back_is_waited_for_no_longer() {
    let mut world = closed_from_five_past_midnight().await;
    let first = world.status().planned.expect("it is planned");
    until(&world, "00:05:00").await;
    world.push("web.yaml", &deployment("web", "web:2", ""), "The second");
    until_it_waits(&mut world).await;
    world.repository.reset(first.as_str());
    world.repository.force_push();
    world.until("it waits no longer", |source| source.obstacles.waits.is_none()).await;
    world.through(first.as_str()).await;
    assert_eq!(live_image(&world, "web").await, "web:1");
    assert!(world.clock.now() < "2026-01-01T00:10:00Z".parse().unwrap(), "it is still closed");
}

/// Asks for the present head, as `belay sync --now` does.
async fn let_through(world: &World, second: i64) {
    let request = json!({"by": "ada", "at": jiff::Timestamp::from_second(second).unwrap()}).to_string();
    let lease = "apis/coordination.k8s.io/v1/namespaces/default/leases/belay-shop";
    world.patch(lease, "ada", &json!({"metadata": {"annotations": {"belay.dev/sync-now": request}}})).await;
}

#[tokio::test(start_paused = true)]
async fn a_person_lets_one_head_through() {
    let mut world = closed_from_five_past_midnight().await;
    until(&world, "00:05:00").await;
    // Nothing waits yet: that lets no later head through.
    let_through(&world, 1).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "The second");
    until_it_waits(&mut world).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(live_image(&world, "web").await, "web:1");
    let_through(&world, 2).await;
    world.through(&second).await;
    assert_eq!(live_image(&world, "web").await, "web:2");
    let passed = world.clock.now().duration_since("2026-01-01T00:10:00Z".parse().unwrap());
    assert!(passed.as_secs() < 90, "{passed}");
    let record = world.record(&second, "Deployment default/web");
    let steps = world.history().steps(record.id).unwrap();
    assert!(
        steps.iter().any(|step| step.detail == "let through outside of its windows by ada"),
        "it is written down who did: {steps:#?}"
    );
    // The next one waits again, also after a restart, which finds the old request.
    world.push("web.yaml", &deployment("web", "web:3", ""), "The third");
    until_it_waits(&mut world).await;
    world.kill().await;
    world.start();
    until_it_waits(&mut world).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(live_image(&world, "web").await, "web:2");
}
