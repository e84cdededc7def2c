//! The entries of many rollouts of one moment, written together.

use rusqlite::Connection;

use super::{add_step, finish, update};
use crate::history::entry::HistoryEntry;
use crate::history::error::HistoryError;
use crate::history::sqlite::failure::Failure;
use crate::history::sqlite::query::drift::{write_drifted, write_put_right};
use crate::history::sqlite::query::measurements::write_measurement;
use crate::history::sqlite::query::templates::write_kept;
use crate::history::sqlite::store::file::History;

fn write(connection: &Connection, entry: &HistoryEntry) -> Result<(), Failure> {
    match entry {
        HistoryEntry::Step(id, step) => add_step(connection, *id, step),
        HistoryEntry::Measured(id, measurement) => write_measurement(connection, *id, measurement),
        HistoryEntry::Update(id, known) => update(connection, *id, known),
        HistoryEntry::Kept(kept) => write_kept(connection, kept),
        HistoryEntry::End(id, end, reason, at) => finish(connection, *id, *end, reason.as_ref(), *at),
        HistoryEntry::Drifted(source, drifted) => write_drifted(connection, source, drifted),
        HistoryEntry::PutRight(source, object) => write_put_right(connection, source, object),
    }
}

impl History {
    /// Writes all these down in one transaction, which costs little more than one of them alone would. Returns the
    /// result of each: a refused one leaves the others as they are.
    ///
    /// # Errors
    ///
    /// When the file can't be written; then nothing of it is.
    pub fn enter<'a>(
        &self,
        entries: impl IntoIterator<Item = &'a HistoryEntry>,
    ) -> Result<Vec<Result<(), HistoryError>>, HistoryError> {
        self.write("write down what goes on", |connection| {
            let write = |entry: &HistoryEntry| match self::write(connection, entry) {
                Ok(()) => Ok(Ok(())),
                Err(Failure::Ours(refused)) => Ok(Err(refused)),
                Err(failure) => Err(failure),
            };
            entries.into_iter().map(write).collect()
        })
    }
}
