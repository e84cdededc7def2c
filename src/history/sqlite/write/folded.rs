//! Corrections of an object that somebody keeps changing: all of them are one record, which is opened again for each.

use rusqlite::{OptionalExtension as _, params};

use super::write_step;
use crate::history::error::HistoryError;
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
            let found: Option<(i64, bool)> = connection
                .prepare_cached(
                    "SELECT number, \"trigger\" = ? AND who IS ? AND \"commit\" = ? AND outcome = ? AND ended IS NOT NULL \
                     FROM records WHERE source = ? AND name = ? AND kind = ? AND \"group\" = ? AND namespace IS ? ORDER BY \
                     number DESC LIMIT 1",
                )?
                .query_row(
                    params![
                        record.trigger.word(),
                        record.trigger.who(),
                        record.commit.as_str(),
                        rows::word(Outcome::Complete),
                        source,
                        object.name,
                        object.kind,
                        object.group,
                        object.namespace
                    ],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()?;
            let Some((number, true)) = found else { return Ok(None) };
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
