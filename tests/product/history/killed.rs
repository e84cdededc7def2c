//! A process that writes is killed at any moment: what it said that it had written is there.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use belay::history::{History, OpenedHistory, Query};
use belay_core::rollout::{Outcome, RecordId, Step, StepKind};

use super::{at, commit_id, deployment, record};

/// Names the folder to the process that is to be killed.
const FOLDER: &str = "BELAY_TEST_HISTORY";

#[test]
fn nothing_that_was_announced_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut announced: Vec<(i64, Outcome)> = Vec::new();
    for round in 0..12_usize {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::writes_until_it_is_killed", "--nocapture", "--test-threads", "1"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Killed after so many announcements, in the middle of whatever it does then.
        let mut left = 5 + round * 17 % 60;
        for line in lines.map_while(Result::ok) {
            let Some(announcement) = line.strip_prefix("written ") else { continue };
            let (id, outcome) = announcement.split_once(' ').unwrap();
            let outcome = serde_json::from_str(outcome).unwrap();
            announced.push((id.parse().unwrap(), outcome));
            left = left.saturating_sub(1);
            if left == 0 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
    }
    assert!(announced.len() > 100);
    let (history, opened) = History::open(folder.path(), at(0)).unwrap();
    assert_eq!(opened, OpenedHistory::Existing);
    for (id, outcome) in &announced {
        let record = history.record(RecordId(*id)).unwrap().unwrap();
        // The last announcement for a record may not have been its last change.
        let later = announced.iter().rev().find(|(other, _)| other == id).unwrap().1;
        assert!(record.outcome == later || record.outcome.is_final(), "{id}: {outcome}, then {}", record.outcome);
        let steps = history.steps(record.id).unwrap();
        assert_eq!(record.outcome.is_final(), steps.iter().any(|step| step.kind == StepKind::Ended));
    }
    // A plan is there as a whole or not at all.
    let records = history.records(&Query::default()).unwrap();
    assert_eq!(records.len() % 3, 0, "{}", records.len());
}

/// Not a test by itself: the process that is killed.
#[test]
fn writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (history, _) = History::open(Path::new(&folder), at(0)).unwrap();
    let begun = history.records(&Query { limit: Some(1), ..Query::default() }).unwrap();
    let mut number = begun.first().map_or(1, |record| u64::try_from(record.id.0).unwrap() + 1);
    let say = |id: RecordId, outcome: Outcome| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "written {} {}", id.0, serde_json::to_string(&outcome).unwrap()).unwrap();
        out.flush().unwrap();
    };
    loop {
        let plan =
            ["web", "api", "db"].map(|name| record(number, deployment(name), at(i64::try_from(number).unwrap())));
        let ids = history.begin("shop", &commit_id(number), &plan, at(0)).unwrap();
        ids.iter().for_each(|id| say(*id, Outcome::Planned));
        for id in ids {
            history.step(id, &Step { at: at(1), kind: StepKind::Applying, detail: "x".repeat(2000) }).unwrap();
            history.finish(id, Outcome::Complete, None, at(2)).unwrap();
            say(id, Outcome::Complete);
        }
        number += 3;
    }
}
