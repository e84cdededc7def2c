//! The entries of many rollouts of one moment, written together.

use jiff::Timestamp;
use rusqlite::Connection;

use super::{Update, add_step, finish, update};
use crate::history::error::{Failure, HistoryError};
use crate::history::query::templates::KeptTemplate;
use crate::history::store::file::History;
use belay_core::rollout::{Outcome, Reason, RecordId, Step};

/// One thing to be written down.
#[derive(Clone, Debug)]
pub enum HistoryEntry {
    /// A step of a record.
    Step(RecordId, Step),
    /// A new fact about a record.
    Update(RecordId, Box<Update>),
    /// The template of a workload that was seen complete.
    Kept(KeptTemplate),
    /// The end of a record, and when it was.
    End(RecordId, Outcome, Option<Reason>, Timestamp),
}

impl HistoryEntry {
    fn write(&self, connection: &Connection) -> Result<(), Failure> {
        match self {
            HistoryEntry::Step(id, step) => add_step(connection, *id, step),
            HistoryEntry::Update(id, known) => update(connection, *id, known),
            HistoryEntry::Kept(kept) => kept.write(connection),
            HistoryEntry::End(id, end, reason, at) => finish(connection, *id, *end, reason.as_ref(), *at),
        }
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
            let write = |entry: &HistoryEntry| match entry.write(connection) {
                Ok(()) => Ok(Ok(())),
                Err(Failure::Ours(refused)) => Ok(Err(refused)),
                Err(failure) => Err(failure),
            };
            entries.into_iter().map(write).collect()
        })
    }
}
