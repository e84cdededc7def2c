//! The place where the history is kept.

use std::path::Path;

use jiff::Timestamp;

use super::error::HistoryError;
use super::opened::OpenedHistory;
use super::sqlite::History;
use crate::state_folder::StateFolder;

/// The place of the history, as the configuration, an option or systemd names it: made once from the state folder, and
/// passed on to those who open it.
#[derive(Clone, Debug)]
pub struct HistoryLocation {
    folder: StateFolder,
}

impl HistoryLocation {
    /// Returns the place of the history of a state folder. Nothing is opened yet.
    #[must_use]
    pub fn in_folder(folder: impl Into<StateFolder>) -> HistoryLocation {
        HistoryLocation { folder: folder.into() }
    }

    /// Opens the history for writing, or makes one.
    ///
    /// # Errors
    ///
    /// As for [`History::open`].
    pub fn open(&self, now: Timestamp) -> Result<(History, OpenedHistory), HistoryError> {
        History::open(self.folder.clone(), now)
    }

    /// Opens the history for reading, beside a daemon or without one.
    ///
    /// # Errors
    ///
    /// As for [`History::read_only`].
    pub fn read(&self) -> Result<History, HistoryError> {
        History::read_only(self.folder.path())
    }

    /// Returns the state folder that it is in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
