//! Decides if a file that could not be opened is damaged, which is only said if reading it proves it, or why else it
//! failed.

use std::path::Path;
use std::{fs, io};

use rusqlite::ErrorCode;

use super::aside::with_suffix;
use crate::history::disk_space::DiskSpace;
use crate::history::error;
use crate::history::error::HistoryError;

/// Up to which size, in bytes, a file is checked from end to end whenever it is opened for writing.
const CHECKED_AT_ONCE: u64 = 8 << 20;

/// Returns true when SQLite says that the read data are damaged.
pub(in crate::history) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

/// The purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::history) enum DamageCheck {
    Reading,
    Writing,
}

/// Returns the reason why a file can't be opened: the system's reason, which SQLite does not give, and advice.
pub(in crate::history) fn cannot_open(path: &Path, wanted: DamageCheck, error: &rusqlite::Error) -> HistoryError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            return HistoryError::Busy { doing: "open the history" };
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) if wanted == DamageCheck::Reading => {
            return HistoryError::Damaged { path: path.to_owned(), message: error.to_string() };
        }
        _ => {}
    }
    if let Some(full) = full_disk("open the history", path, error) {
        return full;
    }
    let refused = fs::OpenOptions::new().read(true).write(wanted == DamageCheck::Writing).open(path).err();
    let advice = match (refused.as_ref().map(io::Error::kind), error.sqlite_error_code()) {
        (Some(io::ErrorKind::PermissionDenied), _) if wanted == DamageCheck::Reading => {
            "it belongs to the daemon's user: ask as that user or as root"
        }
        (Some(io::ErrorKind::PermissionDenied), _) => "let belay's user read and write it, and the folder it is in",
        (Some(io::ErrorKind::ReadOnlyFilesystem), _) | (None, Some(ErrorCode::ReadOnly)) => {
            "the disk or the file is read-only: mount it for writing, or say --state-dir DIR"
        }
        _ if refused.as_ref().is_some_and(is_short_of_descriptors) => {
            "there are too few descriptors: raise LimitNOFILE= of the unit, or the user's limit (ulimit -n)"
        }
        _ => "look at the disk, and whether belay's user may write the folder it is in",
    };
    let message = refused.map_or_else(|| error.to_string(), |refused| refused.to_string());
    HistoryError::Closed { path: path.to_owned(), message, advice }
}

/// Returns the error for a full disk, if that is behind a failure of SQLite, whose words often are no more than "disk I/O
/// error".
pub(in crate::history) fn full_disk(doing: &str, path: &Path, refused: &rusqlite::Error) -> Option<HistoryError> {
    let is_full = match refused.sqlite_error_code()? {
        ErrorCode::DiskFull => true,
        ErrorCode::SystemIoFailure => {
            DiskSpace::at(path.parent().unwrap_or(path)).is_some_and(DiskSpace::is_too_little)
        }
        _ => false,
    };
    is_full.then(|| error::full_disk(doing.to_owned(), path, refused.to_string()))
}

/// Returns true when the whole file is read before it is used: it is small, or was not closed as it should be. A large one
/// that was is looked at later, beside the work that waits for it ([`crate::history::History::mend`]).
pub(in crate::history) fn wants_a_check(path: &Path) -> bool {
    let size = fs::metadata(path).map(|file| file.len()).unwrap_or_default();
    // A reader leaves an empty one behind.
    let unfinished = fs::metadata(with_suffix(path, "-wal")).is_ok_and(|log| log.len() > 0);
    size <= CHECKED_AT_ONCE || unfinished
}

/// Returns true when the process or the system has too many files open; neither has a kind of its own.
fn is_short_of_descriptors(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}
