//! Several daemons of one source, by mistake: the one that holds the Lease writes, the others wait and say so.

use std::time::Duration;

use belay::web::Web;
use belay_core::rollout::Outcome;
use serde_json::Value;

use crate::pages_tell_people_what_is_wrong::{page, shows};
use crate::support::daemon::{World, broken, deployment, image, path_of};
use crate::support::tap::{Fate, Tap};
use crate::support::workloads::KINDS;

const LEASE: &str = "apis/coordination.k8s.io/v1/namespaces/default/leases/belay-shop";

/// Returns two daemons of the same source, the first of which runs, each with a tap on its line.
async fn two() -> (World, Tap, World, Tap) {
    let (mut first, tap) = World::tapped().await;
    let (other, client) = Tap::on(first.client.clone());
    let mut second = World::on(client, first.clock.clone(), None);
    second.config = first.config.clone();
    second.identity = "two".to_owned();
    let commit = first.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    first.start();
    first.through(&commit).await;
    second.start();
    second.until("it waits", |source| source.obstacles.waits.is_some()).await;
    (first, tap, second, other)
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap()
}

/// Returns the writes other than of Leases.
fn writes(tap: &Tap) -> Vec<String> {
    let all = tap.take().into_iter().filter(|went| went.is_write() && !went.path.contains("/leases"));
    all.map(|went| format!("{} {}", went.method, went.path)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_second_daemon_waits_and_says_so() {
    let (mut first, _, mut second, tap) = two().await;
    let waits = second.status().obstacles.waits.unwrap();
    assert!(waits.contains("the daemon one follows this source already (Lease default/belay-shop)"), "{waits}");
    let next = first.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    first.through(&next).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(writes(&tap), Vec::<String>::new());
    assert!(tap.take().is_empty());
    // The first one lets go when it ends: the second goes on within moments.
    first.stop().await;
    let before = second.clock.now();
    second.through(&next).await;
    assert!(second.clock.now().duration_since(before).as_secs() < 10);
    assert_eq!(second.status().obstacles.waits, None);
    assert_eq!(holder(&first.get(LEASE).await.unwrap()), "two");
    let third = first.push("web.yaml", &deployment("web", "web:3", ""), "Third version");
    second.through(&third).await;
    assert_eq!(second.record(&third, "Deployment default/web").outcome, Outcome::Complete);
}

/// The page of each daemon says who has the Lease, since when, and when it was renewed.
#[tokio::test(start_paused = true)]
async fn the_pages_of_both_have_the_lease() {
    let (first, _, second, _) = two().await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    for (world, leader) in [(&first, "this daemon has it"), (&second, "the daemon one follows this source already")] {
        let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
        let seen = page(&web, "/daemon").await;
        shows(
            &seen,
            &[
                leader,
                "<small>default/belay-shop, holder one, acquired <time datetime=\"2026-01-01T00:00:00Z\"",
                "renewed <time",
            ],
        );
        let renewed = seen.split("renewed <time").nth(1).unwrap();
        let said = renewed.split(['>', '<']).nth(1).unwrap();
        let seconds = said.strip_suffix(" s ago").map_or(Some(0), |seconds| seconds.parse::<u64>().ok());
        assert!(said == "now" || seconds.is_some_and(|seconds| seconds <= 7), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_daemon_was_at_is_taken_up_when_its_lease_ends() {
    let (mut first, _, mut second, _) = two().await;
    let bad = first.push("web.yaml", &broken("web", "never-ready"), "Broken");
    first.until("it is under way", |source| !source.under_way.is_empty()).await;
    first.kill().await;
    let killed = second.clock.now();
    second.until("it leads", |source| source.obstacles.waits.is_none()).await;
    let took = second.clock.now().duration_since(killed).as_secs();
    assert!((7..=30).contains(&took), "{took} s");
    second.until("it went back", |source| source.held.len() == 1 && source.settled).await;
    assert_eq!(image(&second.get(&path_of("web")).await.unwrap()), "web:1");
    assert_eq!(second.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_can_not_renew_stops_writing_before_another_begins() {
    let (mut first, tap, mut second, other) = two().await;
    // Every request of the first one hangs.
    tap.rule(|_, _| Fate::Swallow);
    let next = first.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    second.through(&next).await;
    assert_eq!(image(&second.get(&path_of("web")).await.unwrap()), "web:2");
    tap.take();
    other.take();
    // It comes back, and hears that it is not the one any more.
    tap.rule(|_, _| Fate::Pass);
    first
        .until("it waits", |source| {
            source.obstacles.waits.as_ref().is_some_and(|waits| waits.contains("the daemon two"))
        })
        .await;
    let third = first.push("web.yaml", &deployment("web", "web:3", ""), "Third version");
    second.through(&third).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(writes(&tap), Vec::<String>::new());
    assert_eq!(holder(&first.get(LEASE).await.unwrap()), "two");
    assert_eq!(first.get(LEASE).await.unwrap()["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_costs_nothing() {
    let (mut first, tap, second, other) = two().await;
    tap.rule(|_, _| Fate::Fail(503));
    tokio::time::sleep(Duration::from_secs(10)).await;
    tap.rule(|_, _| Fate::Pass);
    let next = first.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    first.through(&next).await;
    assert_eq!(first.record(&next, "Deployment default/web").outcome, Outcome::Complete);
    assert!(second.status().obstacles.waits.is_some());
    assert_eq!(writes(&other), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_is_made_again() {
    let (mut first, _) = World::tapped().await;
    let commit = first.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    first.start();
    first.through(&commit).await;
    first.delete(LEASE).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(holder(&first.get(LEASE).await.unwrap()), "one");
    let next = first.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    first.through(&next).await;
    assert_eq!(first.record(&next, "Deployment default/web").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_where_the_daemon_is() {
    let (mut first, _, mut second, tap) = two().await;
    let bad = first.push("web.yaml", &broken("web", "crash-after=1s"), "Broken");
    first.through(&bad).await;
    assert_eq!(first.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack);
    let before = first.get(&path_of("web")).await.unwrap();
    // The second one has never seen any of this: what it must know is on the object.
    first.stop().await;
    second.through(&bad).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(second.record(&bad, "Deployment default/web").outcome, Outcome::Held);
    assert_eq!(second.status().held.len(), 1);
    assert_eq!(writes(&tap), Vec::<String>::new());
    let live = second.get(&path_of("web")).await.unwrap();
    assert_eq!(live["metadata"]["generation"], before["metadata"]["generation"]);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_was_suspended_writes_nothing_until_it_has_asked() {
    let (mut world, tap) = World::tapped().await;
    world.with_first_version().await;
    // The machine was suspended: belay's knowledge of the Lease is old, whatever tokio's clock says.
    world.clock.suspend(30);
    tap.take();
    world.patch(&path_of("web"), "kubectl-scale", &serde_json::json!({"spec": {"replicas": 5}})).await;
    tap.rule(|went, _| if went.path.contains("/leases") { Fate::Fail(503) } else { Fate::Pass });
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(writes(&tap), Vec::<String>::new());
    tap.rule(|_, _| Fate::Pass);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 2, "it goes on when it leads again");
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_68_years_is_believed_for_minutes() {
    let mut world = World::embedded().await;
    let lease = serde_json::json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "belay-shop"},
        "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": i32::MAX}});
    world.create(LEASE.rsplit_once('/').unwrap().0, "somebody", &lease).await;
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    let before = world.clock.now();
    world.through(&first).await;
    let took = world.clock.now().duration_since(before).as_secs();
    assert!((180..240).contains(&took), "{took} s");
    assert_eq!(holder(&world.get(LEASE).await.unwrap()), "one");
}

/// Two daemons lead by turns, each with a history of its own: a failure goes back to what ran before it, also where the
/// other one had rolled that out.
#[tokio::test(start_paused = true)]
async fn what_the_other_had_rolled_out_is_gone_back_to() {
    for kind in KINDS.into_iter().filter(|kind| kind.name != "ReplicationController") {
        let mut world = World::embedded().await;
        let (state, others) = (world.repository.beside("state"), world.repository.beside("others"));
        let apart = world.repository.beside("apart");
        let push = |world: &mut World, version: u32, fate: &str| {
            world.push("web.yaml", &kind.manifest(&format!("web:{version}"), fate), &format!("Version {version}"))
        };
        let first = push(&mut world, 1, "ready");
        world.start();
        world.through(&first).await;
        world.stop().await;
        std::fs::rename(&state, &apart).unwrap();
        world.start();
        for version in 2..=4 {
            let good = push(&mut world, version, "ready");
            world.through(&good).await;
        }
        world.stop().await;
        std::fs::rename(&state, &others).unwrap();
        std::fs::rename(&apart, &state).unwrap();
        let bad = push(&mut world, 5, "never-ready");
        world.start();
        world.through(&bad).await;
        let live = world.get(&kind.path()).await.unwrap();
        assert_eq!(image(&live), "web:4", "{kind:?}: {:#?}", world.records());
        assert_eq!(world.record(&bad, &kind.object()).outcome, Outcome::RolledBack, "{kind:?}");
    }
}
