//! The queue of entries for the history.

use std::sync::{Arc, Mutex};

use jiff::SignedDuration;
use tokio::sync::{Notify, oneshot};

use crate::history::{HistoryEntry, HistoryError};

/// The refused entries; or the reason for which nothing could be written.
pub type JournalWrite = Result<Vec<HistoryError>, Arc<HistoryError>>;

/// Entries to write together.
pub struct ToWrite {
    pub entries: Vec<HistoryEntry>,
    /// The receiver of the result. Without one they are notes, which the loop has queued and does not wait for.
    pub told: Option<oneshot::Sender<JournalWrite>>,
}

/// The entries to write next, of all writers.
#[derive(Default)]
pub struct JournalQueue {
    pub to_write: Mutex<Vec<ToWrite>>,
    /// Held by the one who writes what is queued.
    pub turn: tokio::sync::Mutex<()>,
    /// Ends of records that could not be written: no other record begins before they are.
    pub owed: Mutex<Vec<HistoryEntry>>,
    /// The distance between the time of day and the clock that nobody sets, as of the last write.
    pub clock_offset: Mutex<Option<SignedDuration>>,
    /// Told when a fresh history was begun in the place of a damaged one.
    pub renewed: Notify,
}
