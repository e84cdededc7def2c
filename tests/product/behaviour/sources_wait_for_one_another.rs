//! `[[source]] after`: the rollouts of a source wait until the head of another is complete; and no source, however large,
//! keeps another waiting.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use belay::config::SourceConfig;
use belay::web::Web;
use belay_core::rollout::{Outcome, SourceState};
use kube::client::Body;
use serde_json::json;

use crate::shows_itself_over_http::get;
use crate::support::daemon::{World, broken, config_map, deployment, image, path_of};

/// Returns a source of a folder of the same repository.
fn source(world: &World, name: &str) -> SourceConfig {
    SourceConfig { name: name.to_owned(), path: name.into(), ..world.config.clone() }
}

/// `shop` comes after `infra`, both in one repository.
async fn shop_after_infra() -> World {
    let mut world = World::embedded().await;
    let infra = source(&world, "infra");
    world.config = SourceConfig { after: Some("infra".to_owned()), ..source(&world, "shop") };
    world.more.push(infra);
    world
}

#[tokio::test(start_paused = true)]
async fn the_second_begins_when_the_first_is_complete() {
    let mut world = shop_after_infra().await;
    world.repository.write("infra/db.yaml", broken("db", "ready-after=20s"));
    let first = world.push("shop/web.yaml", &deployment("web", "web:1", ""), "Both at once");
    world.start();
    world.until("it says so", |source| source.obstacles.waits.as_deref() == Some("waits for source infra")).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(world.get(&path_of("web")).await.is_none());
    world.through(&first).await;
    let (db, web) = (world.record(&first, "Deployment default/db"), world.record(&first, "Deployment default/web"));
    assert_eq!((db.outcome, web.outcome), (Outcome::Complete, Outcome::Complete));
    assert!(web.started >= db.ended.unwrap());
    assert_eq!(world.status().obstacles.waits, None);
    // The same for what is pushed to both at once, whoever sees it first.
    world.repository.write("infra/db.yaml", broken("db", "ready-after=20s").replace("web:2", "db:2"));
    let second = world.push("shop/web.yaml", &deployment("web", "web:2", ""), "Both again");
    world.through(&second).await;
    let (db, web) = (world.record(&second, "Deployment default/db"), world.record(&second, "Deployment default/web"));
    assert!(web.started >= db.ended.unwrap(), "{db:#?}\n{web:#?}");
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_what_failed_to_be_mended() {
    let mut world = shop_after_infra().await;
    world.repository.write("infra/db.yaml", deployment("db", "db:1", ""));
    let first = world.push("shop/web.yaml", &deployment("web", "web:1", ""), "Both at once");
    world.start();
    world.through(&first).await;
    world.repository.write("infra/db.yaml", broken("db", "crash-after=1s"));
    world.push("shop/web.yaml", &deployment("web", "web:2", ""), "Broken below");
    let held = "waits for source infra (Deployment default/db is held)";
    world.until("it says so", |source| source.obstacles.waits.as_deref() == Some(held)).await;
    // Also after a restart.
    world.stop().await;
    world.start();
    world.until("it says so", |source| source.obstacles.waits.as_deref() == Some(held)).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
    let mended = world.push("infra/db.yaml", &deployment("db", "db:3", ""), "Mended");
    world.through(&mended).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:2");
}

#[tokio::test(start_paused = true)]
async fn a_large_source_keeps_no_small_one_waiting() {
    type Log = Arc<Mutex<(Vec<String>, usize, usize)>>;
    let log: Log = Arc::default();
    let seen = Arc::clone(&log);
    let mut world = World::behind(move |client| {
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (client, log) = (client.clone(), Arc::clone(&seen));
            async move {
                let path = request.uri().to_string();
                if request.method() != http::Method::PATCH || path.contains("/leases") {
                    return client.send(request).await;
                }
                {
                    let mut log = log.lock().unwrap();
                    log.1 += 1;
                    log.2 = log.2.max(log.1);
                    if !path.contains("dryRun") {
                        log.0.push(path);
                    }
                }
                // An API server takes its time.
                tokio::time::sleep(Duration::from_millis(100)).await;
                let answer = client.send(request).await;
                log.lock().unwrap().1 -= 1;
                answer
            }
        });
        kube::Client::new(service, namespace)
    })
    .await;
    world.config = source(&world, "shop");
    for name in ["one", "two", "three"] {
        let more = source(&world, name);
        for number in 0..300 {
            let name = format!("{name}-{number}");
            world.repository.write(format!("{}/{name}.yaml", more.path), config_map(&name, "1"));
        }
        world.more.push(more);
    }
    let commit = world.push("shop/small.yaml", &config_map("small", "1"), "Many and one");
    world.start();
    world.through(&commit).await;
    let small = world.record(&commit, "ConfigMap default/small");
    assert_eq!(small.outcome, Outcome::Complete);
    let mut status = world.listen();
    let all = |status: &belay::daemon::Status| status.sources.values().all(|source| source.settled);
    status.wait_for(all).await.unwrap();
    let (order, _, most) = log.lock().unwrap().clone();
    assert!(most <= 64, "{most} at once");
    let place = order.iter().position(|path| path.contains("/small?")).unwrap();
    assert_eq!(order.len(), 901, "each once");
    assert!(place < 250, "{place} of {}", order.len());
}

/// A waiting source is never called synced, and its former state is kept as it should be.
#[tokio::test(start_paused = true)]
async fn drift_is_put_right_while_a_head_waits() {
    let mut world = shop_after_infra().await;
    world.repository.write("infra/db.yaml", deployment("db", "db:1", ""));
    let first = world.push("shop/web.yaml", &deployment("web", "web:1", ""), "Both at once");
    world.start();
    world.through(&first).await;
    world.repository.write("infra/db.yaml", broken("db", "crash-after=1s"));
    let second = world.push("shop/web.yaml", &deployment("web", "web:2", ""), "Broken below");
    let held = "for source infra (Deployment default/db is held)";
    for restart in [false, true] {
        if restart {
            world.stop().await;
            world.start();
        }
        world.until("it says so", |source| source.summary().ends_with(held)).await;
        let status = world.status();
        assert_eq!((status.state(), status.settled), (SourceState::Waiting, false));
        assert_eq!(status.head.unwrap().as_str(), second);
        world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 5}})).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        let live = world.get(&path_of("web")).await.unwrap();
        assert_eq!((&live["spec"]["replicas"], image(&live)), (&json!(2), "web:1"), "after a restart: {restart}");
    }
}

/// A source that waits for another one from its start is as it is to be: belay is ready. Its workloads are told.
#[tokio::test(start_paused = true)]
async fn a_source_that_waits_from_the_start_is_ready_and_tells_its_workloads() {
    let mut world = shop_after_infra().await;
    world.repository.write("infra/db.yaml", deployment("db", "db:1", ""));
    let first = world.push("shop/web.yaml", &deployment("web", "web:1", ""), "Both at once");
    world.start();
    world.through(&first).await;
    world.repository.write("infra/db.yaml", broken("db", "crash-after=1s"));
    world.push("shop/web.yaml", &deployment("web", "web:2", ""), "Broken below");
    let held = "waits for source infra (Deployment default/db is held)";
    world.until("it says so", |source| source.obstacles.waits.as_deref() == Some(held)).await;
    let before = world.get(&path_of("web")).await.unwrap();
    // Its history is lost: nothing of it was planned.
    world.stop().await;
    std::fs::remove_dir_all(world.repository.beside("state")).unwrap();
    world.start();
    world.until("it says so", |source| source.obstacles.waits.as_deref() == Some(held)).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!((world.status().planned, world.status().state()), (None, SourceState::Waiting));
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let ready = get(&web, "/readyz").await;
    assert!(ready.starts_with("HTTP/1.1 200 "), "{ready}");
    let answer = get(&web, "/api/v1/workloads?source=shop").await;
    assert!(answer.contains("\"name\":\"web\""), "{answer}");
    let metrics = get(&web, "/metrics").await;
    assert!(metrics.contains("source=\"shop\",kind=\"Deployment\",namespace=\"default\",name=\"web\""), "{metrics}");
    // It is left as it is, also if somebody changes it meanwhile.
    assert_eq!(world.get(&path_of("web")).await.unwrap()["metadata"]["generation"], before["metadata"]["generation"]);
    world.patch(&path_of("web"), "kubectl-scale", &json!({"spec": {"replicas": 5}})).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let mended = world.push("infra/db.yaml", &deployment("db", "db:3", ""), "Mended");
    world.through(&mended).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((&live["spec"]["replicas"], image(&live)), (&json!(2), "web:2"));
    assert_eq!(live["metadata"]["uid"], before["metadata"]["uid"]);
}
