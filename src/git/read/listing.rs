//! The content of one folder at a commit, one level deep.

use git2::ObjectType;

use super::names::usable;
use super::tree::{BlobId, Entry, entry_of};
use crate::git::error::GitError;
use crate::git::mirror::Mirror;
use belay_core::rollout::CommitId;

/// One entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Something that is no folder.
    Entry(Entry),
    /// A folder, with all that is below it.
    Folder(TreeId),
}

/// The id of a folder with all that is below it. Equal ids are equal contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeId(git2::Oid);

impl TreeId {
    /// Returns its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl BlobId {
    /// Returns its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Mirror {
    /// Returns the id of everything that is at a commit.
    ///
    /// # Errors
    ///
    /// When the commit is unknown, or the mirror can't be read.
    pub fn root(&self, at: &CommitId) -> Result<TreeId, GitError> {
        self.with(|repository| self.folder(repository, at, "").map(TreeId))
    }

    /// Returns the entry at a path at a commit, beside a folder; `None` if there is none. Costs one read for each
    /// folder above it.
    ///
    /// # Errors
    ///
    /// When the mirror does not have the commit, or can't be read.
    pub fn file_at(&self, at: &CommitId, path: &str) -> Result<Option<Entry>, GitError> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.with(|repository| {
            let tree = match self.folder(repository, at, folder) {
                Ok(tree) => self.tree(repository, tree)?,
                Err(GitError::NoFolder { .. } | GitError::NotAFolder { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            // git2 panics at a NUL, which no name has.
            let entry = if name.contains('\0') { None } else { tree.get_name_bytes(name.as_bytes()) };
            Ok(entry.filter(|entry| entry.kind() != Some(ObjectType::Tree)).map(|entry| entry_of(&entry)))
        })
    }

    /// Returns the content of a folder at a commit; nothing if there is no such folder. Names that can't be used are
    /// left out.
    ///
    /// # Errors
    ///
    /// When the commit is unknown, and when the folder is larger than any sensible one.
    pub fn list(&self, at: &CommitId, folder: &str) -> Result<Vec<(String, Listed)>, GitError> {
        self.with(|repository| {
            let id = match self.folder(repository, at, folder) {
                Ok(id) => id,
                Err(GitError::NoFolder { .. } | GitError::NotAFolder { .. }) => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let tree = self.tree(repository, id)?;
            let listed = tree.iter().filter_map(|entry| {
                let name = usable(entry.name_bytes(), folder.len()).ok()?.to_owned();
                let is_folder = entry.kind() == Some(ObjectType::Tree);
                Some((
                    name,
                    if is_folder { Listed::Folder(TreeId(entry.id())) } else { Listed::Entry(entry_of(&entry)) },
                ))
            });
            Ok(listed.collect())
        })
    }
}
