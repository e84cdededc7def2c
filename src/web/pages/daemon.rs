//! The daemon itself: its sources with the last fetch and the Lease, its requests, the clusters and the memory.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};

use super::super::Room;
use super::super::metric_lines::{lines_of, sum_of};
use super::super::metrics::open_metrics;
use super::super::problem::Problem;
use super::components::{Lasted, Link, Mark};
use super::{Frame, respond};
use crate::cluster::Cluster;
use crate::daemon::{LeaseStatus, SourceStatus, Status};

/// The most clusters whose version is asked for.
const CLUSTERS: usize = 10;
/// The time for which the page waits for all of them.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Template)]
#[template(path = "daemon.html")]
struct DaemonPage {
    frame: Frame,
    process: Vec<(&'static str, String)>,
    started: Option<Timestamp>,
    sources: Vec<SourceFetches>,
    clusters: Vec<ClusterRow>,
    requests: Vec<RequestRow>,
}

struct SourceFetches {
    name: String,
    mark: Mark,
    head: Option<Link>,
    looked: Option<Timestamp>,
    interval: Lasted,
    fetches: String,
    errors: String,
    /// The daemon that has the Lease, in words.
    leader: String,
    /// The Lease; `None` where none was seen yet.
    lease: Option<LeaseStatus>,
    troubles: Vec<String>,
}

struct ClusterRow {
    server: String,
    version: String,
}

/// The requests to the API server with one answer.
struct RequestRow {
    code: String,
    count: String,
}

pub(in crate::web) async fn daemon(State(room): State<Room>) -> Response {
    respond(&room.shown, page(&room).await)
}

async fn page(room: &Room) -> Result<DaemonPage, Problem> {
    let status = room.shown.status.borrow().clone();
    let text = open_metrics(&room.registry)
        .map_err(|error| Problem::Unavailable(format!("the metrics could not be written: {error}")))?;
    Ok(DaemonPage {
        frame: Frame::of(&room.shown, "/daemon"),
        process: process(&text),
        started: sum_of(&text, "process_start_time_seconds", &[]).and_then(at),
        sources: status.sources.iter().map(|(name, of)| SourceFetches::of(name, of, &text)).collect(),
        clusters: clusters(room, &status).await,
        requests: requests(&text),
    })
}

/// Returns what the system says of the process.
fn process(text: &str) -> Vec<(&'static str, String)> {
    let value = |name: &str| sum_of(text, name, &[]);
    let mebibytes = value("process_resident_memory_bytes").map(|bytes| format!("{:.0} MiB", bytes / 1_048_576.0));
    let cpu = value("process_cpu_seconds_total").map(|seconds| format!("{seconds:.1} s"));
    let files = value("process_open_fds").map(|open| format!("{open:.0}"));
    let told = [("Memory", mebibytes), ("CPU time", cpu), ("Open files", files)];
    told.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "a time in seconds; a wrong one is no time at all")]
fn at(seconds: f64) -> Option<Timestamp> {
    Timestamp::from_second(seconds as i64).ok()
}

/// Returns the requests to the API server, by the code of their answer.
fn requests(text: &str) -> Vec<RequestRow> {
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    for line in lines_of(text, "belay_api_requests_total") {
        if let Some(code) = line.label("code") {
            *counts.entry(code).or_default() += line.value;
        }
    }
    let row = |(code, count): (&str, f64)| RequestRow { code: code.to_owned(), count: format!("{count:.0}") };
    counts.into_iter().map(row).collect()
}

impl SourceFetches {
    fn of(name: &str, of: &SourceStatus, text: &str) -> SourceFetches {
        let fetches = |result| sum_of(text, "belay_fetches_total", &[("source", name), ("result", result)]);
        let number = |count: Option<f64>| count.map(|count| format!("{count:.0}")).unwrap_or_default();
        let standing = of.standing();
        let troubles = standing.troubles.iter().map(|(place, message)| format!("{place}: {message}")).collect();
        let leader = if of.obstacles.standby { "another daemon has it" } else { "this daemon has it" };
        SourceFetches {
            name: name.to_owned(),
            mark: Mark::of_source(standing.state),
            head: standing.head.map(Link),
            looked: of.looked,
            interval: Lasted(SignedDuration::from_secs(i64::try_from(of.follower.interval).unwrap_or(i64::MAX))),
            fetches: number(fetches("ok")),
            errors: number(fetches("error")),
            lease: of.lease.clone(),
            leader: of.obstacles.waits.clone().filter(|_| of.obstacles.standby).unwrap_or_else(|| leader.to_owned()),
            troubles,
        }
    }
}

/// Returns each API server that a source is for, with its version.
async fn clusters(room: &Room, status: &Status) -> Vec<ClusterRow> {
    let sources = room.shown.sources();
    let mut known: BTreeMap<String, &Cluster> = BTreeMap::new();
    for (name, cluster) in &sources.clusters {
        let server = status.sources.get(name).and_then(|of| of.follower.cluster.clone());
        known.entry(server.unwrap_or_else(|| "the cluster of ".to_owned() + name)).or_insert(cluster);
    }
    let versions = known.values().take(CLUSTERS).map(|cluster| async {
        let _room = room.asking.acquire().await;
        cluster.version().await.unwrap_or_else(|error| format!("not known: {error}"))
    });
    let servers: Vec<String> = known.keys().take(CLUSTERS).cloned().collect();
    let asked = tokio::time::timeout(READ_TIMEOUT, futures::future::join_all(versions)).await;
    let versions =
        asked.unwrap_or_else(|_| vec![format!("not known: no answer within {READ_TIMEOUT:?}"); servers.len()]);
    servers.into_iter().zip(versions).map(|(server, version)| ClusterRow { server, version }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE belay_api_requests counter\n\
        belay_api_requests_total{verb=\"get\",code=\"200\"} 7\n\
        belay_api_requests_total{verb=\"patch\",code=\"200\"} 3\n\
        belay_api_requests_total{verb=\"patch\",code=\"409\"} 1\n\
        process_resident_memory_bytes 52428800.0\n";

    #[test]
    fn numbers_are_those_of_the_metrics() {
        let requests: Vec<_> = requests(TEXT).into_iter().map(|row| (row.code, row.count)).collect();
        assert_eq!(requests, [("200".to_owned(), "10".to_owned()), ("409".to_owned(), "1".to_owned())]);
        assert_eq!(process(TEXT), [("Memory", "50 MiB".to_owned())]);
        assert_eq!(at(1.5), Timestamp::from_second(1).ok());
        assert_eq!(at(f64::MAX), None);
    }
}
