//! The state of the history when it was opened.

use std::path::PathBuf;

/// The state of the history file when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenedHistory {
    /// As it was left.
    Existing,
    /// There was none.
    Fresh,
    /// It was an older belay's and has been brought to this format.
    Migrated {
        /// Its format before.
        from: i32,
        /// Its format now.
        to: i32,
    },
    /// It could not be read, and has been renamed.
    SetAside {
        /// The fault.
        why: String,
        /// Its name now.
        to: PathBuf,
    },
}
