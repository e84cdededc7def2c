//! The state folder is belay's alone: made with mode 0700 and its files with 0600, and one that an older belay has left
//! open is closed.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tracing::warn;

use crate::history::error::{HistoryError, io};
use crate::regular_file::check_alone;
use crate::state_folder::StateFolder;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;
/// The mode of a folder that others may make files in, `/tmp`: not belay's to close.
const STICKY: u32 = 0o1000;
/// The beginnings of the names of belay's own files in the folder.
const OWN: [&str; 4] = ["history.db", "identity", "embedded.kubeconfig", "sources"];

/// Makes the folder where there is none, and closes to others what is there.
pub(in crate::history) fn make(folder: &StateFolder) -> Result<(), HistoryError> {
    let (made, folder) = (folder.make(), folder.path());
    made.map_err(unusable(folder))?;
    check_owner(folder)?;
    close(folder);
    for entry in fs::read_dir(folder).map_err(unusable(folder))?.flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| OWN.iter().any(|own| name.starts_with(own))) {
            check_owner(&entry.path())?;
            close(&entry.path());
        }
    }
    Ok(())
}

/// Says that a folder can't be belay's, and what to do.
fn unusable(folder: &Path) -> impl FnOnce(std::io::Error) -> HistoryError + '_ {
    let user = rustix::process::geteuid().as_raw();
    move |source| match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => io("make", folder)(source),
        _ => HistoryError::UnusableFolder { path: folder.to_owned(), user, source },
    }
}

/// What is done about a path of the state folder, by whom it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ownership {
    /// It is belay's own, or root's, who could read and change it anyway.
    Trusted,
    /// It is reported: a volume of a cluster may belong to another user.
    Told,
    /// belay runs as root: another user would decide what root believes and deletes.
    Refused,
}

fn ownership(owner: u32, user: u32) -> Ownership {
    match (owner, user) {
        (0, _) => Ownership::Trusted,
        (owner, user) if owner == user => Ownership::Trusted,
        (_, 0) => Ownership::Refused,
        _ => Ownership::Told,
    }
}

/// Refuses, or reports, a file of another user: its owner can change belay's knowledge of its own objects.
///
/// # Errors
/// Fails when belay runs as root and the file belongs to somebody else, and when the file can't be looked at. One that is not
/// there belongs to nobody: SQLite deletes its own beside the history whenever the last reader closes it.
pub fn check_owner(path: &Path) -> Result<(), HistoryError> {
    let user = rustix::process::geteuid().as_raw();
    let own = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(io("look at", path))?,
    };
    // A link has an owner, and so has what it leads to.
    let target = own.is_symlink().then(|| fs::metadata(path).map_err(io("look at", path))).transpose()?;
    for owner in [Some(own), target].into_iter().flatten().map(|metadata| metadata.uid()) {
        match ownership(owner, user) {
            Ownership::Trusted => {}
            Ownership::Told => {
                let path = path.display();
                warn!(%path, owner, user, "this belongs to another user, who can change what belay knows of what it made");
                break;
            }
            Ownership::Refused => return Err(HistoryError::ForeignOwner { path: path.to_owned(), owner }),
        }
    }
    Ok(())
}

/// Takes the rights of everybody else away. One that belongs to somebody else (a volume's folder) stays as it is, and that
/// is said.
fn close(path: &Path) {
    // A link leads out of the folder, and so does another name of the same file.
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if check_alone(&metadata).is_err() {
        return;
    }
    let mode = metadata.permissions().mode();
    let (wanted, kind) = if metadata.is_dir() { (FOLDER, "folder") } else { (FILE, "file") };
    if metadata.is_symlink() || mode & STICKY != 0 || mode & 0o077 == 0 {
        return;
    }
    if let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(wanted)) {
        warn!(path = %path.display(), %error, "this {kind} is open to others, and belay can't close it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_and_what_was_left_open_is_closed_to_others() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("state");
        let open = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        make(&(&folder).into()).unwrap();
        assert_eq!(mode(&folder), 0o700);
        for name in ["history.db", "history.db-wal", "history.db-shm", "identity", "theirs"] {
            fs::write(folder.join(name), "").unwrap();
            open(&folder.join(name), 0o644);
        }
        fs::create_dir(folder.join("sources")).unwrap();
        open(&folder.join("sources"), 0o755);
        open(&folder.join("history.db"), 0o640);
        open(&folder, 0o755);
        make(&(&folder).into()).unwrap();
        let modes = ["history.db", "history.db-wal", "history.db-shm", "identity"].map(|name| mode(&folder.join(name)));
        assert_eq!((mode(&folder), mode(&folder.join("sources")), modes), (0o700, 0o700, [0o600; 4]));
        assert_eq!(mode(&folder.join("theirs")), 0o644, "not belay's");
    }

    #[test]
    fn a_file_that_is_gone_belongs_to_nobody() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_owner(&folder.path().join("history.db-shm")).is_ok());
        let link = folder.path().join("history.db");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(check_owner(&link).is_err(), "it leads nowhere");
    }

    #[test]
    fn what_belongs_to_another_user_is_refused_or_told() {
        for (owner, user, what) in [
            (1000, 1000, Ownership::Trusted),
            (0, 1000, Ownership::Trusted),
            (0, 0, Ownership::Trusted),
            (1001, 1000, Ownership::Told),
            (65534, 65532, Ownership::Told),
            (1000, 0, Ownership::Refused),
        ] {
            assert_eq!(ownership(owner, user), what, "{owner} {user}");
        }
        // Only root can give a folder away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let outer = tempfile::tempdir().unwrap();
        for name in ["", "history.db", "sources"] {
            let folder = outer.path().join(format!("state-{name}"));
            make(&(&folder).into()).unwrap();
            let theirs = folder.join(name);
            match name {
                "history.db" => fs::write(&theirs, "").unwrap(),
                "sources" => fs::create_dir(&theirs).unwrap(),
                _ => {}
            }
            std::os::unix::fs::lchown(&theirs, Some(1000), None).unwrap();
            let error = make(&(&folder).into()).unwrap_err().to_string();
            let shown = theirs.display().to_string();
            assert!(error.contains(shown.trim_end_matches('/')) && error.contains("user 1000"), "{error}");
        }
    }

    #[test]
    fn a_history_is_its_users_alone() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("state");
        let (history, _) = crate::history::History::open(&folder, jiff::Timestamp::UNIX_EPOCH).unwrap();
        history
            .saw("shop", &"1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().unwrap(), &[], jiff::Timestamp::UNIX_EPOCH)
            .unwrap();
        let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() > 1, "{files:?}");
        assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    }

    #[test]
    fn a_folder_of_everybodys_stays_as_it_is() {
        let outer = tempfile::tempdir().unwrap();
        fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        make(&outer.path().into()).unwrap();
        assert_eq!(mode(outer.path()), 0o777);
    }
}
