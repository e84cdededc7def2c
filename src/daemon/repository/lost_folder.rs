//! Folders of manifests in whose place there is something else at a commit: a symbolic link, a submodule, or a file.
//! belay goes into none of them, so nothing says that the folder's objects have left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::desired_state::{DesiredState, HeadFiles, ReadFile};
use super::prepared::Prepared;
use super::source_repository::Repository;
use super::units::{Content, SourceChange};
use crate::daemon::shared::commit_tree::CommitTree;
use crate::daemon::shared::context::Context;
use crate::git::GitError;
use crate::render::{Node, Tree as _, folders_above};
use belay_core::manifest::{File, FolderReplacement, NotRead, ObjectKey, Place, is_manifest};
use belay_core::rollout::{CommitId, Record, Trigger, Wanted};

impl Context {
    /// Returns the sentences about the folders that these objects were written in last, if there is something else in
    /// their place by now. The history names the file of an object; if it does not, Git does.
    pub async fn in_lost_folders(self: &Arc<Context>, keys: BTreeSet<ObjectKey>) -> BTreeMap<ObjectKey, String> {
        if keys.is_empty() {
            return BTreeMap::new();
        }
        let Some(head) = self.repository.desired().at.clone() else { return BTreeMap::new() };
        let context = Arc::clone(self);
        let find = move || {
            let (paths, unknown) = context.recorded_files(keys);
            let named = context.repository.named(&head, &unknown);
            // Objects that are not known to have left are not deleted.
            let unchecked = |what: &str, error: GitError| format!("{what} can't be checked: {error}");
            let named = match named {
                Ok(named) => named,
                Err(error) => {
                    let why = unchecked("the folder that it was in", error);
                    return unknown.into_iter().map(|key| (key, why.clone())).collect();
                }
            };
            let lost = |(key, path): (ObjectKey, Arc<str>)| match context.repository.lost_folder(&head, &path) {
                Ok(lost) => lost.map(|(folder, now)| (key, format!("the folder {folder} {}", now.words()))),
                Err(error) => Some((key, unchecked(&format!("the folder of {path}"), error))),
            };
            let named = named.into_iter().map(|(key, named)| (key, named.path));
            paths.into_iter().chain(named).filter_map(lost).collect()
        };
        self.repository.blocking_pool.run(find).await
    }

    /// Returns the files in which the history last saw objects, and the objects that it has no record of. It blocks.
    fn recorded_files(&self, keys: BTreeSet<ObjectKey>) -> (BTreeMap<ObjectKey, Arc<str>>, BTreeSet<ObjectKey>) {
        let (mut paths, mut unknown) = (BTreeMap::new(), BTreeSet::new());
        for key in keys {
            match (self.last_written(&key), self.newest_record(&key)) {
                (Some((place, _)), _) => drop(paths.insert(key, place.path)),
                // A record that was rebuilt after the history was lost names no file.
                (None, Some(Record { trigger: Trigger::Rebuilt, .. }) | None) => drop(unknown.insert(key)),
                (None, Some(_)) => {}
            }
        }
        (paths, unknown)
    }

    /// Returns the place where an object was written last, and the unit that rendered it, as far as the history knows. It
    /// blocks.
    fn last_written(&self, key: &ObjectKey) -> Option<(Place, Option<Arc<str>>)> {
        let records = self.newest_records(key).into_iter().filter(|record| record.object == *key);
        // Older versions recorded deletions at a place without a path.
        let mut places = records.filter_map(|record| Some((record.place?, record.rendered_by.map(Arc::from))));
        places.find(|(place, _)| !place.path.is_empty())
    }

    /// Returns the deletions with the places where their objects were written last.
    pub async fn with_last_places(self: &Arc<Context>, mut prepared: Vec<Prepared>) -> Vec<Prepared> {
        let reader = Arc::clone(self);
        let find = move || {
            for Wanted { key, manifest, .. } in prepared.iter_mut().map(|one| &mut one.planned.wanted) {
                if manifest.place.path.is_empty()
                    && let Some((place, rendered_by)) = reader.last_written(key)
                {
                    let manifest = Arc::make_mut(manifest);
                    (manifest.place, manifest.rendered_by) = (place, rendered_by);
                }
            }
            prepared
        };
        self.repository.blocking_pool.run(find).await
    }
}

impl Repository {
    /// Returns the folder above a path in whose place there is something else at a commit, with what that is.
    fn lost_folder(&self, at: &CommitId, path: &str) -> Result<Option<(String, FolderReplacement)>, GitError> {
        let tree = CommitTree::new(&self.mirror, at);
        for folder in folders_above(path) {
            let now = match tree.node(folder)? {
                Some(Node::Folder(_)) => continue,
                Some(Node::Link) => FolderReplacement::Link,
                Some(Node::Submodule) => FolderReplacement::Submodule,
                Some(Node::File(_)) => FolderReplacement::File,
                None => return Ok(None),
            };
            return Ok(Some((folder.to_owned(), now)));
        }
        Ok(None)
    }
}

/// The facts by which a lost folder is recognised.
pub struct LostFolderFacts<'a> {
    /// The desired state before the head.
    pub known: &'a DesiredState,
    /// The changes since that.
    pub changes: &'a [SourceChange],
    /// The changes since the commit that was planned last.
    pub since_plan: &'a [SourceChange],
    /// The paths that an earlier run of the daemon complained about.
    pub complained: &'a BTreeSet<String>,
}

impl LostFolderFacts<'_> {
    /// Returns the files in the place of lost folders: a complaint for each, and nothing if a folder, or nothing, is
    /// again.
    pub fn files(&self) -> HeadFiles {
        let mut files = HeadFiles::default();
        for change in self.changes.iter().filter(|change| !is_manifest(&change.path)) {
            let path: Arc<str> = change.path.as_str().into();
            let was_lost = self.was_lost(&path);
            match change.after {
                Some(Content::Entry(entry)) if was_lost || self.had_manifests(&path) => {
                    let complaint = NotRead::LostFolder(entry.kind.replaces_folder()).complaint(&path);
                    let file = File::unreadable(Arc::clone(&path), vec![complaint]).into();
                    files.insert(path, Some(ReadFile { file, content: None }));
                }
                None if was_lost => drop(files.insert(path, None)),
                _ => {}
            }
        }
        files
    }

    /// Returns true when a path was a lost folder already. Before the first reading, an earlier run said so: then
    /// there is something in its place since before the last plan.
    fn was_lost(&self, path: &str) -> bool {
        if self.known.at.is_some() {
            return self.known.unreadable().any(|unreadable| **unreadable == *path);
        }
        let is_new = |change: &SourceChange| change.path == path && change.before.is_none();
        self.complained.contains(path) && !self.since_plan.iter().any(is_new)
    }

    /// Returns true when manifests in a folder are gone.
    fn had_manifests(&self, folder: &str) -> bool {
        let gone = |change: &SourceChange| change.is_manifest && change.before.is_some() && change.after.is_none();
        let changes = self.changes.iter().chain(self.since_plan);
        changes.filter(|change| gone(change)).any(|change| is_in(&change.path, folder))
    }
}

/// Returns true when a path was in a folder that is lost by now.
pub fn was_in_lost_folder(path: &str, after: &HeadFiles) -> bool {
    let is_lost = |folder: &str| matches!(after.get(folder), Some(Some(read)) if read.file.unreadable);
    folders_above(path).any(is_lost)
}

fn is_in(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
