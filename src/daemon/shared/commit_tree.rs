//! The files of a commit, as rendering reads them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::git::{EntryKind, GitError, Listed, Mirror};
use crate::render::{ContentId, Node, SourcePaths, Tree, folders_above};
use belay_core::rollout::CommitId;

/// The files of a commit. Each folder is read at most once.
pub struct CommitTree<'a> {
    mirror: &'a Mirror,
    at: &'a CommitId,
    folders: Mutex<HashMap<String, TreeFolder>>,
}

type TreeFolder = Arc<Vec<(String, Listed)>>;

impl<'a> CommitTree<'a> {
    /// Returns the files of a commit of a mirror.
    #[must_use]
    pub fn new(mirror: &'a Mirror, at: &'a CommitId) -> CommitTree<'a> {
        CommitTree { mirror, at, folders: Mutex::default() }
    }

    /// Checks that no folder to follow is missing: a misspelled name must not pass for an empty folder.
    ///
    /// # Errors
    /// With the folder, if one is missing; if the copy can't be read.
    pub fn has_all_folders(&self, paths: &SourcePaths) -> Result<(), GitError> {
        match paths.missing(self)? {
            Some(path) => Err(GitError::NothingFollowed { commit: self.at.clone(), path: path.to_owned() }),
            None => Ok(()),
        }
    }

    fn folder(&self, folder: &str) -> Result<TreeFolder, GitError> {
        let folders = || self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = folders().get(folder) {
            return Ok(Arc::clone(known));
        }
        let listed = Arc::new(self.mirror.list(self.at, folder)?);
        folders().insert(folder.to_owned(), Arc::clone(&listed));
        Ok(listed)
    }

    fn listed(&self, path: &str) -> Result<Option<Listed>, GitError> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let entries = self.folder(folder)?;
        Ok(entries.iter().find(|(other, _)| other == name).map(|(_, listed)| *listed))
    }
}

fn node(listed: &Listed) -> Node {
    match listed {
        Listed::Folder(id) => Node::Folder(ContentId::of_git(id.bytes())),
        Listed::Entry(entry) => match entry.kind {
            EntryKind::File => Node::File(ContentId::of_git(entry.blob.bytes())),
            EntryKind::Symlink => Node::Link,
            EntryKind::Submodule => Node::Submodule,
        },
    }
}

impl Tree for CommitTree<'_> {
    type Error = GitError;

    fn node(&self, path: &str) -> Result<Option<Node>, GitError> {
        if path.is_empty() {
            return Ok(Some(Node::Folder(ContentId::of_git(self.mirror.root(self.at)?.bytes()))));
        }
        for folder in folders_above(path) {
            match self.listed(folder)? {
                Some(Listed::Folder(_)) => {}
                Some(Listed::Entry(entry)) if entry.kind == EntryKind::Symlink => return Ok(Some(Node::Link)),
                Some(Listed::Entry(_)) | None => return Ok(None),
            }
        }
        Ok(self.listed(path)?.as_ref().map(node))
    }

    fn list(&self, folder: &str) -> Result<Vec<(String, Node)>, GitError> {
        Ok(self.folder(folder)?.iter().map(|(name, listed)| (name.clone(), node(listed))).collect())
    }

    fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, GitError> {
        let Some(Listed::Entry(entry)) = self.listed(path)? else { return Ok(None) };
        if entry.kind == EntryKind::Submodule {
            return Ok(None);
        }
        match self.mirror.read(entry.blob, limit) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(GitError::TooLarge { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
