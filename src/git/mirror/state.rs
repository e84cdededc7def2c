//! The state of the copy at a start, and its repair.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use git2::Repository;

use super::damage::{files, irregular, linked, sync_folder, unreadable, unwritable, wrong_files};
use super::memory;
use super::{Mirror, MirrorFound, Opened, WHOSE};
use crate::git::error::{GitError, while_doing, with_file};

impl Mirror {
    pub(super) fn look(&self) -> Result<MirrorFound, GitError> {
        let path = self.path();
        match fs::symlink_metadata(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(MirrorFound::Nothing),
            Err(error) => return Err(with_file("read", path)(error)),
        }
        if let Some(irregular) = irregular(&path)? {
            return Ok(MirrorFound::Damaged(irregular));
        }
        let (examined, used) = memory::bounded(|| self.examine(&path));
        let found = match examined {
            Ok(MirrorFound::Fine) => match wrong_files(&path)? {
                Some(wrong) => MirrorFound::Damaged(wrong),
                None => MirrorFound::Fine,
            },
            Ok(found) => found,
            Err(error) => match self.out_of_memory(self.damaged(&error), used.refused) {
                GitError::DamagedMirror { message, .. } => MirrorFound::Damaged(message),
                other => return Err(other),
            },
        };
        if matches!(found, MirrorFound::Damaged(_)) {
            // The mirror counts as damaged if no fault of the machine explains the error.
            unreadable(&path)?;
        }
        Ok(found)
    }

    /// Also looks for files with another name elsewhere.
    pub(super) fn look_before_writing(&self) -> Result<MirrorFound, GitError> {
        Ok(match self.look()? {
            MirrorFound::Fine => linked(&self.path())?.map_or(MirrorFound::Fine, MirrorFound::Damaged),
            found => found,
        })
    }

    /// Reads its owner, and checks that the objects exist that its references name.
    fn examine(&self, path: &Path) -> Result<MirrorFound, git2::Error> {
        // Not `open`: the state folder is belay's own, and root may read it too.
        let repository = Repository::open_bare(path)?;
        let whose = repository.config()?.get_string(WHOSE)?;
        if whose != self.location.to_string() {
            return Ok(MirrorFound::Other(whose));
        }
        let odb = repository.odb()?;
        for reference in repository.references()? {
            if let Some(target) = reference?.target() {
                odb.read_header(target)?;
            }
        }
        Ok(MirrorFound::Fine)
    }

    pub(super) fn make(&self, found: MirrorFound) -> Result<Opened, GitError> {
        if !matches!(found, MirrorFound::Fine) {
            unwritable(self.folder.path())?;
        }
        let opened = match found {
            MirrorFound::Fine => return Ok(Opened::Existing),
            MirrorFound::Nothing => Opened::Fresh,
            MirrorFound::Other(was) => Opened::OtherRepository { was, set_aside: self.set_aside("of-another")? },
            MirrorFound::Damaged(why) => Opened::Damaged { why, set_aside: self.set_aside("damaged")? },
        };
        // Made under another name, so that a belay that is killed here leaves nothing half made.
        let new = self.beside("new");
        remove(&new)?;
        let made = Repository::init_bare(&new).and_then(|repository| {
            let mut config = repository.config()?;
            set_limits(&mut config)?;
            // A redirect to another server is an error that says so; to another path of the same one it is followed.
            config.set_bool("http.followRedirects", false)?;
            // Nobody may clean up here: history names commits that no branch has any more.
            config.set_i32("gc.auto", 0)?;
            config.set_str(WHOSE, &self.location.to_string())
        });
        made.map_err(while_doing(format!("make a repository in {}", new.display())))?;
        for file in files(&new)? {
            File::open(&file).and_then(|file| file.sync_all()).map_err(with_file("sync", &file))?;
        }
        fs::rename(&new, self.path()).map_err(with_file("rename", new))?;
        sync_folder(self.folder.path())?;
        Ok(opened)
    }

    pub(super) fn set_aside(&self, name: &str) -> Result<PathBuf, GitError> {
        let to = self.beside(name);
        remove(&to)?;
        fs::rename(self.path(), &to).map_err(with_file("rename", self.path()))?;
        Ok(to)
    }
}

/// Sets the copy's own configuration of writing: references and packs are on the disk before they count, and repacking
/// takes little memory (libgit2 reads the limit for large objects from `pack.deltaCacheSize`, too).
fn set_limits(config: &mut git2::Config) -> Result<(), git2::Error> {
    config.set_bool("core.fsyncObjectFiles", true)?;
    config.set_i64("pack.deltaCacheSize", 4 << 20)?;
    config.set_i64("pack.windowMemory", 32 << 20)
}

fn remove(path: &Path) -> Result<(), GitError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
    removed.map_err(with_file("remove", path))
}
