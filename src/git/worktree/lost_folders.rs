//! Folders of a working copy in whose place there is something else by now: a symbolic link, a submodule, or a file.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use git2::{Commit, Delta, ErrorCode, ObjectType, Oid, Tree};

use super::revision::LARGEST;
use super::working_copy::WorkingCopy;
use crate::git::error::{GitError, while_doing};
use crate::git::read::tree::EntryKind;

/// The most commits that are searched for the one in which a folder was there last, the first parent of each.
const COMMITS: usize = 1000;

/// A folder in whose place there is something else.
#[derive(Clone, Debug)]
pub struct LostFolder {
    /// The kind of what is there now.
    pub now: EntryKind,
    /// The files that were in the folder last, by path from the root of the repository.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The search for lost folders, from the newest commit to older ones.
struct LostFolderSearch<'a, W> {
    copy: &'a WorkingCopy,
    /// The tree in which folders are missing; `None` for the files on the disk.
    end: Option<&'a Tree<'a>>,
    wanted: W,
    /// The trees that were compared already.
    newer: Vec<Oid>,
    /// The things in the place of folders at the end; `None` where there is a folder, or nothing.
    now: HashMap<String, Option<EntryKind>>,
    found: BTreeMap<String, LostFolder>,
}

impl WorkingCopy {
    /// Returns the folders, by path, that held wanted files and in whose place there is something else: in a revision,
    /// or, without one, on the disk. A folder that was away meanwhile is none of them.
    ///
    /// # Errors
    ///
    /// When the repository can't be read.
    pub fn lost_folders(
        &self,
        revision: Option<&str>,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, LostFolder>, GitError> {
        let reading = || while_doing("search for folders that became something else");
        let repository = self.repository();
        let newest = repository.revparse_single(revision.unwrap_or("HEAD")).and_then(|object| object.peel_to_commit());
        let newest = match newest {
            Ok(commit) => commit,
            // A repository without a commit.
            Err(error) if error.code() == ErrorCode::NotFound || error.code() == ErrorCode::UnbornBranch => {
                return Ok(BTreeMap::new());
            }
            Err(error) => return Err(reading()(error)),
        };
        let tree = newest.tree().map_err(reading())?;
        let end = revision.map(|_| &tree);
        let (newer, now, found) = (Vec::new(), HashMap::new(), BTreeMap::new());
        let mut search = LostFolderSearch { copy: self, end, wanted, newer, now, found };
        search.run(&newest).map_err(reading())?;
        Ok(search.found)
    }
}

impl<W: Fn(&str) -> bool> LostFolderSearch<'_, W> {
    fn run(&mut self, newest: &Commit<'_>) -> Result<(), git2::Error> {
        if self.end.is_none() {
            self.on_disk(&newest.tree()?)?;
        }
        let mut commit = newest.clone();
        for _ in 0..COMMITS {
            // A shallow clone ends where a parent is missing.
            let Ok(parent) = commit.parent(0) else { break };
            self.between(&parent.tree()?, &commit.tree()?)?;
            self.newer.push(commit.tree_id());
            commit = parent;
        }
        Ok(())
    }

    /// Finds the folders of the newest commit that are something else on the disk.
    fn on_disk(&mut self, tree: &Tree<'_>) -> Result<(), git2::Error> {
        let mut files = Vec::new();
        tree.walk(git2::TreeWalkMode::PreOrder, |root, entry| {
            if let (Ok(name), Some(ObjectType::Blob)) = (entry.name(), entry.kind()) {
                files.push((format!("{root}{name}"), entry.id()));
            }
            git2::TreeWalkResult::Ok
        })?;
        files.into_iter().try_for_each(|(path, blob)| self.gone(&path, blob))
    }

    /// Finds the folders of a commit that are something else in the next one, and in all others up to the end.
    fn between(&mut self, before: &Tree<'_>, after: &Tree<'_>) -> Result<(), git2::Error> {
        if before.id() == after.id() {
            return Ok(());
        }
        let diff = self.copy.repository().diff_tree_to_tree(Some(before), Some(after), None)?;
        for delta in diff.deltas().filter(|delta| delta.status() == Delta::Deleted) {
            let file = delta.old_file();
            let Some(path) = file.path().and_then(Path::to_str) else { continue };
            let Some((folder, _)) = self.replaced(path) else { continue };
            // It was found in a newer commit, or was away in between.
            let is_newest = |lost: &LostFolder| lost.files.contains_key(path);
            if self.found.get(&folder).is_some_and(is_newest) || !self.is_replaced_since(&folder, after)? {
                continue;
            }
            self.gone(path, file.id())?;
        }
        Ok(())
    }

    /// Returns true when there was something in the place of a folder in a tree, and in all newer ones.
    fn is_replaced_since(&self, folder: &str, tree: &Tree<'_>) -> Result<bool, git2::Error> {
        let is_replaced = |tree: &Tree<'_>| {
            tree.get_path(Path::new(folder)).is_ok_and(|entry| entry.kind() != Some(ObjectType::Tree))
        };
        if !is_replaced(tree) {
            return Ok(false);
        }
        for newer in &self.newer {
            if !is_replaced(&self.copy.repository().find_tree(*newer)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Notes a file that was in a folder which is something else now.
    fn gone(&mut self, path: &str, blob: Oid) -> Result<(), git2::Error> {
        let Some((folder, now)) = self.replaced(path) else { return Ok(()) };
        if !(self.wanted)(path) {
            return Ok(());
        }
        let blob = self.copy.repository().find_blob(blob)?;
        if blob.size() <= LARGEST {
            let lost = self.found.entry(folder).or_insert_with(|| LostFolder { now, files: BTreeMap::new() });
            lost.files.insert(path.to_owned(), blob.content().to_vec());
        }
        Ok(())
    }

    /// Returns the outermost folder above a path that is something else at the end.
    fn replaced(&mut self, path: &str) -> Option<(String, EntryKind)> {
        path.match_indices('/').map(|(at, _)| &path[..at]).find_map(|folder| {
            let now = match self.now.get(folder) {
                Some(now) => *now,
                None => {
                    let now = match self.end {
                        Some(tree) => kind_in(tree, folder),
                        None => self.kind_on_disk(folder),
                    };
                    self.now.insert(folder.to_owned(), now);
                    now
                }
            };
            Some((folder.to_owned(), now?))
        })
    }

    fn kind_on_disk(&self, path: &str) -> Option<EntryKind> {
        let place = self.copy.root().join(path);
        let kind = fs::symlink_metadata(&place).ok()?.file_type();
        let index = || self.copy.repository().index().ok()?.get_path(Path::new(path), 0);
        match () {
            () if kind.is_symlink() => Some(EntryKind::Symlink),
            () if kind.is_file() => Some(EntryKind::File),
            // The folder of a submodule that is not fetched is empty.
            () if place.join(".git").exists() || index().is_some_and(|entry| entry.mode == 0o160000) => {
                Some(EntryKind::Submodule)
            }
            () => None,
        }
    }
}

fn kind_in(tree: &Tree<'_>, path: &str) -> Option<EntryKind> {
    match tree.get_path(Path::new(path)).ok()?.filemode() {
        0o120000 => Some(EntryKind::Symlink),
        0o160000 => Some(EntryKind::Submodule),
        0o040000 => None,
        _ => Some(EntryKind::File),
    }
}
