//! What waits to be written into the history.

use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, oneshot};

use crate::history::{HistoryEntry, HistoryError};

/// What was refused; or why nothing could be written.
pub(super) type JournalWrite = Result<Vec<HistoryError>, Arc<HistoryError>>;

/// What somebody wants to write together, and who is told of it.
pub(super) type ToWrite = (Vec<HistoryEntry>, oneshot::Sender<JournalWrite>);

/// What is to be written next, for all who write.
#[derive(Default)]
pub(super) struct JournalQueue {
    pub to_write: Mutex<Vec<ToWrite>>,
    /// Told when a fresh history was begun in the place of a damaged one.
    pub renewed: Notify,
}
