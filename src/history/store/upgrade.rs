//! An older belay's file: copied, then brought to this belay's format. With the copy one can go back to the older belay.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tracing::info;

use super::aside::with_suffix;
use super::damage::full_disk;
use super::format::{migrate, newest_format};
use crate::history::error::{HistoryError, io};

/// Returns the path of the copy of a history that had this format.
fn copy_of(path: &Path, format: i32) -> PathBuf {
    with_suffix(path, &format!(".format-{format}"))
}

/// Copies a history of an older format, and brings it to the newest one. One copy of each format is kept.
pub(in crate::history) fn upgrade(connection: &mut Connection, path: &Path, found: i32) -> Result<(), HistoryError> {
    let doing = "copy the history before its format changes";
    let refused = |error: rusqlite::Error| {
        full_disk(doing, path, &error).unwrap_or_else(|| HistoryError::Sql { doing, message: error.to_string() })
    };
    let copy = copy_of(path, found);
    let unfinished = with_suffix(&copy, ".new");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io("delete", &unfinished)(error)),
        _ => {}
    }
    // SQLite fills an empty file; one that it makes itself would be readable for others.
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
    made.map_err(io("make", &unfinished))?;
    connection.execute("VACUUM INTO ?1", [unfinished.to_string_lossy()]).map_err(refused)?;
    fs::rename(&unfinished, &copy).map_err(io("rename", &unfinished))?;
    migrate(connection).map_err(refused)?;
    let (from, to) = (found, newest_format());
    info!(from, to, copy = %copy.display(), "the history has a newer format now; a copy of the older one is kept");
    Ok(())
}
