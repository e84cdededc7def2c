//! A Prometheus whose answers a test makes up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use belay::clock::Clock;
use belay::config::{AnalysisConfig, Config};
use belay::prometheus::{Answer, InstantQuery, PrometheusError};
use belay_core::rollout::Record;
use belay_core::rollout::analysis::{Measurement, Sample};
use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::daemon::{World, deployment};

/// Answers queries over HTTP as Prometheus does. `counters` returns the pods and their counts, by the form that was sent and the
/// second of its time.
pub async fn answer_over_http(listener: TcpListener, counters: impl Fn(&str, i64) -> Vec<(&'static str, i64)>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let (mut request, mut buffer) = (String::new(), [0; 4096]);
        // The time is the last of the form.
        while !request.contains("time=") || !request.ends_with('Z') {
            match stream.read(&mut buffer).await {
                Ok(read) if read > 0 => request.push_str(&String::from_utf8_lossy(&buffer[..read])),
                _ => break,
            }
        }
        let time = request.rsplit("time=").next().unwrap_or_default().replace("%3A", ":");
        let second = time.parse::<Timestamp>().map_or(0, |time| time.as_second());
        let series = |(pod, count)| format!(r#"{{"metric":{{"pod":"{pod}"}},"value":[{second},"{count}"]}}"#);
        let series = counters(&request, second).into_iter().map(series).collect::<Vec<String>>().join(",");
        let body = format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        drop(stream.write_all(format!("{head}{body}").as_bytes()).await);
    }
}

type Answers = Box<dyn FnMut(&str, f64) -> Result<Vec<Sample>, String> + Send>;

/// A Prometheus whose answers follow from the query and the time, in seconds since its beginning.
pub struct FakePrometheus {
    clock: Clock,
    began: Timestamp,
    answers: Mutex<Answers>,
}

impl FakePrometheus {
    /// Returns one that begins now, by the clock of this world.
    pub fn of(
        world: &World,
        answers: impl FnMut(&str, f64) -> Result<Vec<Sample>, String> + Send + 'static,
    ) -> Arc<FakePrometheus> {
        let (clock, began) = (world.clock.clone(), world.clock.now());
        Arc::new(FakePrometheus { clock, began, answers: Mutex::new(Box::new(answers)) })
    }
}

impl InstantQuery for FakePrometheus {
    fn query<'a>(&'a self, _: &'a AnalysisConfig, query: String, at: Option<Timestamp>) -> Answer<'a> {
        let at = at.unwrap_or_else(|| self.clock.now()).duration_since(self.began);
        let answer = (self.answers.lock().unwrap())(&query, at.as_secs_f64());
        Box::pin(async move { answer.map_err(PrometheusError) })
    }
}

/// Returns the looks of the analyses of a rollout.
pub fn measured(world: &World, record: &Record) -> Vec<Measurement> {
    world.history().measurements(record.id).unwrap()
}

/// Returns a cluster with a bake time of two minutes, these analyses, and the first version live, which asks for none of them; and its
/// commit. belay is stopped after `wait`.
pub async fn before_analyses(config: &str, wait: Duration) -> (World, String) {
    let mut world = World::embedded().await;
    world.config.bake = "2m".parse().unwrap();
    world.config.known_analyses = analyses(config);
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.through(&first).await;
    tokio::time::sleep(wait).await;
    world.stop().await;
    world.config.analysis = world.config.known_analyses.iter().map(|known| known.name.clone()).collect();
    (world, first)
}

/// Returns the sample of a pod.
pub fn sample(pod: &str, value: f64) -> Sample {
    Sample { labels: format!("pod={pod:?}"), pod: pod.to_owned(), value }
}

/// Returns the analyses of a configuration.
pub fn analyses(text: &str) -> Vec<AnalysisConfig> {
    let text = format!("[[source]]\nrepository = \"/srv\"\n{text}");
    Config::parse(&text, "belay.toml").unwrap().analysis
}

pub const LATENCY: &str =
    "[[analysis]]\nname = 'latency'\nprometheus = 'http://p'\nquery = 'latency{{name}}'\nmax = 0.5\n";
pub const ERRORS: &str =
    "[[analysis]]\nname = 'errors'\nprometheus = 'http://p'\nbad = 'bad {{pods}}'\ntotal = 'all {{pods}}'\n";
