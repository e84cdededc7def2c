//! What the world does is waited out, told, and never rolled back: an API server that does not answer, a controller that
//! does not act.

use std::time::Duration;

use belay::minicluster::{MiniCluster, Part};
use belay::rollout::{Hold, Outcome};

use crate::world::daemon::{EPOCH, World, broken, deployment, path_of};
use crate::world::tap::Fate;

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_is_asked_again() {
    for code in [409, 429, 500, 503, 504] {
        let (mut world, tap) = World::tapped().await;
        tap.rule(move |_, number| if number < 6 { Fate::Fail(code) } else { Fate::Pass });
        let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
        world.start();
        world.through(&first).await;
        assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete, "{code}");
        assert!(world.status().trouble.is_empty(), "{:?}", world.status().trouble);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_asked_again() {
    let (mut world, tap) = World::tapped().await;
    tap.rule(|_, number| if number < 3 { Fate::Swallow } else { Fate::Pass });
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.until("trouble is told", |source| !source.trouble.is_empty()).await;
    world.through(&first).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_never_answered_is_asked_for_again() {
    let (mut world, tap) = World::tapped().await;
    let mut swallowed = false;
    tap.rule(move |went, _| {
        let first = !swallowed && went.path.contains("/deployments?") && went.path.contains("labelSelector");
        swallowed |= first;
        if first { Fate::Swallow } else { Fate::Pass }
    });
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.through(&first).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
    tokio::time::sleep(Duration::from_mins(2)).await;
    // Only who watches notices that.
    world.delete(&path_of("web")).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.get(&path_of("web")).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_away_in_the_middle_is_no_reason_to_go_back() {
    let (mut world, tap) = World::tapped().await;
    let good = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.through(&good).await;
    let slow = broken("web", "ready-after=20s");
    let second = world.push("web.yaml", &slow, "Slow to start");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tap.rule(|_, _| Fate::Swallow);
    tokio::time::sleep(Duration::from_mins(5)).await;
    tap.rule(|_, _| Fate::Pass);
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
}

/// A deadline that ends while belay can't look at the pods is seen when it can again (found by the simulation, seed 110).
#[tokio::test(start_paused = true)]
async fn a_deadline_that_ends_meanwhile_is_not_missed() {
    let (mut world, tap) = World::tapped().await;
    world.config.fail_fast = true;
    let good = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.through(&good).await;
    let begun = tokio::time::Instant::now();
    tap.rule(move |went, _| {
        let looks = went.path.contains("/replicasets") || went.path.contains("/pods");
        let away = begun.elapsed() < Duration::from_secs(60);
        if looks && away { Fate::Fail(503) } else { Fate::Pass }
    });
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Second version");
    world.through(&bad).await;
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
}

#[tokio::test(start_paused = true)]
async fn a_dead_controller_is_no_reason_to_go_back() {
    let clock = belay::clock::Clock::tokio(EPOCH.parse().unwrap());
    let cluster = MiniCluster::builder().clock(clock.clone()).without(Part::Controllers).start().await.unwrap();
    let mut world = World::on(cluster.client_as("belay"), clock, Some(cluster));
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    let record = world.record(&first, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::UnderWay, "{record:#?}");
    assert!(
        world.status().under_way.values().any(|way| way.message.contains("has not seen")),
        "{:?}",
        world.status().under_way
    );
    assert_eq!(Hold::on(&world.get(&path_of("web")).await.unwrap()), None);
}

#[tokio::test(start_paused = true)]
async fn what_belay_may_not_write_keeps_nothing_else_waiting() {
    let (mut world, tap) = World::tapped().await;
    tap.rule(|went, _| if went.path.contains("/configmaps/") { Fate::Fail(403) } else { Fate::Pass });
    world.repository.write("settings.yaml", crate::world::daemon::config_map("settings", "1"));
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.until("the others go on", |source| source.planned.is_some() && source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(world.record(&first, "ConfigMap default/settings").outcome, Outcome::Planned);
    assert!(world.status().trouble.contains_key("ConfigMap default/settings"), "{:?}", world.status().trouble);
    // Somebody gives it the right.
    tap.rule(|_, _| Fate::Pass);
    world.through(&first).await;
    assert_eq!(world.record(&first, "ConfigMap default/settings").outcome, Outcome::Complete);
}
