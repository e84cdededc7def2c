//! How long it takes with 100,000 records. Run by hand, in release:
//! `cargo test --release --test history size -- --ignored --nocapture`

use std::collections::BTreeSet;

use belay::history::{By, History, Query, Retention, StatsQuery};
use belay::rollout::{Outcome, Record, Step, StepKind};
use tokio::time::Instant;

use super::{at, commit, commit_id, deployment, record};

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work();
    println!("{what:60} {:9.2} ms", begun.elapsed().as_secs_f64() * 1000.0);
    result
}

#[test]
#[ignore = "takes a minute; prints how long each part takes"]
fn measured() {
    let folder = tempfile::tempdir().unwrap();
    let (history, _) = History::open(folder.path(), at(0)).unwrap();
    timed("10,000 commits with 10 records each", || {
        for number in 0..10_000_u64 {
            let seconds = i64::try_from(number).unwrap() * 600;
            let id = commit_id(number);
            let author = format!("Author {}", number % 50);
            history.saw("shop", &id, &[commit(number, &author, at(seconds))], at(seconds)).unwrap();
            let records: Vec<Record> = (0..10_u64)
                .map(|n| {
                    let outcome = if (number + n).is_multiple_of(30) { Outcome::RolledBack } else { Outcome::Complete };
                    let name = format!("app-{}", (number * 10 + n) % 1000);
                    Record { outcome, ended: Some(at(seconds + 40)), ..record(number, deployment(&name), at(seconds)) }
                })
                .collect();
            history.begin("shop", &id, &records, at(seconds)).unwrap();
        }
    });
    timed("one record from its beginning to its end, of 1,000", || {
        for number in 0..1000_u64 {
            let id = commit_id(20_000 + number);
            let begun =
                history.begin("shop", &id, &[record(20_000 + number, deployment("app-1"), at(7_000_000))], at(0));
            let begun = begun.unwrap()[0];
            history
                .step(begun, &Step { at: at(1), kind: StepKind::Applied, detail: "generation 3".to_owned() })
                .unwrap();
            history.finish(begun, Outcome::Complete, None, at(7_000_060)).unwrap();
        }
    });
    drop(history);
    println!("{:60} {:9} KiB", "the file", std::fs::metadata(folder.path().join("history.db")).unwrap().len() / 1024);
    let (history, _) = timed("open, as the daemon does", || History::open(folder.path(), at(0)).unwrap());
    let reader = timed("open, as a command does", || History::read_only(folder.path()).unwrap());
    let page = || Query { limit: Some(50), ..Query::default() };
    let questions = [
        ("the newest 50", page()),
        ("of a workload", Query { name: Some("app-7".to_owned()), ..page() }),
        ("that failed", Query { outcomes: BTreeSet::from([Outcome::Failed, Outcome::RolledBack]), ..page() }),
        ("by an author", Query { author: Some("author 42".to_owned()), ..page() }),
        ("of a commit", Query { commit: Some(commit_id(77).short().to_owned()), ..page() }),
        ("everything", Query::default()),
    ];
    for (what, query) in questions {
        timed(what, || assert!(!reader.records(&query).unwrap().is_empty()));
    }
    timed("what is under way", || assert!(reader.open_records("shop").unwrap().is_empty()));
    timed("the last good one of 1,000 workloads", || {
        for number in 0..1000 {
            reader.last_good("shop", &deployment(&format!("app-{number}"))).unwrap();
        }
    });
    let stats = StatsQuery { source: None, since: at(0), until: at(100_000_000), by: By::Month };
    timed("the four numbers by month", || assert!(!reader.stats(&stats).unwrap().is_empty()));
    timed("the commits to be pinned", || assert_eq!(reader.pinned_commits().unwrap().len(), 11_000));
    let keep = Retention { age: None, records: Some(10_000) };
    timed("forget 90,000 records", || assert!(history.forget(&keep, at(0)).unwrap() > 80_000));
}
