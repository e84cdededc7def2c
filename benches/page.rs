//! The cost of the overview of 1,000 workloads, half of them held, each by a commit of its own; measured and held against its
//! promises: `cargo bench --bench page`. The page is asked for over HTTP, and reads a history with the evidence of each failure.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a program for developers")]
#![allow(clippy::disallowed_methods, reason = "real time is what is measured")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Instant;

use belay::clock::Clock;
use belay::daemon::{SourceStatus, Status};
use belay::history::{HeldStatus, History, HistoryLocation};
use belay::telemetry::Metrics;
use belay::web::{Shown, ShownSources, Web};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::health::Standing;
use belay_core::rollout::{
    Commit, CommitId, Counters, Evidence, Hold, LiveWorkload, Outcome, Person, PodSeen, Reason, ReasonCode, Record,
    RecordId, Trigger,
};
use jiff::Timestamp;
use serde_json::json;

const WORKLOADS: u64 = 1000;
/// The most bytes of the page.
const BYTES: usize = 500_000;
/// The longest time from the request to the last byte, in milliseconds.
const PROMISE: f64 = 100.0;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let source = generate(folder.path());
    let (_daemon, status) = tokio::sync::watch::channel(Status { sources: [("shop".to_owned(), source)].into() });
    let shown = Shown {
        status,
        metrics: Metrics::default(),
        state: folder.path().to_owned(),
        history: HistoryLocation::in_folder(folder.path()),
        sources: ShownSources::default().shown().1,
        clock: Clock::system(),
    };
    let web = runtime.block_on(Web::open(([127, 0, 0, 1], 0).into(), &[], shown)).unwrap();
    let mut kept = true;
    for (what, path) in [("the overview", "/"), ("one workload, by a filter", "/?q=name-0998")] {
        let bytes = ask(web.address(), path).len();
        let mut times: Vec<f64> = (0..11)
            .map(|_| {
                let begun = Instant::now();
                ask(web.address(), path);
                begun.elapsed().as_secs_f64() * 1000.0
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        let is_kept = median <= PROMISE && bytes <= BYTES;
        kept &= is_kept;
        let missed = if is_kept { "" } else { "  MISSED" };
        println!("{what:<40} {median:>8.2} ms (promised: {PROMISE} ms) {bytes:>8} bytes (promised: {BYTES}){missed}");
    }
    std::process::exit(i32::from(!kept));
}

/// Returns the answer to a request.
fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + i64::try_from(seconds).unwrap()).unwrap()
}

fn commit_id(number: u64) -> CommitId {
    format!("{number:08x}{:032x}", u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)).parse().unwrap()
}

/// Writes the history of the workloads, and returns the state of their source.
fn generate(state: &Path) -> SourceStatus {
    let (history, _) = History::open(state, at(0)).unwrap();
    let mut source = SourceStatus { planned: Some(commit_id(WORKLOADS)), ..SourceStatus::default() };
    for number in 0..WORKLOADS {
        let name = format!("a-service-with-quite-a-name-{number:04}");
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.clone(),
        };
        let counters = Counters { desired: 4, total: 4, updated: 4, ready: 4, available: 4 };
        let mut live = LiveWorkload {
            commit: Some(commit_id(WORKLOADS)),
            standing: Some(Standing::Complete),
            counters,
            message: "all 4 replicas are available".to_owned(),
            ..LiveWorkload::default()
        };
        if number % 2 == 0 {
            let record = fail(&history, number, &key);
            let hold = json!({"manifest": "", "template": "", "commit": record.commit, "since": record.started,
                "reason": record.reason.unwrap().message});
            let hold: Hold = serde_json::from_value(hold).unwrap();
            source.held.insert(key.clone(), HeldStatus::of(&hold));
            live.hold = Some(Box::new(hold));
        }
        source.workloads.insert(key, live);
    }
    source
}

/// Writes down that a commit failed, with the evidence.
fn fail(history: &History, number: u64, key: &ObjectKey) -> Record {
    let pod = format!("{}-7f9c5d8b6-x2x7k", key.name);
    let told =
        format!("back-off 40s restarting failed container=app pod={pod}_shop(5a0c6f0e-1d8e-4b57-9f38-2a6a2c1a7b11)");
    let message = format!(
        "the rollout exceeded its progress deadline: pod {pod} is CrashLoopBackOff (container app, exit code 1): {told}"
    );
    let seen = |n: u64| PodSeen {
        name: format!("{pod}{n}"),
        state: "CrashLoopBackOff".to_owned(),
        container: Some("app".to_owned()),
        message: told.clone(),
        exit_code: Some(1),
        restarts: 3,
        log: vec!["connecting to the database".to_owned(), "panic: no database".to_owned()],
        ..PodSeen::default()
    };
    let commit = Commit {
        id: commit_id(number),
        subject: format!("Cache headers for images of service {number}"),
        author: Person { name: format!("Author {}", number % 50), email: "author@example.com".to_owned() },
        authored: at(number * 60),
        committed: at(number * 60),
        parents: Vec::new(),
        trailers: Vec::new(),
    };
    let record = Record {
        id: RecordId(0),
        source: "shop".to_owned(),
        commit: commit.id.clone(),
        object: key.clone(),
        place: None,
        rendered_by: None,
        trigger: Trigger::Commit,
        outcome: Outcome::RolledBack,
        reason: Some(Reason::new(ReasonCode::ProgressDeadlineExceeded, message)),
        manifest_hash: Some(format!("{number:064x}")),
        rolls_out: true,
        revision: Some(2),
        back_to: None,
        back_to_revision: None,
        complaints: Vec::new(),
        evidence: Some(Evidence { pods: (0..3).map(seen).collect(), ..Evidence::default() }),
        started: at(number * 60),
        ended: Some(at(number * 60 + 600)),
    };
    history.saw("shop", &commit.id, std::slice::from_ref(&commit), at(number * 60)).unwrap();
    history.begin("shop", &commit.id, std::slice::from_ref(&record), at(number * 60)).unwrap();
    record
}
