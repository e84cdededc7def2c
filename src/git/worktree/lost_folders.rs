//! Folders of a working copy in whose place there is something else by now: a symbolic link, a submodule, or a file.
//!
//! Such a place has something else in the newest commit already, and in all between, or only on the disk. The search goes back
//! with the places that have: it reads a folder of a commit only if there is such a place below, and if it differs.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use git2::{Commit, ErrorCode, ObjectType, Oid, Tree, TreeWalkMode, TreeWalkResult};
use tracing::trace;

use super::revision::LARGEST;
use super::working_copy::WorkingCopy;
use crate::git::error::{GitError, while_doing};
use crate::git::read::tree::EntryKind;
use belay_core::manifest::{is_manifest, is_passed_over};

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
    /// The things in the place of folders at the end; `None` where there is a folder, or nothing.
    now: HashMap<String, Option<EntryKind>>,
    found: BTreeMap<String, LostFolder>,
}

/// The places in a folder, by name, that have been something else than a folder ever since.
#[derive(Default)]
struct TreePlaces {
    /// The folder's tree, as it was seen last.
    tree: Option<Oid>,
    at: BTreeMap<String, TreePlace>,
}

enum TreePlace {
    /// Such a place.
    Else,
    /// A folder with such places.
    Folder(TreePlaces),
}

impl WorkingCopy {
    /// Returns the folders, by path, that held wanted files and in whose place there is something else: in a revision,
    /// or, without one, on the disk. A folder that was away meanwhile is none of them, and one in whose place there is a
    /// manifest is none either.
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
        let (now, found) = (HashMap::new(), BTreeMap::new());
        let mut search = LostFolderSearch { copy: self, end, wanted, now, found };
        search.run(&newest, &tree).map_err(reading())?;
        Ok(search.found)
    }
}

impl<W: Fn(&str) -> bool> LostFolderSearch<'_, W> {
    fn run(&mut self, newest: &Commit<'_>, tree: &Tree<'_>) -> Result<(), git2::Error> {
        let (mut places, files) = places(tree)?;
        if self.end.is_none() {
            files.into_iter().try_for_each(|(path, blob)| self.gone(&path, blob))?;
        }
        let mut commit = newest.clone();
        for _ in 0..COMMITS {
            if places.at.is_empty() {
                break;
            }
            // A shallow clone ends where a parent is missing.
            let Ok(parent) = commit.parent(0) else { break };
            self.go_back(&mut places, parent.tree_id(), "")?;
            commit = parent;
        }
        Ok(())
    }

    /// Goes back to a folder of a parent: finds the places that were folders there, and forgets those that were nothing.
    fn go_back(&mut self, places: &mut TreePlaces, tree: Oid, folder: &str) -> Result<(), git2::Error> {
        if places.tree.replace(tree) == Some(tree) {
            return Ok(());
        }
        trace!(%tree, folder, "a tree is read");
        let copy = self.copy;
        let before = copy.repository().find_tree(tree)?;
        let mut left = Vec::new();
        for (name, place) in &mut places.at {
            let was = before.get_name(name);
            let was_folder = was.as_ref().filter(|was| was.kind() == Some(ObjectType::Tree)).map(|was| was.id());
            let stays = match (place, was_folder) {
                (TreePlace::Else, Some(tree)) => {
                    self.lost(&format!("{folder}{name}"), tree)?;
                    false
                }
                (TreePlace::Else, None) => was.is_some(),
                (TreePlace::Folder(_), None) => false,
                (TreePlace::Folder(below), Some(tree)) => {
                    self.go_back(below, tree, &format!("{folder}{name}/"))?;
                    !below.at.is_empty()
                }
            };
            if !stays {
                left.push(name.clone());
            }
        }
        left.iter().for_each(|name| drop(places.at.remove(name)));
        Ok(())
    }

    /// Notes the files of a folder in whose place there has been something else ever since.
    fn lost(&mut self, folder: &str, tree: Oid) -> Result<(), git2::Error> {
        if self.replaced(&format!("{folder}/")).is_none() {
            return Ok(());
        }
        let mut files = Vec::new();
        self.copy.repository().find_tree(tree)?.walk(TreeWalkMode::PreOrder, |below, entry| {
            if let (Ok(name), Some(ObjectType::Blob)) = (entry.name(), entry.kind()) {
                files.push((format!("{folder}/{below}{name}"), entry.id()));
            }
            TreeWalkResult::Ok
        })?;
        files.into_iter().try_for_each(|(path, blob)| self.gone(&path, blob))
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

impl TreePlaces {
    fn add(&mut self, path: &str) {
        match path.split_once('/') {
            None => drop(self.at.insert(path.to_owned(), TreePlace::Else)),
            Some((folder, rest)) => {
                let below =
                    self.at.entry(folder.to_owned()).or_insert_with(|| TreePlace::Folder(TreePlaces::default()));
                if let TreePlace::Folder(below) = below {
                    below.add(rest);
                }
            }
        }
    }
}

/// Returns the places in a tree that have something else than a folder or a manifest, and its files.
fn places(tree: &Tree<'_>) -> Result<(TreePlaces, Vec<(String, Oid)>), git2::Error> {
    let (mut places, mut files) = (TreePlaces::default(), Vec::new());
    tree.walk(TreeWalkMode::PreOrder, |folder, entry| {
        let Some((name, kind)) = entry.name().ok().zip(entry.kind()) else { return TreeWalkResult::Ok };
        let path = format!("{folder}{name}");
        if kind != ObjectType::Tree && !is_manifest(&path) && !is_passed_over(&path) {
            places.add(&path);
        }
        if kind == ObjectType::Blob {
            files.push((path, entry.id()));
        }
        TreeWalkResult::Ok
    })?;
    Ok((places, files))
}

fn kind_in(tree: &Tree<'_>, path: &str) -> Option<EntryKind> {
    match tree.get_path(Path::new(path)).ok()?.filemode() {
        0o120000 => Some(EntryKind::Symlink),
        0o160000 => Some(EntryKind::Submodule),
        0o040000 => None,
        _ => Some(EntryKind::File),
    }
}
