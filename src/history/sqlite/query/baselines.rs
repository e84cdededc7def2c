//! The baselines of rollouts: kept, so that a daemon that starts again judges by the same measure.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::history::baselines::{JudgedBake, JudgedBaseline, JudgedWrite};
use crate::history::error::HistoryError;
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::store::file::History;
use crate::history::sqlite::store::rows;
use belay_core::rollout::{BakeStart, Baseline, RecordId};

impl History {
    /// Returns the baseline of a record's last write of this kind; `None` if there was none.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn baseline(&self, id: RecordId, of: JudgedWrite) -> Result<Option<Baseline>, HistoryError> {
        self.read("read where a rollout began", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT generation, uid, old_failure, only_size, max(at, coalesce((SELECT max(at) FROM steps WHERE record \
                 = ?1 AND step = 'progress'), at)) FROM baselines WHERE record = ?1 AND step = ?2",
            )?;
            let read = |row: &rusqlite::Row<'_>| {
                let (generation, uid, old_failure, only_size) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
                Ok(Baseline { generation, old_failure, uid, only_size, moved: Some(rows::parsed(row, 4)?) })
            };
            Ok(statement.query_row(params![id.0, rows::word(of.step())], read).optional()?)
        })
    }
}

impl History {
    /// Returns the bake time that has begun for a record's last write of this kind; `None` if none has.
    ///
    /// # Errors
    ///
    /// When the file can't be read.
    pub fn bake(&self, id: RecordId, of: JudgedWrite) -> Result<Option<BakeStart>, HistoryError> {
        self.read("read when a bake time began", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT bake_ends, bake_restarts FROM baselines WHERE record = ? AND step = ? AND bake_ends IS NOT NULL",
            )?;
            let read = |row: &rusqlite::Row<'_>| {
                let restarts: String = row.get(1)?;
                Ok(BakeStart { ends: rows::parsed(row, 0)?, restarts: rows::from_json(1, &restarts)? })
            };
            Ok(statement.query_row(params![id.0, rows::word(of.step())], read).optional()?)
        })
    }
}

/// Writes a bake time down beside the baseline of the write, which another write replaces.
pub(in crate::history) fn write_bake(connection: &Connection, id: RecordId, bake: &JudgedBake) -> Result<(), Failure> {
    let BakeStart { ends, restarts } = &bake.start;
    connection
        .prepare_cached("UPDATE baselines SET bake_ends = ?, bake_restarts = ? WHERE record = ? AND step = ?")?
        .execute(params![rows::time(*ends), rows::json(restarts), id.0, rows::word(bake.of.step())])?;
    Ok(())
}

/// Writes a baseline down as that of the record's newest write of its kind.
pub(in crate::history) fn write_baseline(
    connection: &Connection,
    id: RecordId,
    judged: &JudgedBaseline,
) -> Result<(), Failure> {
    let JudgedBaseline { of, at, baseline } = judged;
    let Baseline { generation, old_failure, uid, only_size, moved: _ } = baseline;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO baselines (record, step, at, generation, uid, old_failure, only_size) VALUES (?, \
             ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![id.0, rows::word(of.step()), rows::time(*at), generation, uid, old_failure, only_size])?;
    Ok(())
}
