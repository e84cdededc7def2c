//! A history file that somebody deletes, or replaces, while it is in use: SQLite writes on into a file that nobody finds.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::aside::with_suffix;
use crate::history::private;
use crate::state_folder::StateFolder;

/// Lets a connection leave the logs alone when it closes: SQLite deletes them by name, and the name is another file's now.
pub(in crate::history) fn leave_logs(open: &Connection) -> rusqlite::Result<()> {
    open.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

/// Makes a deleted file again from the connection that still has it open, in a folder that may have gone with it. Fails with
/// the reason, for people.
pub(in crate::history) fn make_again(folder: &StateFolder, path: &Path, open: &Connection) -> Result<(), String> {
    let words = |error: &dyn ToString| error.to_string();
    private::make(folder).map_err(|error| words(&error))?;
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
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use jiff::Timestamp;

    use crate::history::{Follower, History, SourceStanding};

    const EPOCH: Timestamp = Timestamp::UNIX_EPOCH;

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
        // Also if nothing is to be written.
        std::fs::remove_file(folder.join("history.db")).unwrap();
        history.keep().unwrap();
        assert_eq!(History::read_only(&folder).unwrap().standing("infra").unwrap(), Some(standing(2)));
    }

    #[test]
    fn nothing_is_written_into_another_file_or_into_none() {
        type Take = fn(&Path);
        let takes: [(&str, Take); 5] = [
            ("another folder is in the place of", |outer| drop(History::open(&outer.join("state"), EPOCH).unwrap())),
            ("a symbolic link to", |outer| symlink(outer.join("before"), outer.join("state")).unwrap()),
            ("a symbolic link to", |outer| symlink(outer.join("empty"), outer.join("state")).unwrap()),
            ("a file is in the place of", |outer| fs::write(outer.join("state"), "a file").unwrap()),
            ("another file is in the place of the history", |outer| {
                fs::rename(outer.join("before"), outer.join("state")).unwrap();
                let file = outer.join("state/history.db");
                fs::rename(&file, outer.join("elsewhere.db")).unwrap();
                symlink(outer.join("elsewhere.db"), &file).unwrap();
            }),
        ];
        for (what, take) in takes {
            let outer = tempfile::tempdir().unwrap();
            let at = |name: &str| outer.path().join(name);
            fs::create_dir(at("empty")).unwrap();
            let (history, _) = History::open(&at("state"), EPOCH).unwrap();
            fs::rename(at("state"), at("before")).unwrap();
            take(outer.path());
            for error in [history.stands("shop", &SourceStanding::default()).unwrap_err(), history.keep().unwrap_err()]
            {
                let said = error.to_string();
                assert!(
                    said.contains(what) && said.contains("history.db") && said.contains("put the former"),
                    "{said}"
                );
            }
            assert_eq!(fs::read_dir(at("empty")).unwrap().count(), 0, "{what}");
            assert_eq!(history.standing("shop").unwrap(), None, "{what}");
        }
    }
}
