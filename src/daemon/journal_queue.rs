//! The queue of entries for the history.

use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, oneshot};

use crate::history::{HistoryEntry, HistoryError};

/// The refused entries; or the reason for which nothing could be written.
pub(super) type JournalWrite = Result<Vec<HistoryError>, Arc<HistoryError>>;

/// Entries to write together, and the receiver of the result.
pub(super) type ToWrite = (Vec<HistoryEntry>, oneshot::Sender<JournalWrite>);

/// The entries to write next, of all writers.
#[derive(Default)]
pub(super) struct JournalQueue {
    pub to_write: Mutex<Vec<ToWrite>>,
    /// Told when a fresh history was begun in the place of a damaged one.
    pub renewed: Notify,
}
