//! The baselines of rollouts: kept, so that a daemon that starts again judges by the same measure.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::history::error::{Failure, HistoryError};
use crate::history::store::file::History;
use crate::history::store::rows;
use belay_core::rollout::{BakeStart, Baseline, RecordId, StepKind};

/// A write whose rollout is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgedWrite {
    /// The manifest was applied.
    Applied,
    /// The earlier template, and the hold.
    WentBack,
}

/// The baseline of a write's rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedBaseline {
    /// The write.
    pub of: JudgedWrite,
    /// When that was.
    pub at: Timestamp,
    /// The baseline after it.
    pub baseline: Baseline,
}

impl JudgedWrite {
    /// Returns the step that is recorded with it.
    #[must_use]
    pub fn step(self) -> StepKind {
        match self {
            JudgedWrite::Applied => StepKind::Applied,
            JudgedWrite::WentBack => StepKind::WentBack,
        }
    }
}

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

/// The bake time of a write's rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedBake {
    /// The write.
    pub of: JudgedWrite,
    /// Its beginning.
    pub start: BakeStart,
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

impl JudgedBake {
    /// Writes it down beside the baseline of the write, which another write replaces.
    pub(in crate::history) fn write(&self, connection: &Connection, id: RecordId) -> Result<(), Failure> {
        let BakeStart { ends, restarts } = &self.start;
        connection
            .prepare_cached("UPDATE baselines SET bake_ends = ?, bake_restarts = ? WHERE record = ? AND step = ?")?
            .execute(params![rows::time(*ends), rows::json(restarts), id.0, rows::word(self.of.step())])?;
        Ok(())
    }
}

impl JudgedBaseline {
    /// Writes it down as that of the record's newest write of its kind.
    pub(in crate::history) fn write(&self, connection: &Connection, id: RecordId) -> Result<(), Failure> {
        let JudgedBaseline { of, at, baseline } = self;
        let Baseline { generation, old_failure, uid, only_size, moved: _ } = baseline;
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO baselines (record, step, at, generation, uid, old_failure, only_size) VALUES (?, \
                 ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![id.0, rows::word(of.step()), rows::time(*at), generation, uid, old_failure, only_size])?;
        Ok(())
    }
}
