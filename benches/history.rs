//! The cost of the history with 100,000 records, measured and held against its promises: `cargo bench --bench history`.
//! `-- --quick` takes a tenth of them, for a look.
//!
//! Seen with 100,000 records on two shared cores, the median of 11: `help` 6 ms, `history` 13 ms, of one workload 19 ms,
//! `--failed` and `--author` 13 ms, `show` 30 ms, `status` 32 ms beyond what it takes without a history.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic, missing_docs, reason = "a program for developers")]
#![allow(clippy::disallowed_methods, reason = "real time is what is measured")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use belay::history::{By, History, Query, Retention, StatsQuery};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Commit, CommitId, Outcome, Person, Record, RecordId, Step, StepKind, Trigger};
use jiff::Timestamp;
use minicluster::{Access, Authority, Authorization, MiniCluster, Token, Transport, User};

/// Records of each commit.
const EACH: u64 = 10;
/// The longest time of a command that reads the history, in milliseconds, the API's time aside.
const PROMISE: f64 = 50.0;

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let commits = if quick { 1000 } else { 10_000 };
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    println!("{} records, {} commits", commits * EACH, commits);
    let history = timed("written", || generate(&state, commits));
    drop(history);
    println!("{:<58} {:>9} KiB", "the file", std::fs::metadata(state.join("history.db")).unwrap().len() / 1024);
    library(&state, commits);
    let kept = commands(folder.path(), &state, commits);
    println!("{}", if kept { "every promise is kept" } else { "a promise is MISSED" });
    std::process::exit(i32::from(!kept && !quick));
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work();
    println!("{what:<58} {:>9.2} ms", begun.elapsed().as_secs_f64() * 1000.0);
    result
}

fn id(number: u64) -> CommitId {
    // Spread, so that prefixes differ.
    format!("{:032x}{number:08x}", u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
        .parse()
        .unwrap()
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_second(1_760_000_000 + i64::try_from(seconds).unwrap()).unwrap()
}

fn object(number: u64) -> ObjectKey {
    ObjectKey {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: Some("shop".to_owned()),
        name: format!("app-{}", number % 1000),
    }
}

fn record(commit: u64, number: u64, seconds: u64) -> Record {
    let failed = number.is_multiple_of(30);
    Record {
        id: RecordId(0),
        source: "shop".to_owned(),
        commit: id(commit),
        object: object(number),
        place: None,
        rendered_by: None,
        trigger: Trigger::Commit,
        outcome: if failed { Outcome::RolledBack } else { Outcome::Complete },
        reason: None,
        manifest_hash: Some(format!("{number:064x}")),
        rolls_out: true,
        revision: Some(i64::try_from(commit).unwrap()),
        back_to: None,
        back_to_revision: None,
        complaints: Vec::new(),
        evidence: None,
        started: at(seconds),
        ended: Some(at(seconds + 40)),
    }
}

/// Returns a history as a busy source has it after years: 50 people, 1,000 workloads, one rollout in thirty taken back.
fn generate(state: &Path, commits: u64) -> History {
    let (history, _) = History::open(state, at(0)).unwrap();
    for number in 0..commits {
        let seconds = number * 600;
        let author = number % 50;
        let commit = Commit {
            id: id(number),
            subject: format!("Change number {number}"),
            author: Person { name: format!("Author {author}"), email: format!("author{author}@example.com") },
            authored: at(seconds),
            committed: at(seconds),
            parents: Vec::new(),
            trailers: Vec::new(),
        };
        history.saw("shop", &commit.id, std::slice::from_ref(&commit), at(seconds)).unwrap();
        let records: Vec<Record> = (0..EACH).map(|n| record(number, number * EACH + n, seconds)).collect();
        let ids = history.begin("shop", &commit.id, &records, at(seconds)).unwrap();
        for id in ids {
            let step = Step { at: at(seconds), kind: StepKind::Applied, detail: "{\"generation\":3}".to_owned() };
            history.step(id, &step).unwrap();
        }
    }
    history
}

fn library(state: &Path, commits: u64) {
    let (history, _) =
        timed("open, as the daemon does: checked from end to end", || History::open(state, at(0)).unwrap());
    let reader = timed("open, as a command does", || History::read_only(state).unwrap());
    let page = || Query { limit: Some(100), ..Query::default() };
    let questions = [
        ("the newest 100", page()),
        ("of a workload", Query { name: Some("app-7".to_owned()), ..page() }),
        ("that failed", Query { outcomes: BTreeSet::from([Outcome::Failed, Outcome::RolledBack]), ..page() }),
        ("by an author", Query { author: Some("author 42".to_owned()), ..page() }),
        ("of a commit", Query { commit: Some(id(77).short().to_owned()), ..page() }),
    ];
    for (what, query) in questions {
        timed(what, || assert!(!reader.records(&query).unwrap().is_empty()));
    }
    timed("what is under way", || assert!(reader.open_records("shop").unwrap().is_empty()));
    timed("the last good one of 1,000 workloads", || {
        for number in 0..1000 {
            reader.last_good("shop", &object(number)).unwrap();
        }
    });
    let stats = StatsQuery { source: None, since: at(0), until: at(1_000_000_000), by: By::Month };
    timed("the four numbers by month, of everything", || assert!(!reader.stats(&stats).unwrap().is_empty()));
    timed("the commits to be pinned", || {
        assert_eq!(reader.pinned_commits().unwrap().len(), usize::try_from(commits).unwrap());
    });
    let keep = Retention { age: None, records: Some(u32::try_from(commits * EACH - 5000).unwrap()) };
    timed("forget 5,000 records", || assert!(history.forget(&keep, at(0)).unwrap() >= 4000));
}

/// The program itself, against a cluster in which there is nothing: the API's own time is that of a status without history.
fn commands(home: &Path, state: &Path, commits: u64) -> bool {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let kubeconfig = home.join("kubeconfig");
    let served = runtime.block_on(async {
        let token = "bench".to_owned();
        let access = Access {
            tokens: vec![Token { token: token.clone(), user: User::admin() }],
            authorization: Authorization::AllowAll,
        };
        let cluster = MiniCluster::builder().access(access).start().await.unwrap();
        let server =
            cluster.listen(([127, 0, 0, 1], 0).into(), Transport::Tls(Authority::new().unwrap())).await.unwrap();
        std::fs::write(&kubeconfig, server.kubeconfig(Some(&token))).unwrap();
        (cluster, server)
    });
    let nothing = home.join("nothing");
    let run = |args: &[&str], state: &Path| {
        let once = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_belay"));
            command.env_clear().env("HOME", home).current_dir(home).stdout(Stdio::null()).stderr(Stdio::null());
            command.arg("--kubeconfig").arg(&kubeconfig).arg("--state-dir").arg(state).args(args);
            let begun = Instant::now();
            assert!(command.status().unwrap().success(), "{args:?}");
            begun.elapsed().as_secs_f64() * 1000.0
        };
        let mut times: Vec<f64> = (0..11).map(|_| once()).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let api = run(&["status"], &nothing);
    println!("{:<58} {api:>9.2} ms", "belay status without a history: the API's time");
    let commit = id(commits / 2).short().to_owned();
    let mut kept = true;
    let mut promise = |what: &str, took: f64| {
        kept &= took < PROMISE;
        let missed = if took < PROMISE { "" } else { "  MISSED" };
        println!("{what:<58} {took:>9.2} ms   (promised: {PROMISE} ms){missed}");
    };
    promise("belay help, the median of 11", run(&["help"], state));
    promise("belay history", run(&["history"], state));
    promise("belay history -o json", run(&["history", "-o", "json"], state));
    promise("belay history deploy/app-7", run(&["history", "deploy/app-7"], state));
    promise("belay history --failed", run(&["history", "--failed"], state));
    promise("belay history --author 'author 42'", run(&["history", "--author", "author 42"], state));
    promise("belay show COMMIT", run(&["show", &commit], state));
    promise("belay history --stats", run(&["history", "--stats"], state));
    promise("belay status, what it takes beyond the API", run(&["status"], state) - api);
    // Nothing but each rollout tells this: it grows with them, and is for a report, not for a look.
    let all = run(&["history", "--stats", "--since", "3650d"], state);
    println!("{:<58} {all:>9.2} ms", "belay history --stats of all time, which reads each rollout");
    drop(served);
    kept
}
