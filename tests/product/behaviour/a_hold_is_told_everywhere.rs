//! A hold that nobody sees would be a lie: status, event, metric, page and log say that Git and the cluster differ, since when
//! and why; also after a restart.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use belay::history::History;
use belay::history::query::source_histories::SourceHistories;
use belay::web::Web;
use belay_core::rollout::{Hold, SourceState};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tracing_subscriber::fmt::MakeWriter;

use crate::configuration_goes_back_with_it::{MAP, failed};
use crate::shows_itself_over_http::get;
use crate::support::daemon::{World, broken, deployment, path_of, short};
use crate::support::log::listen;

/// The log lines of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

async fn metrics(web: &Web) -> String {
    let mut stream = TcpStream::connect(web.address()).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(start_paused = true)]
async fn by_status_event_metric_and_log() {
    let log = Log::default();
    let _guard = listen("warn", log.clone());
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "crash-after=1s"), "Broken");
    world.through(&bad).await;
    let hold = Hold::on(&world.get(&path_of("web")).await.unwrap()).unwrap();
    told(&world, &hold, &bad, &log.take()).await;
    // The one that comes after says it again: whoever reads its log need not know the other's.
    world.stop().await;
    log.take();
    world.start();
    world.through(&bad).await;
    told(&world, &hold, &bad, &log.take()).await;
    let events = world.list("api/v1/namespaces/default/events").await;
    let event = events.iter().find(|event| event["reason"] == "RolledBack").expect("an event");
    let text = event["message"].as_str().or(event["note"].as_str()).unwrap();
    assert!(text.contains(&format!("{} Broken", short(&bad))) && text.contains("is held"), "{text}");
    assert_eq!(event["type"], "Warning");
    // A hold that was released is reported no longer.
    let fix = world.push("web.yaml", &deployment("web", "web:3", ""), "Fix it");
    world.through(&fix).await;
    assert!(world.status().held.is_empty());
}

async fn told(world: &World, hold: &Hold, bad: &str, log: &str) {
    let status = world.status();
    let (key, held) = status.held.first_key_value().expect("the status says so");
    assert_eq!((key.to_string().as_str(), held.commit.as_str()), ("Deployment default/web", bad));
    assert_eq!((&held.reason, held.since), (&hold.reason, hold.since));
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let metrics = metrics(&web).await;
    assert!(metrics.contains("belay_holds{source=\"shop\"} 1\n"), "{metrics}");
    let line = log.lines().find(|line| line.contains("Git and the cluster differ")).unwrap_or_else(|| panic!("{log}"));
    for part in ["WARN", "Deployment default/web", short(bad), &hold.since.to_string(), &hold.reason] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
}

async fn api(world: &World) -> Value {
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let answer = get(&web, "/api/v1/status").await;
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// An object without pods that went back together with a workload has a line that says since when and why.
#[tokio::test(start_paused = true)]
async fn what_went_back_with_a_workload_has_a_line() {
    let (mut world, bad) = failed(&["web"], &["web"]).await;
    let hold = Hold::on(&world.get(MAP).await.unwrap()).unwrap();
    let line = json!([
        "settings",
        "held",
        bad,
        format!("commit {} is held: {}", short(&bad), hold.reason),
        hold.since.to_string()
    ]);
    let told = |row: &Value| json!([row["object"]["name"], row["state"], row["commit"], row["message"], row["since"]]);
    for restarted in [false, true] {
        if restarted {
            world.stop().await;
            world.start();
            world.through(&bad).await;
        }
        world.until("both are held", |source| source.held.len() == 2).await;
        let api = api(&world).await;
        assert_eq!(api["objects"].as_array().unwrap().len(), 1, "restarted: {restarted}: {api:#}");
        assert_eq!(told(&api["objects"][0]), line, "restarted: {restarted}");
        let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
        let page = get(&web, "/workloads/shop/ConfigMap/default/settings").await;
        assert!(page.starts_with("HTTP/1.1 200 ") && page.contains(&hold.reason), "{page}");
    }
    // A reader of the history finds the same while no daemon answers.
    world.stop().await;
    let history = History::read_only(&world.repository.beside("state")).unwrap();
    let noted = SourceHistories::read(&history, world.clock.now()).unwrap();
    let rows = noted.rows_besides(&[], |key| key.kind == "ConfigMap");
    let rows: Vec<Value> = rows.iter().map(|row| told(&serde_json::to_value(row).unwrap())).collect();
    assert_eq!(rows, [line]);
}

/// Somebody suspends a held workload: Git and the cluster differ as before, and that is told as before.
#[tokio::test(start_paused = true)]
async fn a_suspension_hides_no_hold() {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "crash-after=1s"), "Broken");
    world.through(&bad).await;
    let hold = Hold::on(&world.get(&path_of("web")).await.unwrap()).unwrap();
    let suspend = |why: Value| json!({"metadata": {"annotations": {"belay.dev/suspend": why}}});
    world.patch(&path_of("web"), "kubectl-annotate", &suspend("we look at it".into())).await;
    world.until("it is suspended", |source| source.ended.values().any(|one| one.state.word() == "suspended")).await;
    let message = format!("we look at it; commit {} is held: {}", short(&bad), hold.reason);
    for restarted in [false, true] {
        if restarted {
            world.stop().await;
            world.start();
            world.through(&bad).await;
        }
        tokio::time::sleep(std::time::Duration::from_mins(2)).await;
        let (status, api) = (world.status(), api(&world).await);
        assert_eq!(status.summary(), "degraded (1 suspended)", "restarted: {restarted}");
        assert_eq!(api["sources"][0]["state"], "degraded", "restarted: {restarted}");
        let row = &api["workloads"][0];
        assert_eq!((&row["state"], &row["message"]), (&json!("suspended"), &json!(message)), "restarted: {restarted}");
        let wrong = status.wrong().join("\n");
        assert!(wrong.contains(&format!("held: {}", hold.reason)), "{wrong}");
    }
    // A newer commit releases the hold, and is applied once the workload is taken up again.
    let fix = world.push("web.yaml", &deployment("web", "web:3", ""), "Fix it");
    world.through(&fix).await;
    tokio::time::sleep(std::time::Duration::from_mins(2)).await;
    let (status, api) = (world.status(), api(&world).await);
    let message = api["workloads"][0]["message"].as_str().unwrap();
    assert!(message.contains("we look at it") && !message.contains("is held"), "{api:#}");
    assert_eq!(status.state(), SourceState::Progressing);
    world.patch(&path_of("web"), "kubectl-annotate", &suspend(Value::Null)).await;
    world.until("all is well", |source| source.state() == SourceState::Synced).await;
}
