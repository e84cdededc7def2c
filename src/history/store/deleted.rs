//! A history file that somebody deletes, or replaces, while it is in use: SQLite writes on into a file that nobody finds.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::aside::with_suffix;
use super::private;

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::history) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file at a path.
    pub(in crate::history) fn of(path: &Path) -> io::Result<FileId> {
        let file = fs::metadata(path)?;
        Ok(FileId { device: file.dev(), inode: file.ino() })
    }
}

/// Lets a connection leave the logs alone when it closes: SQLite deletes them by name, and the name is another file's now.
pub(in crate::history) fn leave_logs(open: &Connection) -> rusqlite::Result<()> {
    open.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

/// Makes a deleted file again from the connection that still has it open, in a folder that may have gone with it. Fails with
/// the reason, for people.
pub(in crate::history) fn make_again(path: &Path, open: &Connection) -> Result<(), String> {
    let words = |error: &dyn ToString| error.to_string();
    if let Some(folder) = path.parent() {
        private::make(folder).map_err(|error| words(&error))?;
    }
    let copy = with_suffix(path, "-again");
    match fs::remove_file(&copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(words(&error)),
        _ => {}
    }
    open.execute("VACUUM INTO ?", [copy.to_string_lossy()]).map_err(|error| words(&error))?;
    // The logs of a file that is gone belong to nobody.
    for suffix in ["-wal", "-shm"] {
        match fs::remove_file(with_suffix(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(words(&error)),
            _ => {}
        }
    }
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).map_err(|error| words(&error))?;
    fs::rename(&copy, path).map_err(|error| words(&error))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use crate::history::{Follower, History, HistoryError, SourceStanding};

    #[test]
    fn what_is_deleted_is_made_again_with_all_that_was_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("state");
        let (history, _) = History::open(&folder, Timestamp::UNIX_EPOCH).unwrap();
        let standing = |interval| SourceStanding {
            follower: Follower { interval, ..Follower::default() },
            ..SourceStanding::default()
        };
        history.stands("shop", &standing(1)).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        history.stands("infra", &standing(2)).unwrap();
        let found = History::read_only(&folder).unwrap();
        assert_eq!(found.standing("shop").unwrap(), Some(standing(1)));
        assert_eq!(found.standing("infra").unwrap(), Some(standing(2)));
        assert_eq!(history.standing("infra").unwrap(), Some(standing(2)), "the daemon reads the same file");
        // Also where nothing is to be written.
        std::fs::remove_file(folder.join("history.db")).unwrap();
        history.keep().unwrap();
        assert_eq!(History::read_only(&folder).unwrap().standing("infra").unwrap(), Some(standing(2)));
    }

    #[test]
    fn nothing_is_written_into_another_file_or_into_none() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("state");
        let (history, _) = History::open(&folder, Timestamp::UNIX_EPOCH).unwrap();
        std::fs::rename(&folder, parent.path().join("before")).unwrap();
        let (other, _) = History::open(&folder, Timestamp::UNIX_EPOCH).unwrap();
        let refused = history.stands("shop", &SourceStanding::default());
        assert!(matches!(refused, Err(HistoryError::Replaced { .. })), "{refused:?}");
        assert_eq!(other.standing("shop").unwrap(), None);
        // Where no folder can be made, that is said.
        drop(other);
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::write(&folder, "a file").unwrap();
        let refused = history.keep().unwrap_err().to_string();
        assert!(refused.contains("history.db"), "{refused}");
    }
}
