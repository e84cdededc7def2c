//! Folders of manifests in whose place there is something else at a commit: a symbolic link, a submodule, or a file.
//! belay goes into none of them, so nothing says that the folder's objects have left.

use std::sync::Arc;

use super::commit_tree::CommitTree;
use super::context::Context;
use super::desired_state::{DesiredState, HeadFiles, ReadFile};
use super::repository::Repository;
use super::units::{Content, SourceChange};
use crate::git::{EntryKind, GitError};
use crate::render::{Node, Tree as _, folders_above};
use belay_core::manifest::{Complaint, File, ObjectKey, Place, is_manifest};
use belay_core::rollout::CommitId;

impl Context {
    /// Returns the sentence about the folder that an object was written in last, if there is something else in its
    /// place by now.
    pub(super) async fn was_in_lost_folder(&self, key: &ObjectKey) -> Option<String> {
        let path = self.newest_record(key)?.place?.path;
        let head = self.repository.desired().at.clone()?;
        let (repository, asked) = (self.repository.clone(), Arc::clone(&path));
        let lost = self.repository.blocking_pool.run(move || repository.lost_folder(&head, &asked)).await;
        match lost {
            Ok(lost) => lost.map(|(folder, words)| format!("the folder {folder} {words}")),
            // Objects that are not known to have left are not deleted.
            Err(error) => Some(format!("the folder of {path} can't be checked: {error}")),
        }
    }
}

impl Repository {
    /// Returns the folder above a path in whose place there is something else at a commit, with words for that.
    fn lost_folder(&self, at: &CommitId, path: &str) -> Result<Option<(String, &'static str)>, GitError> {
        let tree = CommitTree::new(&self.mirror, at);
        for folder in folders_above(path) {
            match tree.node(folder)? {
                Some(Node::Folder(_)) => {}
                Some(Node::Link) => return Ok(Some((folder.to_owned(), words(EntryKind::Symlink)))),
                Some(Node::Submodule) => return Ok(Some((folder.to_owned(), words(EntryKind::Submodule)))),
                Some(Node::File(_)) => return Ok(Some((folder.to_owned(), words(EntryKind::File)))),
                None => return Ok(None),
            }
        }
        Ok(None)
    }
}

/// Returns the files in the place of lost folders: a complaint for each, and nothing if a folder, or nothing, is again.
pub(super) fn lost_folders(known: &DesiredState, changes: &[SourceChange]) -> HeadFiles {
    let had_manifests = |folder: &str| {
        let gone = |change: &SourceChange| change.is_manifest && change.before.is_some() && change.after.is_none();
        changes.iter().any(|change| gone(change) && is_in(&change.path, folder))
    };
    let mut files = HeadFiles::default();
    for change in changes.iter().filter(|change| !is_manifest(&change.path)) {
        let was_lost = known.unreadable().any(|path| **path == *change.path);
        let path: Arc<str> = change.path.as_str().into();
        match change.after {
            Some(Content::Entry(entry)) if was_lost || had_manifests(&path) => {
                let file = complained(&path, entry.kind).into();
                files.insert(path, Some(ReadFile { file, content: None }));
            }
            None if was_lost => drop(files.insert(path, None)),
            _ => {}
        }
    }
    files
}

/// Returns true when a path was in a folder that is lost by now.
pub(super) fn was_in_lost_folder(path: &str, after: &HeadFiles) -> bool {
    let is_lost = |folder: &str| matches!(after.get(folder), Some(Some(read)) if read.file.unreadable);
    folders_above(path).any(is_lost)
}

fn is_in(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn complained(path: &Arc<str>, kind: EntryKind) -> File {
    let place = Place { path: Arc::clone(path), line: 1, column: 1 };
    let message = format!("the folder {}; nothing that was in it is deleted", words(kind));
    let hint = "put the folder with its manifests back, or delete what is there";
    File::unreadable(Arc::clone(path), vec![Complaint::of_file(place, message, Some(hint.to_owned()))])
}

fn words(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Symlink => "has become a symbolic link, and belay does not follow links",
        EntryKind::Submodule => "has become a submodule, and belay does not enter other repositories",
        EntryKind::File => "has become a file without the ending of a manifest",
    }
}
