//! Connections to the history's file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::aside::with_suffix;
use super::damage::{DamageCheck, cannot_open, is_damage};
use super::format::format_of;
use crate::history::error::HistoryError;
use crate::regular_file::{check_alone, check_regular};

/// The time for which a writer waits for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of prepared statements that are kept for each connection.
const STATEMENTS: usize = 64;

/// Returns SQLite's own result for the file: `ok`, or the first fault.
pub(in crate::history) fn check(connection: &Connection) -> rusqlite::Result<String> {
    connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
}

/// Sends the first statements of every connection.
pub(in crate::history) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Without it SQLite prepares a statement again whenever another value is bound that one of the partial indexes
    // might be for: a fifth of the time of a rollout.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Checks that what SQLite keeps beside the file is regular files: it would wait for a pipe.
pub(in crate::history) fn check_logs(path: &Path, advice: &'static str) -> Result<(), HistoryError> {
    ["-wal", "-shm", "-journal"].iter().try_for_each(|suffix| check_file(&with_suffix(path, suffix), advice))
}

/// Checks that neither the file nor what SQLite keeps beside it has another name: SQLite would write into that too.
pub(in crate::history) fn check_names(path: &Path) -> Result<(), HistoryError> {
    const ADVICE: &str = "put a file of its own in its place, or start belay with another --state-dir";
    let beside = ["-wal", "-shm", "-journal"].map(|suffix| with_suffix(path, suffix));
    std::iter::once(path).chain(beside.iter().map(PathBuf::as_path)).try_for_each(|path| check_name(path, ADVICE))
}

fn check_name(path: &Path, advice: &'static str) -> Result<(), HistoryError> {
    match fs::symlink_metadata(path).map(|found| check_alone(&found)) {
        Ok(Err(wrong)) => Err(HistoryError::Closed { path: path.to_owned(), message: wrong.to_string(), advice }),
        Ok(Ok(())) | Err(_) => Ok(()),
    }
}

fn check_file(path: &Path, advice: &'static str) -> Result<(), HistoryError> {
    let irregular = fs::metadata(path).and_then(|found| check_regular(&found)).err();
    match irregular.filter(|irregular| irregular.kind() == ErrorKind::InvalidInput) {
        Some(why) => Err(HistoryError::Closed { path: path.to_owned(), message: why.to_string(), advice }),
        None => Ok(()),
    }
}

pub(in crate::history) fn open_for_reading(path: &Path) -> Result<Connection, HistoryError> {
    check_file(path, "start the daemon: it sets that aside")?;
    check_logs(path, "remove it: SQLite makes another")?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let look = |connection: Connection| {
        prepare(&connection)?;
        format_of(&connection)?;
        Ok(connection)
    };
    match Connection::open_with_flags(path, flags).and_then(look) {
        Ok(connection) => Ok(connection),
        // Without a daemon, in a folder that one may only read, SQLite can't make the small file by which readers and
        // writers know of each other. There is no writer then, so the file can be taken as it is.
        Err(_) if !with_suffix(path, "-wal").exists() => {
            let name = path.display().to_string().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            let opened = Connection::open_with_flags(format!("file:{name}?immutable=1"), flags).and_then(look);
            opened.map_err(|error| cannot_open(path, DamageCheck::Reading, &error))
        }
        Err(error) => Err(cannot_open(path, DamageCheck::Reading, &error)),
    }
}

/// Returns the fault of the file, if reading it from end to end proves one. A file that can't be opened or read
/// (rights, a failing disk, too few descriptors) is not proved to be damaged.
pub(in crate::history) fn damage(path: &Path) -> Option<String> {
    let connection = match open_for_reading(path) {
        Ok(connection) => connection,
        Err(HistoryError::Damaged { message, .. }) => return Some(message),
        Err(_) => return None,
    };
    match check(&connection) {
        Ok(word) => (word != "ok").then_some(word),
        Err(error) => is_damage(&error).then(|| error.to_string()),
    }
}
