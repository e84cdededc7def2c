//! The measurements of analyses: kept, so that a daemon that starts again goes on, and anybody can compute the verdict.

use rusqlite::{Connection, params};

use crate::history::error::HistoryError;
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::analysis::{MadeJob, Measurement};
use belay_core::rollout::{RecordId, StepKind};

/// The newest records of an object whose Jobs are read.
const RECORDS: u32 = 10;

impl History {
    /// Returns what was measured of a record's rollout, in order. A row that can't be read is left out.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn measurements(&self, id: RecordId) -> Result<Vec<Measurement>, HistoryError> {
        self.newest_measurements(id, u32::MAX)
    }

    /// Returns the newest of them, at most so many.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn newest_measurements(&self, id: RecordId, limit: u32) -> Result<Vec<Measurement>, HistoryError> {
        self.read("read what was measured", |connection| {
            let mut statement = connection
                .prepare_cached("SELECT measurement FROM measurements WHERE record = ? ORDER BY number DESC LIMIT ?")?;
            let read = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
            let rows: Vec<String> = statement.query_map(params![id.0, limit], read)?.collect::<Result<_, _>>()?;
            Ok(rows.iter().rev().filter_map(|row| serde_json::from_str(row).ok()).collect())
        })
    }

    /// Returns the Jobs that the newest rollouts of an object have made for their analyses.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn jobs_of_analyses(&self, source: &str, object: &ObjectKey) -> Result<Vec<MadeJob>, HistoryError> {
        let ObjectKey { group, kind, namespace, name } = object;
        self.read("read which jobs were made", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT detail FROM steps WHERE step = ?6 AND record IN (SELECT number FROM records INDEXED BY records_by_name \
                 WHERE source = ?1 AND name = ?2 AND kind = ?3 AND \"group\" = ?4 AND namespace IS ?5 ORDER BY started DESC, \
                 number DESC LIMIT ?7)",
            )?;
            let values = params![source, name, kind, group, namespace, rows::word(StepKind::Job), RECORDS];
            let steps: Vec<String> = statement.query_map(values, |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(steps.iter().filter_map(|step| MadeJob::of_step(step)).collect())
        })
    }
}

/// Writes down what a look has measured.
pub(in crate::history) fn write_measurement(
    connection: &Connection,
    id: RecordId,
    measurement: &Measurement,
) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "INSERT INTO measurements (record, number, measurement) VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM \
             measurements WHERE record = ?1), ?2)",
        )?
        .execute(params![id.0, rows::json(measurement)])?;
    Ok(())
}
