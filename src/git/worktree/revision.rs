//! A revision of a working copy, as a person names it: `HEAD`, a branch, a tag, `HEAD~2`, an abbreviated id.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use git2::{ErrorCode, ObjectType, Odb, TreeEntry, TreeWalkMode, TreeWalkResult};

use super::working_copy::WorkingCopy;
use crate::git::error::{GitError, while_doing, wrong};
use crate::git::mirror::oid;
use crate::git::read::commits::told;
use crate::git::read::names::OddPath;
use crate::git::read::tree::parts;
use belay_core::rollout::Commit;

/// The largest size of a file that is read from a revision, in bytes.
pub(super) const LARGEST: usize = 64 << 20;

/// The longest path that a link leads to, in bytes.
const LONGEST_PATH: usize = 4096;

/// The content of a revision.
#[derive(Clone, Debug)]
pub struct Revision {
    /// The commit that it is.
    pub commit: Commit,
    /// Its files, by path from the root of the repository.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Its symbolic links, with the path that each leads to.
    pub links: BTreeMap<String, String>,
    /// The submodules among its wanted paths.
    pub submodules: BTreeSet<String>,
    /// The entries whose paths can't be used.
    pub odd: BTreeSet<OddPath>,
}

/// The entries of a revision's trees, as they are read.
struct RevisionWalk<'a, W> {
    odb: Odb<'a>,
    /// The path of the tree that is walked, with a slash at its end; nothing for the root.
    prefix: String,
    wanted: W,
    revision: Revision,
}

impl<W: Fn(&str) -> bool> RevisionWalk<'_, W> {
    /// Takes up an entry. The files below one with an odd name are skipped.
    fn entry(&mut self, root: &str, entry: &TreeEntry<'_>) -> Result<TreeWalkResult, git2::Error> {
        let folder = format!("{}{root}", self.prefix);
        if let Some(odd) = OddPath::of(&folder, entry.name_bytes()) {
            self.revision.odd.insert(odd);
            return Ok(TreeWalkResult::Skip);
        }
        let path = format!("{folder}{}", entry.name().unwrap_or_default());
        let is_link = entry.filemode() == 0o120000;
        if !is_link && !(self.wanted)(&path) {
            return Ok(TreeWalkResult::Ok);
        }
        match entry.filemode() {
            0o160000 => drop(self.revision.submodules.insert(path)),
            0o120000 => {
                let is_path = self.odb.read_header(entry.id())?.0 <= LONGEST_PATH;
                let target = is_path.then(|| self.odb.read(entry.id())).transpose()?;
                let target = target.map(|target| String::from_utf8_lossy(target.data()).into_owned());
                self.revision.links.insert(path, target.unwrap_or_default());
            }
            0o100644 | 0o100755 | 0o100664 if self.odb.read_header(entry.id())?.0 <= LARGEST => {
                self.revision.files.insert(path, self.odb.read(entry.id())?.data().to_vec());
            }
            _ => {}
        }
        Ok(TreeWalkResult::Ok)
    }
}

impl WorkingCopy {
    /// Returns the commit that a name means (an id or how it begins, a branch, `HEAD~2`); `None` if it means none.
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

    /// Reads the wanted paths of a revision below `folder` (`""` for all), and its links. Files over 64 MiB are left
    /// out.
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
        let folder = parts(folder).collect::<Vec<_>>().join("/");
        if !folder.is_empty() {
            let entry = tree.get_path(Path::new(&folder)).ok().filter(|entry| entry.kind() == Some(ObjectType::Tree));
            let entry = entry.ok_or_else(|| wrong(format!("{name:?} has no folder {folder}")))?;
            tree = repository.find_tree(entry.id()).map_err(reading())?;
        }
        let prefix = if folder.is_empty() { folder } else { format!("{folder}/") };
        let odb = repository.odb().map_err(reading())?;
        let revision = Revision {
            commit: known,
            files: BTreeMap::new(),
            links: BTreeMap::new(),
            submodules: BTreeSet::new(),
            odd: BTreeSet::new(),
        };
        let mut walk = RevisionWalk { odb, prefix, wanted, revision };
        let mut trouble = None;
        let walked = tree.walk(TreeWalkMode::PreOrder, |root, entry| {
            walk.entry(root, entry).unwrap_or_else(|error| {
                trouble = Some(error);
                TreeWalkResult::Abort
            })
        });
        if let Some(error) = trouble.or(walked.err()) {
            return Err(reading()(error));
        }
        Ok(walk.revision)
    }
}
