//! Status and metrics over HTTP, of a running daemon: a hold is there as a value and on the page.

use belay::web::Web;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::daemon::{World, broken, deployment};

async fn get(web: &Web, path: &str) -> String {
    let mut stream = TcpStream::connect(web.address()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: belay\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_seen_by_machines_and_people() {
    let mut world = World::embedded().await;
    let good = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    let web = Web::open("127.0.0.1:0".parse().unwrap(), world.listen(), world.clock.clone()).await.unwrap();
    world.through(&good).await;
    assert!(get(&web, "/readyz").await.starts_with("HTTP/1.1 200 OK"));
    assert!(get(&web, "/metrics").await.contains("belay_holds{source=\"shop\"} 0\n"));
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    let metrics = get(&web, "/metrics").await;
    assert!(metrics.contains("belay_holds{source=\"shop\"} 1\n"), "{metrics}");
    let hold = format!("kind=\"Deployment\",namespace=\"default\",name=\"web\",commit=\"{bad}\"");
    assert!(metrics.contains(&hold), "{metrics}");
    let page = get(&web, "/").await;
    assert!(page.contains("Git and the cluster differ, by rollback, since 2026-01-01"), "{page}");
    world.stop().await;
    assert!(get(&web, "/healthz").await.starts_with("HTTP/1.1 500"), "a daemon that has ended is not well");
}
