//! The history file: what is written is there, also after a kill; what is asked is answered.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod file;
mod killed;
mod model;
mod notices;
mod rebuilt;
mod records;
mod statistics;
mod timeline;

use belay::history::History;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Commit, CommitId, Outcome, Person, Record, RecordId};
use jiff::Timestamp;

/// Returns a commit's id from a number.
fn commit_id(number: u64) -> CommitId {
    // Spread, so that prefixes differ.
    format!("{:040x}", u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) ^ u128::from(number))
        .chars()
        .rev()
        .take(40)
        .collect::<String>()
        .parse()
        .unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_760_000_000 + seconds).unwrap()
}

fn deployment(name: &str) -> ObjectKey {
    ObjectKey {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: Some("shop".to_owned()),
        name: name.to_owned(),
    }
}

fn commit(number: u64, author: &str, authored: Timestamp) -> Commit {
    Commit {
        id: commit_id(number),
        subject: format!("Change number {number}"),
        author: Person { name: author.to_owned(), email: format!("{}@example.com", author.to_lowercase()) },
        authored,
        committed: authored,
        parents: vec![commit_id(number + 1000)],
        trailers: vec![("Belay-Allow-Prune".to_owned(), "3".to_owned())],
    }
}

fn record(commit: u64, object: ObjectKey, started: Timestamp) -> Record {
    Record {
        manifest_hash: Some(format!("hash-{commit}")),
        rolls_out: true,
        ..Record::planned("shop", &commit_id(commit), object, started)
    }
}

/// Begins and ends one record.
fn recorded(history: &History, commit: u64, name: &str, outcome: Outcome, seconds: i64) -> RecordId {
    let record = record(commit, deployment(name), at(seconds));
    let id = history.begin("shop", &commit_id(commit), &[record], at(seconds)).unwrap()[0];
    history.finish(id, outcome, None, at(seconds + 30)).unwrap();
    id
}
