//! One folder at many commits: each commit is read once.

use std::collections::HashMap;

use git2::{Oid, Repository};

use crate::git::error::GitError;
use crate::git::mirror::Mirror;

/// The folder, at the commits that were asked for.
pub(in crate::git) struct FolderTrees<'a> {
    mirror: &'a Mirror,
    repository: &'a Repository,
    folder: &'a str,
    known: HashMap<Oid, Option<Oid>>,
}

impl<'a> FolderTrees<'a> {
    pub(in crate::git) fn new(mirror: &'a Mirror, repository: &'a Repository, folder: &'a str) -> FolderTrees<'a> {
        FolderTrees { mirror, repository, folder, known: HashMap::new() }
    }

    /// Returns the tree of the folder at a commit; `None` if it has no such folder.
    pub(in crate::git) fn at(&mut self, commit: Oid) -> Result<Option<Oid>, GitError> {
        if let Some(tree) = self.known.get(&commit) {
            return Ok(*tree);
        }
        tracing::trace!(%commit, "a commit is read");
        let tree = self.mirror.folder_at(self.repository, commit, self.folder)?;
        self.known.insert(commit, tree);
        Ok(tree)
    }
}
