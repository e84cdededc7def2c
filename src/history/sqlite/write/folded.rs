//! Corrections of an object that somebody keeps changing: all of them are one record, which is opened again for each.

use rusqlite::{OptionalExtension as _, params};

use super::write_step;
use crate::history::error::HistoryError;
use crate::history::folded::NewestRecord;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use belay_core::rollout::{Outcome, Record, RecordId, Step};

impl History {
    /// Opens the newest record of an object again, if it is a successful correction of the same commit and of the same
    /// manager's changes. `step` takes the place of the steps that it had. Returns its number; `None` if a record of
    /// its own is to be written.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn begin_again(&self, source: &str, record: &Record, step: &Step) -> Result<Option<RecordId>, HistoryError> {
        let object = &record.object;
        self.write("write down another correction", |connection| {
            let found: Option<(i64, NewestRecord)> = connection
                .prepare_cached(
                    "SELECT number, \"trigger\", who, \"commit\", outcome, ended IS NOT NULL FROM records WHERE source = ? AND \
                     name = ? AND kind = ? AND \"group\" = ? AND namespace IS ? ORDER BY number DESC LIMIT 1",
                )?
                .query_row(params![source, object.name, object.kind, object.group, object.namespace], |row| {
                    let (trigger, who, commit) = (row.get(1)?, row.get(2)?, row.get(3)?);
                    let newest =
                        NewestRecord { trigger, who, commit, outcome: rows::worded(row, 4)?, has_ended: row.get(5)? };
                    Ok((row.get(0)?, newest))
                })
                .optional()?;
            let Some((number, _)) = found.filter(|(_, newest)| newest.is_taken_up_by(record)) else { return Ok(None) };
            connection
                .prepare_cached("UPDATE records SET outcome = ?2, ended = NULL, rolls_out = ?3 WHERE number = ?1")?
                .execute(params![number, rows::word(Outcome::Planned), record.rolls_out])?;
            connection.prepare_cached("DELETE FROM steps WHERE record = ?")?.execute([number])?;
            connection.prepare_cached("DELETE FROM baselines WHERE record = ?")?.execute([number])?;
            write_step(connection, RecordId(number), step)?;
            Ok(Some(RecordId(number)))
        })
    }
}
