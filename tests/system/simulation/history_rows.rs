//! belay's history file, read by plain SQL.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, Row as SqlRow};
use serde_json::Value;

use super::repository::Key;

/// The trigger of a record, with one word for all changes of a commit.
const TRIGGER: &str = "CASE WHEN \"trigger\" IN ('new-image', 'config-change') OR \"trigger\" = 'restart' AND who IS NULL \
                       THEN 'commit' ELSE \"trigger\" END";

/// A record.
#[derive(Clone, Debug)]
pub struct Record {
    pub number: i64,
    pub plan: i64,
    pub commit: String,
    pub key: Key,
    pub trigger: String,
    pub outcome: String,
    pub reason: String,
    pub rolls_out: bool,
    pub started: String,
    pub ended: Option<String>,
    /// When, what, and in which words.
    pub steps: Vec<(String, String, String)>,
    /// Path, line and words.
    pub complaints: Vec<(String, i64, String)>,
    pub evidence: Option<Value>,
}

/// A whole history file.
#[derive(Clone, Debug, Default)]
pub struct HistoryRows {
    /// The number of each plan, and its head.
    pub plans: Vec<(i64, String)>,
    pub records: Vec<Record>,
    /// The records of the second source.
    pub beside: Vec<Record>,
    /// The file itself, and what lies beside it.
    pub bytes: Vec<u8>,
}

/// An open record, as it stands at the moment of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    pub number: i64,
    pub plan: i64,
    pub commit: String,
    pub trigger: String,
    pub outcome: String,
    /// Its last step that is not about progress or waiting.
    pub step: String,
}

/// The verdict on a record that has ended, as it stands at the moment of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOutcome {
    pub number: i64,
    pub trigger: String,
    pub outcome: String,
}

impl HistoryRows {
    /// Reads the file in a state folder; nothing if there is none.
    pub fn read(state: &Path) -> HistoryRows {
        let Some(connection) = open(state) else { return HistoryRows::default() };
        let plans = all(
            &connection,
            "SELECT number, head FROM plans WHERE head <> '' AND source = 'shop' ORDER BY number",
            |row| Ok((row.get(0)?, row.get(1)?)),
        );
        // Records that were rebuilt after a loss were read from the cluster, and stand beside the daemon's.
        let of_source = |source: &str| {
            let sql = format!(
                "SELECT number, plan, \"commit\", kind, name, {TRIGGER}, outcome, coalesce(reason, '') || ': ' || \
                 coalesce(message, ''), rolls_out, started, ended FROM records WHERE \"trigger\" <> 'rebuilt' AND source = \
                 '{source}' ORDER BY number"
            );
            all(&connection, &sql, record)
        };
        let (mut records, beside) = (of_source("shop"), of_source("side"));
        for record in &mut records {
            let number = record.number;
            let of = |sql: &str| sql.replace('?', &number.to_string());
            record.steps =
                all(&connection, &of("SELECT at, step, detail FROM steps WHERE record = ? ORDER BY number"), |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                });
            let complaints = of("SELECT path, line, message FROM complaints WHERE record = ?");
            record.complaints = all(&connection, &complaints, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
            let evidence: Vec<String> =
                all(&connection, &of("SELECT evidence FROM evidence WHERE record = ?"), |row| row.get(0));
            record.evidence = evidence.first().and_then(|text| serde_json::from_str(text).ok());
        }
        let files = ["history.db", "history.db-wal"];
        let bytes = files.iter().flat_map(|name| fs::read(state.join(name)).unwrap_or_default()).collect();
        HistoryRows { plans, records, beside, bytes }
    }

    /// Returns the open records of an object at this moment.
    pub fn open_records(state: &Path, key: &Key) -> Vec<Open> {
        let Some(connection) = open(state) else { return Vec::new() };
        let sql = format!(
            "SELECT number, plan, \"commit\", {TRIGGER}, outcome, coalesce((SELECT step FROM steps WHERE record = \
             records.number AND step NOT IN ('progress', 'waiting', 'resumed') ORDER BY number DESC LIMIT 1), '') FROM \
             records WHERE ended IS NULL AND kind = '{}' AND name = '{}'",
            key.0, key.1
        );
        all(&connection, &sql, |row| {
            let (number, plan, commit) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Open { number, plan, commit, trigger: row.get(3)?, outcome: row.get(4)?, step: row.get(5)? })
        })
    }
}

/// Returns the verdicts on all records that have ended, at this moment.
pub fn verdicts(state: &Path) -> Vec<RecordOutcome> {
    let Some(connection) = open(state) else { return Vec::new() };
    let sql = "SELECT number, \"trigger\", outcome FROM records WHERE ended IS NOT NULL ORDER BY number";
    all(&connection, sql, |row| Ok(RecordOutcome { number: row.get(0)?, trigger: row.get(1)?, outcome: row.get(2)? }))
}

fn open(state: &Path) -> Option<Connection> {
    Connection::open_with_flags(state.join("history.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).ok()
}

fn all<T>(connection: &Connection, sql: &str, read: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<T>) -> Vec<T> {
    let mut statement = connection.prepare(sql).expect("the history's tables");
    let rows = statement.query_map([], read).expect("rows");
    rows.collect::<Result<_, _>>().expect("rows that can be read")
}

fn record(row: &SqlRow<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        number: row.get(0)?,
        plan: row.get(1)?,
        commit: row.get(2)?,
        key: (row.get(3)?, row.get(4)?),
        trigger: row.get(5)?,
        outcome: row.get(6)?,
        reason: row.get(7)?,
        rolls_out: row.get(8)?,
        started: row.get(9)?,
        ended: row.get(10)?,
        steps: Vec::new(),
        complaints: Vec::new(),
        evidence: None,
    })
}
