//! A revision of a working copy, as a person names it: `HEAD`, a branch, a tag, `HEAD~2`, an abbreviated id.

use std::collections::BTreeMap;
use std::path::Path;

use git2::{ErrorCode, ObjectType, TreeWalkMode, TreeWalkResult};

use super::working_copy::WorkingCopy;
use crate::git::error::{GitError, while_doing, wrong};
use crate::git::mirror::oid;
use crate::git::read::commits::told;
use belay_core::rollout::Commit;

/// How large a file may be that is read from a revision, in bytes.
const LARGEST: usize = 64 << 20;

/// What a revision holds.
#[derive(Clone, Debug)]
pub struct Revision {
    /// The commit that it is.
    pub commit: Commit,
    /// Its files, by path from the root of the repository. Links and submodules are not among them.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl WorkingCopy {
    /// The commit that a name means (an id or how it begins, a branch, `HEAD~2`); `None` where it means none.
    ///
    /// # Errors
    ///
    /// When several ids begin so, and when the repository can't be read.
    pub fn look_up(&self, name: &str) -> Result<Option<Commit>, GitError> {
        let found = self.repository().revparse_single(name).and_then(|object| object.peel_to_commit());
        match found {
            Ok(commit) => Ok(Some(told(&commit))),
            Err(error) => match error.code() {
                ErrorCode::NotFound | ErrorCode::InvalidSpec | ErrorCode::Peel => Ok(None),
                ErrorCode::Ambiguous => {
                    Err(wrong(format!("{name:?} is the beginning of several ids; write more of it")))
                }
                _ => Err(while_doing(format!("look up the revision {name:?}"))(error)),
            },
        }
    }

    /// Reads the files of a revision below `folder` (`""` for all) whose paths are wanted. Files that are not UTF-8 in
    /// their names, and those over 64 MiB, are left out.
    ///
    /// # Errors
    ///
    /// When there is no such revision, when it has no such folder, and when the repository can't be read.
    pub fn revision(&self, name: &str, folder: &str, wanted: impl Fn(&str) -> bool) -> Result<Revision, GitError> {
        let repository = self.repository();
        let reading = || while_doing(format!("read the revision {name:?}"));
        let known = self.look_up(name)?.ok_or_else(|| {
            wrong(format!("{} has no revision {name:?}; git log lists those it has", self.root().display()))
        })?;
        let commit = repository.find_commit(oid(&known.id)?).map_err(reading())?;
        let mut tree = commit.tree().map_err(reading())?;
        let folder = folder.trim_matches('/');
        if !folder.is_empty() && folder != "." {
            let entry = tree.get_path(Path::new(folder)).ok().filter(|entry| entry.kind() == Some(ObjectType::Tree));
            let entry = entry.ok_or_else(|| wrong(format!("{name:?} has no folder {folder}")))?;
            tree = repository.find_tree(entry.id()).map_err(reading())?;
        }
        let odb = repository.odb().map_err(reading())?;
        let mut files = BTreeMap::new();
        let mut trouble = None;
        let prefix = if folder.is_empty() || folder == "." { String::new() } else { format!("{folder}/") };
        let walked = tree.walk(TreeWalkMode::PreOrder, |root, entry| {
            let (Ok(name), 0o100644 | 0o100755 | 0o100664) = (entry.name(), entry.filemode()) else {
                return TreeWalkResult::Ok;
            };
            let path = format!("{prefix}{root}{name}");
            if !wanted(&path) {
                return TreeWalkResult::Ok;
            }
            match odb.read_header(entry.id()) {
                Ok((size, _)) if size > LARGEST => return TreeWalkResult::Ok,
                Ok(_) => {}
                Err(error) => {
                    trouble = Some(error);
                    return TreeWalkResult::Abort;
                }
            }
            match odb.read(entry.id()) {
                Ok(blob) => drop(files.insert(path, blob.data().to_vec())),
                Err(error) => {
                    trouble = Some(error);
                    return TreeWalkResult::Abort;
                }
            }
            TreeWalkResult::Ok
        });
        if let Some(error) = trouble.or(walked.err()) {
            return Err(reading()(error));
        }
        Ok(Revision { commit: known, files })
    }
}
