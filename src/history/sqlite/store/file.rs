//! The file itself: found or made, of which format, damaged or not.

use std::fmt;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use tracing::warn;

use super::aside::set_aside;
use super::connection::{check, check_logs, check_names, damage, open_for_reading, prepare};
use super::damage::{DamageCheck, cannot_open, full_disk, is_damage, wants_a_check};
use super::deleted::{leave_logs, make_again};
use super::format::{APPLICATION, format_of, migrate, newest_format, set_up};
use super::upgrade::upgrade;
use crate::blocking::blocking;
use crate::history::error::HistoryError;
use crate::history::error::io;
use crate::history::opened::OpenedHistory;
use crate::history::private;
use crate::history::sqlite::failure::Failure;
use crate::regular_file::check_own;
use crate::state_folder::{FileId, StateFolder};

/// belay's memory: the outcome of each manifest of each commit. One file, `history.db`, written by one daemon and read
/// by any number of other processes, `sqlite3 history.db` among them.
///
/// Cheap to clone and to share; calls block for microseconds. A written record survives a `kill -9`.
#[derive(Clone)]
pub struct History(Arc<Inner>);

struct Inner {
    folder: StateFolder,
    path: PathBuf,
    /// A connection of its own, so that a long read does not delay the daemon's writes. Dropped before the writer: only
    /// a writer that closes last puts everything into the one file.
    reader: Mutex<Connection>,
    /// `None` if the file was opened for reading.
    writer: Option<Mutex<Writer>>,
    /// The number of times that a fresh file was begun in its place.
    begun: AtomicU32,
}

/// The writer, and the file that it has open: somebody may put another one in its place, or delete it.
struct Writer {
    connection: Connection,
    file: Option<FileId>,
}

impl History {
    /// Opens the history file in a folder for writing, or makes one. One that is proved to be damaged, or to be no history, is
    /// renamed with the time, and a fresh one is begun.
    ///
    /// # Errors
    ///
    /// When a newer belay wrote it, when the file can't be opened (rights, a read-only disk, too few descriptors), when the
    /// folder can't be written, and when another process holds the file for 5 s.
    pub fn open(folder: impl Into<StateFolder>, now: Timestamp) -> Result<(History, OpenedHistory), HistoryError> {
        let folder = folder.into();
        let path = folder.join("history.db");
        check_names(&path)?;
        private::make(&folder)?;
        let (writer, opened) = match open_for_writing(&path) {
            Ok(found) => found,
            Err(OpenFault::Final(error)) => return Err(error),
            Err(OpenFault::Unreadable(why)) => {
                let to = set_aside(&path, now)?;
                match open_for_writing(&path) {
                    Ok((writer, _)) => (writer, OpenedHistory::SetAside { why, to }),
                    Err(OpenFault::Final(error)) => return Err(error),
                    Err(OpenFault::Unreadable(message)) => return Err(HistoryError::Damaged { path, message }),
                }
            }
        };
        let reader = open_for_reading(&path)?;
        Ok((
            History(Arc::new(Inner {
                writer: Some(Mutex::new(Writer::on(writer, &path))),
                folder,
                path,
                reader: Mutex::new(reader),
                begun: AtomicU32::new(0),
            })),
            opened,
        ))
    }

    /// Makes the state folder if there is none, and closes it to others.
    ///
    /// # Errors
    ///
    /// When it can't be written, or belongs to another user.
    pub fn make_folder(folder: &StateFolder) -> Result<(), HistoryError> {
        private::make(folder)
    }

    /// Opens the history file in a folder for reading, beside a daemon or without one. Nothing is written.
    ///
    /// # Errors
    ///
    /// When there is none, when it can't be read, and when it has another format than this belay's.
    pub fn read_only(folder: &Path) -> Result<History, HistoryError> {
        let path = folder.join("history.db");
        // One in a folder that may not be looked into is not missing.
        if path.try_exists().is_ok_and(|there| !there) {
            return Err(HistoryError::Missing { path });
        }
        let reader = open_for_reading(&path)?;
        let known = newest_format();
        match format_of(&reader).map_err(|error| sql("read the history's format", &path)(error))? {
            found if found > known => Err(HistoryError::Newer { path, found, known }),
            found if found < known => Err(HistoryError::Older { path, found, known }),
            _ => Ok(History(Arc::new(Inner {
                folder: folder.into(),
                path,
                writer: None,
                reader: Mutex::new(reader),
                begun: AtomicU32::new(0),
            }))),
        }
    }

    /// Looks whether the file is sound, for when it turned out to be damaged while in use. One that is not is renamed, and a
    /// fresh one begun; other clones of this history use the fresh one too. Returns the old one's name now; `None` if it
    /// is sound, perhaps because somebody else has begun a fresh one meanwhile.
    ///
    /// # Errors
    ///
    /// As for [`History::open`].
    pub fn mend(&self, now: Timestamp) -> Result<Option<PathBuf>, HistoryError> {
        // Nobody waits for this: it reads the whole file.
        if self.is_sound() {
            return Ok(None);
        }
        let mut writer = self.writer()?;
        self.0.folder.make().map_err(io("write", &self.0.path))?;
        let mut reader = self.reader();
        if self.is_sound() {
            return Ok(None);
        }
        let to = set_aside(&self.0.path, now)?;
        let opened = open_for_writing(&self.0.path);
        let (fresh, _) = opened.map_err(|trouble| match trouble {
            OpenFault::Final(error) => error,
            OpenFault::Unreadable(message) => HistoryError::Damaged { path: self.0.path.clone(), message },
        })?;
        *reader = open_for_reading(&self.0.path)?;
        *writer = Writer::on(fresh, &self.0.path);
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        Ok(Some(to))
    }

    /// Returns true when the file can be read from end to end, as it is on the disk: a file in use may still stand in
    /// memory.
    fn is_sound(&self) -> bool {
        damage(&self.0.path).is_none()
    }

    /// Ensures that later writes are kept: creates the file again if somebody has deleted it.
    ///
    /// # Errors
    ///
    /// When it can't be made again, and when another file is in its place.
    pub fn keep(&self) -> Result<(), HistoryError> {
        let done = blocking(|| self.keep_in_place(&mut *self.writer()?));
        done.map_err(|failure| self.explain("look whether the history is in its place", failure))
    }

    /// Looks whether the file that is open is the one that others find. One that was deleted is made again, with all that is
    /// in it.
    fn keep_in_place(&self, writer: &mut Writer) -> Result<(), Failure> {
        let path = &self.0.path;
        let leave = |writer: &Writer| leave_logs(&writer.connection).and_then(|()| leave_logs(&self.reader()));
        if let Err(error) = self.0.folder.make() {
            leave(writer)?;
            return Err(io("write", path)(error).into());
        }
        match FileId::of(path) {
            Ok(found) if writer.file.is_none_or(|file| file == found) => Ok(()),
            Ok(_) => {
                leave(writer)?;
                Err(HistoryError::Replaced { path: path.clone() }.into())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let gone = |message: String| HistoryError::Gone { path: path.clone(), message };
                leave(writer)?;
                make_again(&self.0.folder, path, &writer.connection).map_err(gone)?;
                let opened = open_for_writing(path);
                let (connection, _) = opened.map_err(|fault| gone(fault.to_string()))?;
                *self.reader() = open_for_reading(path)?;
                *writer = Writer::on(connection, path);
                warn!(file = %path.display(), "the history was deleted while belay runs, and was made again with all that was in it");
                Ok(())
            }
            Err(error) => Err(io("look at", path)(error).into()),
        }
    }

    /// Returns how often a fresh file was begun while this history was in use: earlier knowledge of it is lost then.
    #[must_use]
    pub fn begun(&self) -> u32 {
        self.0.begun.load(Ordering::Relaxed)
    }

    /// The folder that it is in.
    #[must_use]
    pub fn folder(&self) -> &StateFolder {
        &self.0.folder
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Runs `work` in one transaction: all of it is there afterwards, or nothing.
    pub(in crate::history) fn write<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, HistoryError> {
        let done = blocking(|| {
            let mut writer = self.writer()?;
            self.keep_in_place(&mut writer)?;
            // Immediate: a transaction that begins by reading could not be let through later.
            let transaction = writer.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        });
        done.map_err(|failure| self.explain(doing, failure))
    }

    /// Runs `work` on one unchanging state of the file.
    pub(in crate::history) fn read<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, HistoryError> {
        let done = blocking(|| {
            let mut connection = self.reader();
            let transaction = connection.transaction()?;
            let value = work(&transaction)?;
            transaction.finish()?;
            Ok(value)
        });
        done.map_err(|failure| self.explain(doing, failure))
    }

    /// Runs `work`, which is something that SQLite does not do inside a transaction.
    pub(in crate::history) fn outside_transactions<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, HistoryError> {
        let done = blocking(|| {
            let mut writer = self.writer()?;
            self.keep_in_place(&mut writer)?;
            work(&writer.connection)
        });
        done.map_err(|failure| self.explain(doing, failure))
    }

    /// Gives back the memory in which SQLite keeps pages of the file. It reads them again when it needs them.
    ///
    /// # Errors
    ///
    /// When the file was opened for reading, and when SQLite fails.
    pub fn release_memory(&self) -> Result<(), HistoryError> {
        const RELEASE: &str = "PRAGMA shrink_memory";
        let done = blocking(|| {
            self.writer()?.connection.execute_batch(RELEASE)?;
            Ok(self.reader().execute_batch(RELEASE)?)
        });
        done.map_err(|failure| self.explain("release memory of the history", failure))
    }

    /// Both connections, for a test that counts their work.
    #[cfg(test)]
    pub(in crate::history) fn each_connection(&self, mut look: impl FnMut(&mut Connection)) {
        look(&mut self.writer().unwrap().connection);
        look(&mut self.reader());
    }

    fn explain(&self, doing: &'static str, failure: Failure) -> HistoryError {
        match failure {
            Failure::Sql(error) => sql(doing, &self.0.path)(error),
            Failure::Ours(error) => error,
        }
    }

    fn writer(&self) -> Result<MutexGuard<'_, Writer>, HistoryError> {
        let writer = self.0.writer.as_ref().ok_or(HistoryError::ReadOnly)?;
        // A panic rolls its transaction back when that is dropped; the connection is as good as before.
        Ok(writer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn reader(&self) -> MutexGuard<'_, Connection> {
        self.0.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    fn on(connection: Connection, path: &Path) -> Writer {
        Writer { connection, file: FileId::of(path).ok() }
    }
}

enum OpenFault {
    /// The file is no use, but can be put aside.
    Unreadable(String),
    Final(HistoryError),
}

impl fmt::Display for OpenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenFault::Unreadable(why) => f.write_str(why),
            OpenFault::Final(error) => error.fmt(f),
        }
    }
}

fn open_for_writing(path: &Path) -> Result<(Connection, OpenedHistory), OpenFault> {
    // Before it is opened, which makes a log of its own beside it.
    let check_it = wants_a_check(path);
    let fresh = fs::symlink_metadata(path).is_err();
    if fresh {
        // Evidence may hold an application's log: readable for the daemon's user alone.
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        made.map_err(|error| OpenFault::Final(io("make", path)(error)))?;
    }
    check_names(path).map_err(OpenFault::Final)?;
    if path.is_dir() {
        return Err(OpenFault::Unreadable("it is a folder".to_owned()));
    }
    if let Err(irregular) = check_own(path) {
        return Err(OpenFault::Unreadable(irregular.to_string()));
    }
    check_logs(path, "remove it: SQLite makes another").map_err(OpenFault::Final)?;
    let judge = |error: rusqlite::Error| match is_damage(&error).then(|| damage(path)).flatten() {
        Some(why) => OpenFault::Unreadable(why),
        None => OpenFault::Final(cannot_open(path, DamageCheck::Writing, &error)),
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(judge)?;
    prepare(&connection).map_err(judge)?;
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(judge)?;
    let found = format_of(&connection).map_err(judge)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(judge)?;
    if application != APPLICATION && tables > 0 {
        return Err(OpenFault::Unreadable("it is a database of another program".to_owned()));
    }
    let known = newest_format();
    if found > known {
        return Err(OpenFault::Final(HistoryError::Newer { path: path.to_owned(), found, known }));
    }
    if check_it {
        let sound = check(&connection).map_err(judge)?;
        if sound != "ok" {
            return Err(OpenFault::Unreadable(sound));
        }
    }
    set_up(&connection).map_err(judge)?;
    let opened = match found {
        0 => {
            migrate(&mut connection).map_err(judge)?;
            OpenedHistory::Fresh
        }
        _ if found == known => OpenedHistory::Existing,
        _ => {
            upgrade(&mut connection, path, found).map_err(|failure| match failure {
                Failure::Sql(error) => judge(error),
                Failure::Ours(error) => OpenFault::Final(error),
            })?;
            OpenedHistory::Migrated { from: found, to: known }
        }
    };
    Ok((connection, opened))
}

fn sql<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(rusqlite::Error) -> HistoryError + 'a {
    move |error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            HistoryError::Damaged { path: path.to_owned(), message: error.to_string() }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => HistoryError::Busy { doing },
        _ => full_disk(doing, path, &error).unwrap_or_else(|| HistoryError::Sql { doing, message: error.to_string() }),
    }
}
