//! The identity of this daemon among those that follow the same sources: a name that stays the same over restarts, and
//! that no other daemon has.

use std::fs::{File, TryLockError};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::embedded::new_token;
use crate::regular_file::{check_own, make_own, read_own_text};
use crate::state_folder::StateFolder;

/// The name, and the lock that keeps a second daemon from having it too. It is released when this is dropped, or the
/// process ends.
pub(in crate::cli) struct Identity {
    /// The name: the machine's, and some digits.
    pub name: String,
    folder: StateFolder,
    digits: String,
    lock: File,
}

/// The file's name in the state folder.
const FILE: &str = "identity";
/// The most that is read of it, in bytes.
const LONGEST: u64 = 4096;
/// How often is looked whether the file is still there.
const CHECK: Duration = Duration::from_secs(5);

impl Identity {
    /// Keeps the lock in its place: where somebody has deleted its file, it is made again, as soon as there is a folder for it.
    /// Returns only when another daemon has the folder by then, and says so.
    pub(in crate::cli) async fn until_lost(&mut self) -> String {
        loop {
            tokio::time::sleep(CHECK).await;
            if let Err(why) = self.keep() {
                return format!("{why:#}");
            }
        }
    }

    fn keep(&mut self) -> anyhow::Result<()> {
        let own = self.lock.metadata().map(|file| (file.dev(), file.ino())).ok();
        let path = self.folder.join(FILE);
        // A folder that is away for now, or has another one in its place, may come back.
        if !self.folder.is_in_place() {
            return Ok(());
        }
        match std::fs::symlink_metadata(&path) {
            Ok(found) if own == Some((found.dev(), found.ino())) => return Ok(()),
            _ => {}
        }
        let lock = match locked(&path) {
            Ok(lock) => lock,
            Err(error) if error.downcast_ref::<std::io::Error>().is_some() => return Ok(()),
            Err(error) => return Err(error),
        };
        if write(&lock, &self.digits).is_ok() {
            self.lock = lock;
        }
        Ok(())
    }
}

/// Writes the file that is open and locked, whatever has its name by now.
fn write(lock: &File, digits: &str) -> std::io::Result<()> {
    lock.set_len(0)?;
    lock.write_all_at(digits.as_bytes(), 0)
}

/// Opens and locks the file.
fn locked(path: &Path) -> anyhow::Result<File> {
    check_own(path).with_context(|| format!("failed to use {}", path.display()))?;
    let lock = make_own(path).with_context(|| {
        let shown = path.display();
        format!("failed to write {shown}; see that belay's user may write the state folder, or say --state-dir DIR")
    })?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            let folder = path.parent().unwrap_or(path).display();
            bail!("another belay runs with the state folder {folder}; end it, or say --state-dir DIR")
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("failed to lock {}", path.display())),
    }
}

/// The identity that is kept in a state folder; made where there is none yet.
pub(in crate::cli) fn of(folder: &StateFolder) -> anyhow::Result<Identity> {
    let path = folder.join(FILE);
    let lock = locked(&path)?;
    let known = read_own_text(&path, LONGEST).with_context(|| format!("failed to read {}", path.display()))?;
    let digits = match known.trim() {
        known if !known.is_empty() => known.to_owned(),
        _ => {
            let digits: String = new_token()?.chars().take(16).collect();
            write(&lock, &digits).with_context(|| format!("failed to write {}", path.display()))?;
            digits
        }
    };
    let host = host_name().unwrap_or_else(|| "belay".to_owned());
    Ok(Identity { name: format!("{host}-{digits}"), folder: folder.clone(), digits, lock })
}

/// Returns the machine's name. Asked of the kernel, not of `/proc/sys`: under the unit's `ProcSubset=pid` there is
/// none.
#[expect(unsafe_code, reason = "a function of the C library")]
fn host_name() -> Option<String> {
    // The kernel's names have at most 64 bytes, POSIX's 255; a longer name may be cut without an end.
    let mut name = [0_u8; 256];
    // SAFETY: it writes at most the given number of bytes to the given address, and keeps nothing.
    let answer = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let name = name.split(|byte| *byte == 0).next().filter(|_| answer == 0)?;
    let name = std::str::from_utf8(name).ok()?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{host_name, of};
    use crate::state_folder::StateFolder;

    #[test]
    fn it_stays_the_same_and_is_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let first = of(&folder.path().into()).unwrap();
        let error = of(&folder.path().into()).map(|identity| identity.name).unwrap_err().to_string();
        assert!(error.contains("another belay runs"), "{error}");
        let name = first.name.clone();
        drop(first);
        assert_eq!(of(&folder.path().into()).unwrap().name, name);
    }

    #[test]
    fn a_lock_that_was_deleted_is_made_again_unless_another_has_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("state");
        let state = StateFolder::from(&folder);
        state.make().unwrap();
        let mut first = of(&state).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        first.keep().unwrap();
        state.make().unwrap();
        first.keep().unwrap();
        assert!(of(&state).is_err(), "it is locked again");
        let (name, mut first) = (first.name.clone(), first);
        std::fs::remove_file(folder.join("identity")).unwrap();
        let second = of(&state).unwrap();
        assert_ne!(second.name, name);
        assert!(first.keep().unwrap_err().to_string().contains("another belay runs"));
        drop(second);
        // Nothing is made behind a link that has taken the folder's place.
        let (aside, elsewhere) = (parent.path().join("aside"), parent.path().join("elsewhere"));
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::rename(&folder, &aside).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &folder).unwrap();
        first.keep().unwrap();
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn a_pipe_in_its_place_is_told_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = format!("{:#}", of(&folder.path().into()).map(|identity| identity.name).unwrap_err());
        for part in [&*path.display().to_string(), "a named pipe", "remove it"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn it_begins_with_the_machines_name() {
        let told = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(host_name().as_deref(), Some(told.trim()));
    }
}
