//! The state folder while belay runs, known by what it is and not by its name alone.
//!
//! Somebody may put a symbolic link, another folder or another disk in its place. Nothing is written through that: whoever can
//! change a name could otherwise choose what belay writes where. A folder that was deleted is made again.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The file or folder that a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// The entry of that name: a link, if it is one.
    named: (u64, u64),
    /// The target of that.
    found: (u64, u64),
}

impl FileId {
    /// Returns what a path leads to now.
    ///
    /// # Errors
    /// Fails when there is nothing, or it can't be read.
    pub fn of(path: &Path) -> Result<FileId> {
        let numbers = |file: Metadata| (file.dev(), file.ino());
        Ok(FileId { named: numbers(fs::symlink_metadata(path)?), found: numbers(fs::metadata(path)?) })
    }
}

/// The state folder, or a folder below it. Its clones know the same state folder.
#[derive(Clone, Debug)]
pub struct StateFolder {
    path: PathBuf,
    root: Arc<Root>,
}

/// The state folder, and each folder that it stands in.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    known: Mutex<Known>,
}

/// The state folder as it was found or made.
#[derive(Debug, Default)]
struct Known {
    /// The identities of it and of the folders around it, the outermost first.
    ids: Vec<FileId>,
    /// It is held open: no other folder gets its number, and it keeps it.
    _held: Option<File>,
}

impl<P: AsRef<Path> + ?Sized> From<&P> for StateFolder {
    /// The folder as it is found when it is first used.
    fn from(path: &P) -> StateFolder {
        let path = path.as_ref().to_owned();
        StateFolder { root: Arc::new(Root { path: path.clone(), known: Mutex::default() }), path }
    }
}

impl StateFolder {
    /// The folder of this name in it.
    #[must_use]
    pub fn below(&self, name: &str) -> StateFolder {
        StateFolder { path: self.path.join(name), root: Arc::clone(&self.root) }
    }

    /// The path of something in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sees to it that what is written in it from now on is in the state folder that belay has used so far. Makes it where
    /// it is not there, or was deleted.
    ///
    /// # Errors
    /// Fails when something else is in the place of the state folder, and when it can't be read or made.
    pub fn make(&self) -> Result<()> {
        self.root.keep()?;
        if self.path == self.root.path { Ok(()) } else { made(&self.path) }
    }

    /// Returns true when the state folder is there, and is the one that belay has used so far.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        let known = self.root.known.lock().unwrap_or_else(PoisonError::into_inner);
        FileId::of(&self.root.path).is_ok_and(|found| known.ids.last().is_none_or(|known| *known == found))
    }
}

impl Root {
    fn keep(&self) -> Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match FileId::of(&self.path) {
            Ok(found) if known.ids.last() == Some(&found) => return Ok(()),
            Ok(_) if known.ids.is_empty() => {}
            Ok(_) => return Err(self.taken()),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Err(_) if fs::symlink_metadata(&self.path).is_ok() => return Err(self.taken()),
            Err(_) => {
                // It is not made again in a folder that has taken the place of another one.
                for (folder, known) in self.folders().iter().zip(&known.ids) {
                    if FileId::of(folder).is_ok_and(|found| found != *known) {
                        return Err(replaced(folder));
                    }
                }
                made(&self.path)?;
            }
        }
        let held = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(&self.path)?;
        let ids = self.folders().into_iter().map(FileId::of).collect::<Result<_>>()?;
        *known = Known { ids, _held: Some(held) };
        Ok(())
    }

    fn taken(&self) -> Error {
        replaced(&self.path)
    }

    /// It and the folders that it stands in, the outermost first.
    fn folders(&self) -> Vec<&Path> {
        let mut folders: Vec<&Path> = self.path.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
        folders.reverse();
        folders
    }
}

fn made(folder: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Says what is in the place of a folder, and what to do.
fn replaced(folder: &Path) -> Error {
    let by = match (fs::read_link(folder), folder.is_dir()) {
        (Ok(to), _) => format!("a symbolic link to {}", to.display()),
        (Err(_), true) => "another folder".to_owned(),
        (Err(_), false) => "a file".to_owned(),
    };
    let shown = folder.display();
    Error::other(format!(
        "{by} is in the place of {shown}: nothing is written into it; put the former folder back, or start belay again to take \
         this one up"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    struct World {
        outer: tempfile::TempDir,
        state: StateFolder,
    }

    impl World {
        fn new() -> World {
            let outer = tempfile::tempdir().unwrap();
            let state = StateFolder::from(&outer.path().join("lib/state"));
            state.below("sources").make().unwrap();
            World { outer, state }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.outer.path().join(name)
        }

        fn aside(&self, name: &str) {
            fs::rename(self.at(name), self.at("aside")).unwrap();
        }
    }

    #[test]
    fn what_is_deleted_is_made_again() {
        let world = World::new();
        for gone in ["lib/state", "lib"] {
            fs::remove_dir_all(world.at(gone)).unwrap();
            assert!(!world.state.is_in_place());
            world.state.below("sources").make().unwrap();
            assert!(world.state.is_in_place() && world.at("lib/state/sources").is_dir(), "{gone}");
            assert_eq!(fs::metadata(world.at("lib/state")).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn nothing_is_made_in_what_took_its_place() {
        type Take = fn(&World);
        let takes: [(&str, &str, Take); 7] = [
            ("lib/state", "a symbolic link to", |world| symlink(world.at("other"), world.at("lib/state")).unwrap()),
            // Also where it leads to the same folder: it may lead elsewhere in a moment.
            ("lib/state", "a symbolic link to", |world| symlink(world.at("aside"), world.at("lib/state")).unwrap()),
            ("lib/state", "a symbolic link to", |world| symlink(world.at("nowhere"), world.at("lib/state")).unwrap()),
            ("lib/state", "another folder", |world| fs::create_dir(world.at("lib/state")).unwrap()),
            ("lib/state", "a file", |world| fs::write(world.at("lib/state"), "").unwrap()),
            // It is not there in a folder that is not the one before.
            ("lib", "a symbolic link to", |world| symlink(world.at("other"), world.at("lib")).unwrap()),
            ("lib", "another folder", |world| fs::create_dir(world.at("lib")).unwrap()),
        ];
        for (number, (aside, what, take)) in takes.into_iter().enumerate() {
            let world = World::new();
            fs::create_dir(world.at("other")).unwrap();
            world.aside(aside);
            take(&world);
            let error = world.state.below("sources").make().unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("is in the place of"), "{number}: {error}");
            assert!(!world.state.is_in_place(), "{number}");
            assert_eq!(fs::read_dir(world.at("other")).unwrap().count(), 0, "{number}");
            // Put back, all goes on.
            let taken = world.at(aside);
            if taken.is_dir() && !taken.is_symlink() { fs::remove_dir(&taken) } else { fs::remove_file(&taken) }
                .unwrap();
            fs::rename(world.at("aside"), &taken).unwrap();
            world.state.make().unwrap();
        }
    }

    #[test]
    fn a_link_that_was_there_from_the_start_stays_good() {
        let outer = tempfile::tempdir().unwrap();
        let at = |name: &str| outer.path().join(name);
        for name in ["disk", "other"] {
            fs::create_dir(at(name)).unwrap();
        }
        symlink(at("disk"), at("state")).unwrap();
        let state = StateFolder::from(&at("state"));
        state.make().unwrap();
        state.below("sources").make().unwrap();
        assert!(at("disk/sources").is_dir());
        fs::remove_file(at("state")).unwrap();
        symlink(at("other"), at("state")).unwrap();
        assert!(state.make().is_err());
        // The same where what it leads to is exchanged.
        fs::remove_file(at("state")).unwrap();
        symlink(at("disk"), at("state")).unwrap();
        let state = StateFolder::from(&at("state"));
        state.make().unwrap();
        fs::rename(at("disk"), at("former")).unwrap();
        fs::rename(at("other"), at("disk")).unwrap();
        assert!(state.make().is_err());
    }
}
