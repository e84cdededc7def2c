//! The questions of people and of the daemon: records by commit, workload, author, time and outcome.

use std::collections::BTreeMap;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use crate::history::error::HistoryError;
use crate::history::records::{Arrival, FetchTimes, Heads, Query, Resolved};
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Commit, CommitId, Outcome, Person, ReasonCode, Record, RecordId, Step};

/// The number of candidates that are named when digits fit several commits.
const CANDIDATES: i64 = 20;
/// The outcomes that have an index of their own: few, and asked for often. The same as in the file's format.
const TROUBLE: [Outcome; 5] =
    [Outcome::Failed, Outcome::RolledBack, Outcome::RollbackFailed, Outcome::Rejected, Outcome::Held];

impl History {
    /// Returns the records that fit, newest first.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn records(&self, query: &Query) -> Result<Vec<Record>, HistoryError> {
        let (text, values) = query.sql();
        self.read("look into the history", |connection| {
            let mut statement = connection.prepare_cached(&text)?;
            let found: Result<Vec<Record>, _> = statement.query_map(params_from_iter(values), rows::record)?.collect();
            completed(connection, found?)
        })
    }

    /// Returns the record of an object that was written last, of those that have its wanted state, regardless of the
    /// clock then.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn newest(&self, source: &str, object: &ObjectKey) -> Result<Option<Record>, HistoryError> {
        let ObjectKey { group, kind, namespace, name } = object;
        self.read("look what was done last", |connection| {
            let text = format!("SELECT {} FROM records INDEXED BY records_by_name {NEWEST}", rows::RECORD);
            let mut statement = connection.prepare_cached(&text)?;
            let values = params![source, name, kind, group, namespace];
            let found = statement.query_row(values, rows::record).optional()?;
            Ok(completed(connection, found.into_iter().collect())?.pop())
        })
    }

    /// Returns the reasons of these objects whose newest record says that a newer commit has gone back to their held manifest.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn held_again<'k>(
        &self,
        source: &str,
        objects: impl Iterator<Item = &'k ObjectKey>,
    ) -> Result<BTreeMap<ObjectKey, String>, HistoryError> {
        let key = |key: &'k ObjectKey| (&key.group, &key.kind, &key.namespace, &key.name);
        let keys: Vec<_> = objects.map(key).collect();
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        self.read("look what is held again", |connection| {
            let mut statement = connection.prepare_cached(&format!("{HELD_AGAIN} AND {OWN} {LAST_BEGUN}"))?;
            let values = params![source, rows::json(&keys), ReasonCode::HeldAgain.as_str()];
            let found = statement.query_map(values, |row| Ok((rows::object(row, 0)?, row.get(4)?)))?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns one record.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn record(&self, id: RecordId) -> Result<Option<Record>, HistoryError> {
        self.read("look into the history", |connection| {
            let text = format!("SELECT {} FROM records WHERE number = ?", rows::RECORD);
            let found = connection.prepare_cached(&text)?.query_row([id.0], rows::record).optional()?;
            Ok(completed(connection, found.into_iter().collect())?.pop())
        })
    }

    /// Returns the steps of a record, in order.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn steps(&self, id: RecordId) -> Result<Vec<Step>, HistoryError> {
        self.read("look into the history", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT at, step, detail FROM steps WHERE record = ? ORDER BY number")?;
            let steps = statement.query_map([id.0], rows::step)?;
            Ok(steps.collect::<Result<_, _>>()?)
        })
    }

    /// Returns the records of a source that have not ended, oldest first: a starting daemon continues them.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn open_records(&self, source: &str) -> Result<Vec<Record>, HistoryError> {
        self.read("look what is under way", |connection| {
            let text = format!("SELECT {} FROM records INDEXED BY records_open {OPEN}", rows::RECORD);
            let mut statement = connection.prepare_cached(&text)?;
            let found: Result<Vec<Record>, _> = statement.query_map([source], rows::record)?.collect();
            completed(connection, found?)
        })
    }

    /// Returns the heads that a source has had.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn heads(&self, source: &str) -> Result<Heads, HistoryError> {
        self.read("look which heads there were", |connection| {
            let newest = |text: &str| -> Result<Option<CommitId>, Failure> {
                let mut statement = connection.prepare_cached(text)?;
                Ok(statement.query_row([source], |row| rows::parsed(row, 0)).optional()?)
            };
            Ok(Heads { recorded: newest(RECORDED)?, finished: newest(FINISHED)? })
        })
    }

    /// Returns the facts about a commit that belay has seen.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn commit(&self, id: &CommitId) -> Result<Option<Commit>, HistoryError> {
        self.read("look for a commit", |connection| {
            Ok(connection.prepare_cached(COMMIT)?.query_row([id.as_str()], commit).optional()?)
        })
    }

    /// Returns the commit that belay has seen and that begins with these digits.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn resolve(&self, digits: &str) -> Result<Resolved, HistoryError> {
        let digits = digits.to_ascii_lowercase();
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Ok(Resolved::None);
        }
        self.read("look for a commit", |connection| {
            let mut statement = connection.prepare_cached(RESOLVE)?;
            let found = statement.query_map(params![digits, after(&digits), CANDIDATES], |row| rows::parsed(row, 0))?;
            let mut found: Vec<CommitId> = found.collect::<Result<_, _>>()?;
            Ok(match found.len() {
                0 => Resolved::None,
                1 => Resolved::One(found.remove(0)),
                _ => Resolved::Several(found),
            })
        })
    }

    /// Returns the arrivals of a commit at the sources that have it, by their names.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn arrivals(&self, id: &CommitId) -> Result<Vec<Arrival>, HistoryError> {
        self.read("look how a commit came", |connection| {
            let mut statement = connection.prepare_cached(ARRIVALS)?;
            let arrival = |row: &Row<'_>| {
                let time =
                    |column| row.get::<_, Option<String>>(column)?.map(|_| rows::parsed(row, column)).transpose();
                let fetch = time(3)?.zip(time(4)?).map(|(began, ended)| FetchTimes { began, ended });
                Ok(Arrival { source: row.get(0)?, head: rows::parsed(row, 1)?, at: rows::parsed(row, 2)?, fetch })
            };
            let found = statement.query_map([id.as_str()], arrival)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }
}

const NEWEST: &str = "WHERE records.source = ?1 AND records.name = ?2 AND records.kind = ?3 AND records.\"group\" = ?4 AND \
                      records.namespace IS ?5 AND (\"trigger\" <> 'autoscaler' AND (\"trigger\" <> 'restart' OR who IS \
                      NULL)) ORDER BY records.number DESC LIMIT 1";
const OWN: &str = "(\"trigger\" <> 'autoscaler' AND (\"trigger\" <> 'restart' OR who IS NULL))";
/// Selects the newest records of the objects in a list, as JSON, that are held again. The conditions of their records follow.
const HELD_AGAIN: &str = "SELECT newest.\"group\", newest.kind, newest.namespace, newest.name, newest.message FROM json_each(?2) \
                          AS listed CROSS JOIN records AS newest WHERE newest.outcome = 'held' AND newest.reason = ?3 AND \
                          newest.number = (SELECT records.number FROM records INDEXED BY records_by_name WHERE records.source = \
                          ?1 AND records.\"group\" = listed.value ->> 0 AND records.kind = listed.value ->> 1 AND \
                          records.namespace IS listed.value ->> 2 AND records.name = listed.value ->> 3";
const LAST_BEGUN: &str = "ORDER BY records.started DESC, records.number DESC LIMIT 1)";
const OPEN: &str = "WHERE source = ? AND ended IS NULL ORDER BY number";
// A rebuilt record belongs to no head.
const RECORDED: &str = "SELECT head FROM plans WHERE source = ? AND head <> '' ORDER BY number DESC LIMIT 1";
const FINISHED: &str =
    "SELECT head FROM plans WHERE source = ? AND head <> '' AND ended IS NOT NULL ORDER BY number DESC LIMIT 1";
const COMMIT: &str = "SELECT \"commit\", subject, name, email, authored, committed, parents, trailers FROM commits JOIN \
                      people ON people.number = author WHERE \"commit\" = ?";
const RESOLVE: &str =
    "SELECT \"commit\" FROM commits WHERE \"commit\" >= ? AND \"commit\" < ? ORDER BY \"commit\" LIMIT ?";
const ARRIVALS: &str =
    "SELECT source, head, at, fetch_began, fetched FROM arrivals WHERE \"commit\" = ? ORDER BY source";

impl Query {
    /// Returns the question in SQL. The index is named, so that no question ever goes through all records by a wrong
    /// guess.
    fn sql(&self) -> (String, Vec<Value>) {
        let mut conditions: Vec<String> = Vec::new();
        let mut values: Vec<Value> = Vec::new();
        let mut and = |condition: &str, given: Vec<Value>| {
            conditions.push(condition.to_owned());
            values.extend(given);
        };
        let text = |text: &String| Value::Text(text.clone());
        if let Some(digits) = &self.commit {
            let digits = digits.to_ascii_lowercase();
            and("records.\"commit\" >= ? AND records.\"commit\" < ?", vec![text(&digits), Value::Text(after(&digits))]);
        }
        let fields =
            [("name", &self.name), ("kind", &self.kind), ("namespace", &self.namespace), ("source", &self.source)];
        for (column, wanted) in fields {
            if let Some(wanted) = wanted {
                and(&format!("records.{column} = ?"), vec![text(wanted)]);
            }
        }
        if let Some(author) = &self.author {
            let pattern = Value::Text(format!("%{}%", author.replace(['%', '_', '\\'], "_")));
            and(AUTHOR, vec![pattern.clone(), pattern]);
        }
        if let Some(since) = self.since {
            and("records.started >= ?", vec![Value::Text(rows::time(since))]);
        }
        if let Some(until) = self.until {
            and("records.started < ?", vec![Value::Text(rows::time(until))]);
        }
        if let Some(id) = self.older_than {
            and(OLDER, vec![Value::Integer(id.0)]);
        }
        if self.own {
            and(OWN, Vec::new());
        }
        if !self.outcomes.is_empty() {
            let words: Vec<Value> = self.outcomes.iter().map(|outcome| Value::Text(rows::word(*outcome))).collect();
            and(&format!("records.outcome IN ({})", vec!["?"; words.len()].join(", ")), words);
        }
        if self.is_of_trouble() {
            // Word by word as in the index, or it would not be used.
            and("outcome IN ('failed', 'rolled-back', 'rollback-failed', 'rejected', 'held')", Vec::new());
        }
        let conditions =
            if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
        values.push(Value::Integer(self.limit.map_or(-1, i64::from)));
        let sql = format!(
            "SELECT {} FROM records INDEXED BY {}{conditions} ORDER BY records.started DESC, records.number DESC LIMIT ?",
            rows::RECORD,
            self.index()
        );
        (sql, values)
    }

    fn index(&self) -> &'static str {
        if self.commit.is_some() {
            "records_by_commit"
        } else if self.name.is_some() {
            "records_by_name"
        } else if self.is_of_trouble() {
            "records_in_trouble"
        } else if self.author.is_some() {
            "records_by_commit"
        } else if self.namespace.is_some() {
            "records_by_namespace"
        } else if self.source.is_some() {
            "records_by_source"
        } else {
            "records_by_start"
        }
    }

    fn is_of_trouble(&self) -> bool {
        !self.outcomes.is_empty() && self.outcomes.iter().all(|outcome| TROUBLE.contains(outcome))
    }
}

const AUTHOR: &str = "records.\"commit\" IN (SELECT commits.\"commit\" FROM commits INDEXED BY commits_by_author WHERE \
                      author IN (SELECT number FROM people WHERE name LIKE ? OR email LIKE ?))";
const OLDER: &str = "(records.started, records.number) < (SELECT older.started, older.number FROM records AS older WHERE \
                     older.number = ?)";

/// Returns the first text after all that begin with these digits.
fn after(digits: &str) -> String {
    format!("{digits}g")
}

fn commit(row: &Row<'_>) -> rusqlite::Result<Commit> {
    let parents: String = row.get(6)?;
    let parents = parents.split(' ').filter(|parent| !parent.is_empty()).map(str::parse).collect::<Result<_, _>>();
    let trailers: String = row.get(7)?;
    Ok(Commit {
        id: rows::parsed(row, 0)?,
        subject: row.get(1)?,
        author: Person { name: row.get(2)?, email: row.get(3)? },
        authored: rows::parsed(row, 4)?,
        committed: rows::parsed(row, 5)?,
        parents: parents.map_err(|error: belay_core::rollout::InvalidCommitId| rows::unreadable(6, error))?,
        trailers: rows::from_json(7, &trailers)?,
    })
}

pub(in crate::history) fn completed(connection: &Connection, mut records: Vec<Record>) -> Result<Vec<Record>, Failure> {
    for record in &mut records {
        rows::complete(connection, record)?;
    }
    Ok(records)
}
