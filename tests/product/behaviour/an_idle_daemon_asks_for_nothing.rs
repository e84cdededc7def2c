//! An idle daemon makes no more than nine requests a minute for each of its sources, besides its watches: its Lease is renewed
//! every seven seconds, so that another daemon takes over soon when it crashes.

use std::time::Duration;

use crate::support::daemon::{World, deployment};

#[tokio::test(start_paused = true)]
async fn ten_minutes_without_a_request() {
    let (mut world, tap) = World::tapped().await;
    world.repository.write("settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n");
    world.with_first_version().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    tap.take();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let requests = tap.take();
    assert!(requests.len() <= 90, "{requests:#?}");
    assert!(requests.iter().all(|went| went.path.contains("/leases/belay-shop")), "{requests:#?}");
}

#[tokio::test(start_paused = true)]
async fn each_source_renews_a_lease_of_its_own() {
    let (mut world, tap) = World::tapped().await;
    let commit = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    for number in 0..4 {
        let name = format!("more-{number}");
        let path = format!("of-{number}");
        world.more.push(belay::config::SourceConfig { name, path: path.into(), ..world.config.clone() });
    }
    world.start();
    world.through(&commit).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    tap.take();
    tokio::time::sleep(Duration::from_mins(20)).await;
    let requests = tap.take();
    assert!(requests.len() <= 5 * 20 * 9, "{} requests", requests.len());
}

#[tokio::test(start_paused = true)]
async fn a_small_commit_costs_four_requests_at_most() {
    let (mut world, tap) = World::tapped().await;
    // The commit is through before the Lease is renewed once more.
    world.config.interval = belay::config::Span(Duration::from_secs(1));
    for number in 0..20 {
        let name = format!("app{number}");
        world.repository.write(format!("{name}/web.yaml"), deployment(&name, "web:1", ""));
    }
    let first = world.repository.commit("Twenty");
    world.repository.push();
    world.start();
    world.through(&first).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    tap.take();
    let second = world.push("app7/web.yaml", &deployment("app7", "web:2", ""), "One of them");
    world.through(&second).await;
    // Events are told beside the work, and are no part of it.
    let requests: Vec<_> = tap.take().into_iter().filter(|went| !went.path.contains("/events")).collect();
    assert!(requests.len() <= 4, "{requests:#?}");
    assert!(
        requests.iter().all(|went| went.path.contains("app7")),
        "no list, and nothing of the others: {requests:#?}"
    );
}
