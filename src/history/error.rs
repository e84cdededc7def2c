//! The errors of the history file.

use std::path::{Path, PathBuf};

use super::disk_space::{DiskSpace, described};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, RecordId};

/// The reason for which an operation on the history failed.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// There is no history file to read.
    #[error("there is no history at {}: no daemon has run with this state folder yet", path.display())]
    Missing {
        /// The path where it would be.
        path: PathBuf,
    },
    /// A newer belay wrote the file. It is left alone.
    #[error(
        "the history {} was written by a newer belay (format {found}, this one knows {known}): run that one, or give \
         this one a --state-dir of its own",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i32,
        /// The newest format that is known here.
        known: i32,
    },
    /// An older belay wrote the file, and only a daemon may change it.
    #[error(
        "the history {} was written by an older belay (format {found}, this one reads {known}): start this belay's \
         daemon once",
        path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i32,
        /// The format that is read here.
        known: i32,
    },
    /// The file turned out to be unreadable while it was in use. [`super::History::mend`] helps.
    #[error("the history {} is damaged: {message}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The message of SQLite.
        message: String,
    },
    /// The file is there and can't be opened, and nothing says that it is damaged. It is left alone.
    #[error("failed to open the history {}: {message}; {advice}; nothing of it was changed", path.display())]
    Closed {
        /// The file.
        path: PathBuf,
        /// The message of the system or of SQLite.
        message: String,
        /// The advice.
        advice: &'static str,
    },
    /// The file was deleted while it was in use, and can't be made again.
    #[error("the history {} was deleted while belay runs, and can't be made again: {message}", path.display())]
    Gone {
        /// The file.
        path: PathBuf,
        /// The message of the system or of SQLite.
        message: String,
    },
    /// Another file is in the place of the one that is in use. Nothing is written into it.
    #[error(
        "another file is in the place of the history {}: nothing is written into it; put the former back, or start belay \
         again to take this one up",
        path.display()
    )]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// The state folder can't be made, or not be listed.
    #[error(
        "failed to use the state folder {}: {source}; give it to user {user}, as whom belay runs, or say --state-dir DIR",
        path.display()
    )]
    UnusableFolder {
        /// The folder.
        path: PathBuf,
        /// The number of belay's user.
        user: u32,
        /// The words of the system.
        source: std::io::Error,
    },
    /// belay runs as root, and its state belongs to somebody else.
    #[error(
        "{} belongs to user {owner}, who could change what belay knows of what it made, and belay runs as root: give it to root \
         (chown -R root), or run belay as that user, or say --state-dir DIR",
        path.display()
    )]
    ForeignOwner {
        /// The folder, or the file in it.
        path: PathBuf,
        /// The number of its user.
        owner: u32,
    },
    /// Another process has been writing for too long.
    #[error("failed to {doing}: another process is writing the history")]
    Busy {
        /// The action of belay.
        doing: &'static str,
    },
    /// There is no such record.
    #[error("there is no record {}", id.0)]
    NoRecord {
        /// Its number.
        id: RecordId,
    },
    /// A record has ended, and stays as it ended.
    #[error("record {} has already ended: {outcome}", id.0)]
    Ended {
        /// Its number.
        id: RecordId,
        /// The outcome.
        outcome: Outcome,
    },
    /// A record ends only with [`super::History::finish`], and only with an outcome that is an end.
    #[error("record {} can't become {outcome} in this way", id.0)]
    WrongOutcome {
        /// Its number.
        id: RecordId,
        /// The outcome that was asked for.
        outcome: Outcome,
    },
    /// A history that was opened for reading.
    #[error("this history was opened for reading only")]
    ReadOnly,
    /// The content of a Secret is never written down.
    #[error("{object} is a Secret: nothing of it is kept")]
    Secret {
        /// The object.
        object: ObjectKey,
    },
    /// Something is larger than the history keeps.
    #[error("{what} has {size} bytes; the history keeps {limit} at most")]
    TooLarge {
        /// The thing.
        what: String,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The file system refused something.
    #[error("failed to {doing} {}: {source}", path.display())]
    Io {
        /// The action of belay.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The reason of the failure.
        source: std::io::Error,
    },
    /// There is no room for the state.
    #[error(
        "failed to {doing}: the disk of the state folder {} is full ({room}): make room there, or name a folder on another disk \
         with --state-dir DIR ({message})",
        folder.display()
    )]
    FullDisk {
        /// The action of belay.
        doing: String,
        /// The state folder.
        folder: PathBuf,
        /// The room that is left.
        room: String,
        /// The message of the system or of SQLite.
        message: String,
    },
    /// SQLite refused something.
    #[error("failed to {doing}: {message}")]
    Sql {
        /// The action of belay.
        doing: &'static str,
        /// The message of SQLite.
        message: String,
    },
}

impl HistoryError {
    /// Returns true when [`super::History::mend`] helps.
    #[must_use]
    pub fn wants_a_new_file(&self) -> bool {
        matches!(self, HistoryError::Damaged { .. })
    }
}

/// Returns the error of a write of a file on a disk that is full.
pub(super) fn full_disk(doing: String, file: &Path, message: String) -> HistoryError {
    let folder = file.parent().unwrap_or(file);
    HistoryError::FullDisk { doing, folder: folder.to_owned(), room: described(DiskSpace::at(folder)), message }
}

/// Turns an error of the file system into one of ours.
pub(super) fn io<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> HistoryError + 'a {
    move |source| match source.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            full_disk(format!("{doing} {}", path.display()), path, source.to_string())
        }
        _ => HistoryError::Io { doing, path: path.to_owned(), source },
    }
}
