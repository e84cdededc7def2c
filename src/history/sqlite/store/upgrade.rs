//! An older belay's file: copied, then brought to this belay's format. With the copy one can go back to the older belay.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tracing::info;

use super::aside::with_suffix;
use super::format::{migrate, newest_format};
use crate::history::disk_space::DiskSpace;
use crate::history::error;
use crate::history::error::HistoryError;
use crate::history::sqlite::failure::Failure;

/// Returns the path of the copy of a history that had this format.
fn copy_of(path: &Path, format: i32) -> PathBuf {
    with_suffix(path, &format!(".format-{format}"))
}

/// Copies a history of an older format, and brings it to the newest one. One copy of each format is kept.
///
/// # Errors
///
/// Fails when SQLite can't read the history or write the copy, and when the disk has no room for it.
pub(in crate::history) fn upgrade(connection: &mut Connection, path: &Path, found: i32) -> Result<(), Failure> {
    let copy = copy_of(path, found);
    let unfinished = with_suffix(&copy, ".new");
    delete(&unfinished)?;
    let copied = copy_to(connection, path, &unfinished);
    if copied.is_err() {
        delete(&unfinished)?;
    }
    copied?;
    fs::rename(&unfinished, &copy).map_err(error::io("rename", &unfinished))?;
    migrate(connection)?;
    let (from, to) = (found, newest_format());
    info!(from, to, copy = %copy.display(), "the history has a newer format now; a copy of the older one is kept");
    Ok(())
}

fn copy_to(connection: &Connection, path: &Path, to: &Path) -> Result<(), Failure> {
    let Some(name) = to.to_str() else {
        let error =
            io::Error::new(io::ErrorKind::InvalidInput, "the name of the state folder is not UTF-8: give it another");
        return Err(error::io("copy", path)(error).into());
    };
    let size = fs::metadata(path).map_err(error::io("look at", path))?.len();
    if DiskSpace::at(path.parent().unwrap_or(path)).is_some_and(|space| !space.has_room_for(size)) {
        let words = format!("{} MiB more are needed; its format changes, and a copy is kept", size.div_ceil(1 << 20));
        return Err(error::full_disk("copy the history".to_owned(), path, words).into());
    }
    // SQLite fills an empty file; one that it makes itself would be readable for others.
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    made.map_err(error::io("make", to))?;
    connection.execute("VACUUM INTO ?1", [name])?;
    Ok(())
}

fn delete(path: &Path) -> Result<(), HistoryError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error::io("delete", path)(error)),
        _ => Ok(()),
    }
}
