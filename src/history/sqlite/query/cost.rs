//! The cost of each question in a history of 20,000 records, counted in steps of SQLite's machine, not in time.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use rusqlite::StatementStatus;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use serde_json::json;

use crate::history::{FallbackTemplate, History, OpenedHistory, Query, Update};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{
    Commit, CommitId, Outcome, Person, Record, RecordId, Step, StepKind, TemplateMarks, Trigger,
};

/// One statement that has run: its text, how many steps it took, and how many of them went through a whole table.
type Ran = (String, i32, i32);

#[derive(Clone, Default)]
struct Meter {
    before: Arc<Mutex<HashMap<String, (i32, i32)>>>,
    ran: Arc<Mutex<Vec<Ran>>>,
}

impl Meter {
    fn attach(&self, history: &History) {
        history.each_connection(|connection| {
            connection.flush_prepared_statement_cache();
            let meter = self.clone();
            let note = move |event: TraceEvent<'_>| {
                let TraceEvent::Profile(statement, _) = event else { return };
                // The counters of a statement that is kept go on from run to run.
                let total = (
                    statement.get_status(StatementStatus::VmStep),
                    statement.get_status(StatementStatus::FullscanStep),
                );
                let text = statement.sql().into_owned();
                let mut kept = meter.before.lock().unwrap();
                let before = kept.insert(text.clone(), total).filter(|before| before.0 <= total.0).unwrap_or_default();
                meter.ran.lock().unwrap().push((text, total.0 - before.0, total.1 - before.1));
            };
            connection.trace_v2(TraceEventCodes::SQLITE_TRACE_PROFILE, Some(note)).unwrap();
        });
    }

    /// Returns everything that ran in `work` stays within `steps`, and none of it went through a whole table.
    fn within<T>(&self, what: &str, steps: i32, work: impl FnOnce() -> T) -> T {
        self.ran.lock().unwrap().clear();
        let result = work();
        let ran = std::mem::take(&mut *self.ran.lock().unwrap());
        assert!(!ran.is_empty(), "{what}: nothing was counted");
        for (text, cost, scanned) in &ran {
            // The people are few, and a name may stand anywhere in theirs.
            let allowed = if text.contains("FROM people") { 200 } else { 50 };
            assert!(*scanned <= allowed, "{what}: {scanned} steps through a whole table in {text}");
            assert!(*cost <= steps, "{what}: {cost} steps instead of {steps} in {text}");
        }
        result
    }
}

fn id(number: i64) -> CommitId {
    format!("{number:010}{:030x}", number * 77).chars().rev().collect::<String>().parse().unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn object(number: i64) -> ObjectKey {
    ObjectKey {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: Some(format!("team-{}", number % 20)),
        name: format!("app-{}", number % 500),
    }
}

fn record(number: i64, outcome: Outcome) -> Record {
    Record {
        outcome,
        manifest_hash: Some(number.to_string()),
        rolls_out: true,
        ..Record::planned("", &id(number / 10), object(number), at(number))
    }
}

const RECORDS: i64 = 20_000;

/// 2,000 commits by 100 people, ten records each; one of a hundred records failed, all but the last ended.
fn large(folder: &std::path::Path) -> History {
    let (history, _) = History::open(folder, at(0)).unwrap();
    for number in 0..RECORDS / 10 {
        let author = number % 100;
        let commit = Commit {
            id: id(number),
            subject: format!("Change {number}"),
            author: Person { name: format!("Author {author:03}"), email: format!("a{author:03}@example.com") },
            authored: at(number * 10),
            committed: at(number * 10),
            parents: Vec::new(),
            trailers: Vec::new(),
        };
        let source = if number % 2 == 0 { "shop" } else { "site" };
        history.saw(source, &commit.id, std::slice::from_ref(&commit), at(number * 10)).unwrap();
        let outcome = |number: i64| match number {
            number if number == RECORDS - 1 => Outcome::UnderWay,
            number if number % 100 == 0 => Outcome::RolledBack,
            _ => Outcome::Complete,
        };
        let records: Vec<Record> =
            (number * 10..number * 10 + 10).map(|number| record(number, outcome(number))).collect();
        history.begin(source, &commit.id, &records, at(number * 10)).unwrap();
    }
    history
}

#[test]
fn no_question_goes_through_everything() {
    let folder = tempfile::tempdir().unwrap();
    let history = large(folder.path());
    let meter = Meter::default();
    meter.attach(&history);
    let page = || Query { limit: Some(50), ..Query::default() };
    let some = |text: &str| Some(text.to_owned());
    let failed = || BTreeSet::from([Outcome::Failed, Outcome::RolledBack]);
    let questions = [
        ("newest", page()),
        ("of a source", Query { source: some("shop"), ..page() }),
        ("of a workload", Query { name: some("app-7"), namespace: some("team-7"), ..page() }),
        ("of a namespace", Query { namespace: some("team-7"), ..page() }),
        ("of a commit", Query { commit: Some(id(17).short().to_owned()), ..page() }),
        ("that failed", Query { outcomes: failed(), ..page() }),
        ("that failed in a source", Query { outcomes: failed(), source: some("shop"), ..page() }),
        ("since", Query { since: Some(at(RECORDS - 100)), ..page() }),
        ("long ago", Query { until: Some(at(100)), ..page() }),
        ("long ago in a source", Query { until: Some(at(100)), source: some("shop"), ..page() }),
        ("the next page", Query { older_than: Some(RecordId(RECORDS / 2)), ..page() }),
        ("complete", Query { outcomes: BTreeSet::from([Outcome::Complete]), ..page() }),
    ];
    for (what, query) in questions {
        let found = meter.within(what, 10_000, || history.records(&query)).unwrap();
        assert!(!found.is_empty(), "{what}");
    }
    // 200 records to be sorted: as many as the author has, not as there are.
    let by_author = Query { author: some("author 042"), ..page() };
    assert_eq!(meter.within("by an author", 30_000, || history.records(&by_author)).unwrap().len(), 50);

    assert_eq!(meter.within("open", 1000, || history.open_records("site")).unwrap().len(), 1);
    meter.within("heads", 200, || history.heads("shop")).unwrap();
    meter.within("a record", 500, || history.record(RecordId(777))).unwrap().unwrap();
    meter.within("jobs of analyses", 1_000, || history.jobs_of_analyses("shop", &object(8))).unwrap();
    meter.within("steps", 200, || history.steps(RecordId(777))).unwrap();
    meter.within("a commit", 200, || history.commit(&id(5))).unwrap().unwrap();
    meter.within("digits", 500, || history.resolve(&id(5).as_str()[..8])).unwrap();
    meter.within("arrivals", 200, || history.arrivals(&id(5))).unwrap();
    meter.within("rebuilt", 200, || history.rebuilt("shop")).unwrap();
    let keys = [object(8), object(9)];
    meter.within("held again", 1000, || history.held_again("shop", keys.iter())).unwrap();
    meter.within("followed", 200, || history.followed()).unwrap();
    meter.within("drifts", 200, || history.drifts("shop")).unwrap();
    let undo = Trigger::UndoByHand(String::new());
    assert_eq!(meter.within("timeline", 3000, || history.timeline(None, None, 50)).unwrap().len(), 50);
    let middle = meter.within("timeline of a source", 3000, || history.timeline(Some("shop"), Some(999), 50)).unwrap();
    assert_eq!(middle.len(), 50);
    meter.within("forgotten", 200, || history.kept_since(at(0))).unwrap();
    meter.within("undo", 500, || history.knows("shop", &object(8), at(8), &undo)).unwrap();
    meter.within("last good", 5000, || history.last_good("shop", &object(8))).unwrap().unwrap();
}

/// A page in the middle that can't be read is noticed by who reads it, not by who opens the file.
#[test]
fn opening_does_not_go_through_everything() {
    let folder = tempfile::tempdir().unwrap();
    drop(large(folder.path()));
    let file = folder.path().join("history.db");
    let length = std::fs::metadata(&file).unwrap().len();
    assert!(length > 8 << 20, "{length} bytes");
    let mut opened = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    std::io::Seek::seek(&mut opened, std::io::SeekFrom::Start(length / 4096 / 2 * 4096)).unwrap();
    std::io::Write::write_all(&mut opened, &[0x5a; 600]).unwrap();
    drop(History::read_only(folder.path()).unwrap());
    let (history, opened) = History::open(folder.path(), at(0)).unwrap();
    assert_eq!(opened, OpenedHistory::Existing);
    assert!(history.mend(at(1)).unwrap().is_some(), "the daily look finds it");
}

#[test]
fn no_write_grows_with_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let history = large(folder.path());
    let meter = Meter::default();
    meter.attach(&history);
    let records = [record(3 * RECORDS, Outcome::Planned), record(3 * RECORDS + 1, Outcome::Planned)];
    let head = id(3 * RECORDS / 10);
    let ids = meter.within("begin", 1000, || history.begin("shop", &head, &records, at(RECORDS))).unwrap();
    meter.within("begin again", 1000, || history.begin("shop", &head, &records, at(RECORDS))).unwrap();
    let retry = Record { trigger: Trigger::Retry, ..record(RECORDS / 2, Outcome::Planned) };
    meter.within("try again", 1000, || history.begin("shop", &head, &[retry], at(RECORDS))).unwrap();
    let step = Step { at: at(1), kind: StepKind::Applied, detail: String::new() };
    meter.within("step", 500, || history.step(ids[0], &step)).unwrap();
    let update = Update { outcome: Some(Outcome::UnderWay), ..Update::default() };
    meter.within("update", 1000, || history.update(ids[0], &update)).unwrap();
    meter.within("finish", 1000, || history.finish(ids[0], Outcome::Complete, None, at(2))).unwrap();
    for number in 0..60 {
        let template = json!({ "spec": number });
        meter
            .within("keep", 5000, || history.keep_template("shop", &object(8), &id(number), &template, at(3)))
            .unwrap();
    }
    let fallback = FallbackTemplate { uid: "1".to_owned(), template: json!({}), marks: TemplateMarks::default() };
    meter
        .within("keep a fallback template", 1000, || history.keep_fallback_template("shop", &object(8), &fallback))
        .unwrap();
    meter.within("a fallback template", 200, || history.fallback_template("shop", &object(8))).unwrap().unwrap();
    meter.within("template", 500, || history.template("shop", &object(8), &id(59))).unwrap().unwrap();
}
