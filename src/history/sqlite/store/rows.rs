//! Between rows and records.

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, Error, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use belay_core::manifest::{Complaint, ObjectKey, Place};
use belay_core::rollout::{Evidence, Reason, Record, RecordId, Step, Trigger};

/// The columns that [`record`] reads, in its order.
pub(in crate::history) const RECORD: &str = "records.number, records.source, records.\"commit\", records.\"group\", records.kind, \
                                 records.namespace, records.name, records.path, records.line, records.\"column\", \
                                 records.\"trigger\", records.who, records.named, records.outcome, records.reason, records.message, \
                                 records.manifest_hash, records.rolls_out, records.revision, records.back_to, \
                                 records.back_to_revision, records.started, records.ended, records.rendered_by";

/// The condition for records that say something of their commit: corrected drift says nothing.
pub(in crate::history) const COUNTED: &str = "NOT (\"trigger\" IN ('drift', 'autoscaler') AND outcome IN ('complete', \
                                  'unchanged', 'superseded', 'unknown'))";

/// Returns one record, without the data in tables of its own.
pub(in crate::history) fn record(row: &Row<'_>) -> Result<Record, Error> {
    let place = match (row.get::<_, Option<String>>(7)?, row.get(8)?, row.get(9)?) {
        (Some(path), Some(line), Some(column)) => Some(Place { path: Arc::from(path), line, column }),
        _ => None,
    };
    let message: Option<String> = row.get(15)?;
    let reason = row
        .get::<_, Option<String>>(14)?
        .zip(message)
        .map(|(code, message): (String, String)| Reason { code: code.into(), message });
    let trigger = trigger(row, 10)?;
    let started: Timestamp = parsed(row, 21)?;
    let ended: Option<Timestamp> = row.get::<_, Option<String>>(22)?.map(|_| parsed(row, 22)).transpose()?;
    Ok(Record {
        id: RecordId(row.get(0)?),
        source: row.get(1)?,
        commit: parsed(row, 2)?,
        object: object(row, 3)?,
        place,
        rendered_by: row.get(23)?,
        outcome: worded(row, 13)?,
        reason,
        manifest_hash: row.get(16)?,
        rolls_out: row.get(17)?,
        revision: row.get(18)?,
        back_to: row.get::<_, Option<String>>(19)?.map(|_| parsed(row, 19)).transpose()?,
        back_to_revision: row.get(20)?,
        complaints: Vec::new(),
        evidence: None,
        // The file has an end for everything that is over; a rebuilt record may have no more than that.
        ended: ended.filter(|ended| trigger != Trigger::Rebuilt || *ended != started),
        trigger,
        started,
    })
}

/// Adds the data from tables of its own.
pub(in crate::history) fn complete(connection: &Connection, record: &mut Record) -> Result<(), Error> {
    let mut statement = connection.prepare_cached(
        "SELECT path, line, \"column\", object, message, hint, excerpt, also FROM complaints WHERE record = ? ORDER BY number",
    )?;
    let complaint = |row: &Row<'_>| {
        let path: String = row.get(0)?;
        Ok(Complaint {
            place: Place { path: Arc::from(path), line: row.get(1)?, column: row.get(2)? },
            object: row.get::<_, Option<String>>(3)?.map(|json| from_json(3, &json)).transpose()?,
            message: row.get(4)?,
            hint: row.get(5)?,
            excerpt: row.get::<_, Option<String>>(6)?.map(|json| from_json(6, &json)).transpose()?,
            also: row.get::<_, Option<String>>(7)?.map(|json| from_json(7, &json)).transpose()?.unwrap_or_default(),
        })
    };
    record.complaints = statement.query_map([record.id.0], complaint)?.collect::<Result<_, _>>()?;
    let mut statement = connection.prepare_cached("SELECT evidence FROM evidence WHERE record = ?")?;
    let mut rows = statement.query([record.id.0])?;
    if let Some(row) = rows.next()? {
        let json: String = row.get(0)?;
        record.evidence = Some(from_json(0, &json)?);
    }
    Ok(())
}

/// Returns the group, kind, namespace and name that stand in four columns.
pub(in crate::history) fn object(row: &Row<'_>, at: usize) -> Result<ObjectKey, Error> {
    Ok(ObjectKey { group: row.get(at)?, kind: row.get(at + 1)?, namespace: row.get(at + 2)?, name: row.get(at + 3)? })
}

pub(in crate::history) fn step(row: &Row<'_>) -> Result<Step, Error> {
    Ok(Step { at: parsed(row, 0)?, kind: worded(row, 1)?, detail: row.get(2)? })
}

pub(in crate::history) fn write_complaints(
    connection: &Connection,
    id: i64,
    complaints: &[Complaint],
) -> Result<(), Error> {
    connection.prepare_cached("DELETE FROM complaints WHERE record = ?")?.execute([id])?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO complaints (record, number, path, line, \"column\", object, message, hint, excerpt, also) VALUES (?, ?, \
         ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for (number, complaint) in (1_i64..).zip(complaints) {
        let Place { path, line, column } = &complaint.place;
        let object = complaint.object.as_ref().map(json);
        let excerpt = complaint.excerpt.as_ref().map(json);
        let also = (!complaint.also.is_empty()).then(|| json(&complaint.also));
        let (message, hint) = (&complaint.message, &complaint.hint);
        statement.execute(params![id, number, path, line, column, object, message, hint, excerpt, also])?;
    }
    Ok(())
}

pub(in crate::history) fn write_evidence(connection: &Connection, id: i64, evidence: &Evidence) -> Result<(), Error> {
    let mut statement =
        connection.prepare_cached("INSERT OR REPLACE INTO evidence (record, evidence) VALUES (?, ?)")?;
    statement.execute(params![id, json(evidence)]).map(drop)
}

/// Returns a time as it is kept: `2026-11-20T09:30:00.000Z`. Texts of the years 0 to 9999 sort as the times do.
pub(in crate::history) fn time(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// Returns the trigger that stands in three columns: its word, whose hand it was, and the object that it names.
pub(in crate::history) fn trigger(row: &Row<'_>, at: usize) -> Result<Trigger, Error> {
    let (word, who): (String, Option<String>) = (row.get(at)?, row.get(at + 1)?);
    let object: Option<String> = row.get(at + 2)?;
    let object = object.map(|json| from_json(at + 2, &json)).transpose()?;
    Trigger::of_word(&word, who, object).ok_or_else(|| unreadable(at, format!("no trigger is called {word}")))
}

/// Returns the word that an outcome, or the kind of a step, is kept under.
pub(in crate::history) fn word<T: Serialize>(value: T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        other => unreachable!("outcomes and steps are words, not {other:?}"),
    }
}

pub(in crate::history) fn worded<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> Result<T, Error> {
    let word: String = row.get(at)?;
    serde_json::from_value(serde_json::Value::String(word)).map_err(|error| unreadable(at, error))
}

pub(in crate::history) fn parsed<T: std::str::FromStr>(row: &Row<'_>, at: usize) -> Result<T, Error>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text: String = row.get(at)?;
    text.parse().map_err(|error| unreadable(at, error))
}

pub(in crate::history) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("records have only names as keys")
}

pub(in crate::history) fn from_json<T: DeserializeOwned>(at: usize, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| unreadable(at, error))
}

pub(in crate::history) fn unreadable(at: usize, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::FromSqlConversionFailure(at, Type::Text, error.into())
}
