//! The queue of entries for the history.

use std::sync::{Arc, Mutex};

use jiff::SignedDuration;
use tokio::sync::{Notify, oneshot};

use crate::history::{HistoryEntry, HistoryError};

/// The refused entries; or the reason for which nothing could be written.
pub type JournalWrite = Result<Vec<HistoryError>, Arc<HistoryError>>;

/// Entries to write together, and the receiver of the result.
pub type ToWrite = (Vec<HistoryEntry>, oneshot::Sender<JournalWrite>);

/// The entries to write next, of all writers.
#[derive(Default)]
pub struct JournalQueue {
    pub to_write: Mutex<Vec<ToWrite>>,
    /// The notes of the loop, which nobody waits for.
    pub notes: Mutex<Vec<HistoryEntry>>,
    /// Held by the one who writes the notes.
    pub turn_of_notes: tokio::sync::Mutex<()>,
    /// Ends of records that could not be written: no other record begins before they are.
    pub owed: Mutex<Vec<HistoryEntry>>,
    /// The distance between the time of day and the clock that nobody sets, as of the last write.
    pub clock_offset: Mutex<Option<SignedDuration>>,
    /// Told when a fresh history was begun in the place of a damaged one.
    pub renewed: Notify,
}
