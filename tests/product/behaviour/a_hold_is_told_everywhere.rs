//! A hold that nobody sees would be a lie: status, event, metric, page and log say that Git and the cluster differ, since when
//! and why; also after a restart.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use belay::web::Web;
use belay_core::rollout::Hold;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tracing_subscriber::fmt::MakeWriter;

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
