//! Checks that a server has sent all that a commit needs, before a reference of the mirror leads to it: references lead to
//! complete commits, and a mirror in which something is missing later is damaged.

use std::path::{Path, PathBuf};

use git2::{ErrorCode, ObjectType, Oid, Repository};

use super::import::Missing;
use crate::git::error::{GitError, while_doing};
use crate::git::mirror::damage::{files, of_the_machine};

/// Refuses what was sent where something is missing of what `wanted` needs. All that `known` needs is there.
pub(super) fn check_complete(
    mirror: &Repository,
    repository: &str,
    (known, wanted): (&[Oid], &[Oid]),
    over: &dyn Fn() -> Option<GitError>,
) -> Result<(), GitError> {
    let failed = |error: git2::Error| {
        of_the_machine(&error, mirror.path()).unwrap_or_else(|| match error.code() {
            ErrorCode::NotFound => lacks(repository, error.message()),
            _ => while_doing(format!("read what {repository} has sent"))(error),
        })
    };
    let odb = mirror.odb().map_err(failed)?;
    odb.refresh().map_err(failed)?;
    let mut missing = Missing::new(mirror, odb);
    let mut walk = mirror.revwalk().map_err(failed)?;
    for id in wanted {
        // A tag may stand before a tag that stands before a commit.
        let mut object = mirror.find_object(*id, None).map_err(failed)?;
        while let Some(tag) = object.as_tag() {
            object = tag.target().map_err(failed)?;
        }
        if object.kind() == Some(ObjectType::Commit) {
            walk.push(object.id()).map_err(failed)?;
        }
    }
    for tip in known.iter().filter(|tip| mirror.find_commit(**tip).is_ok()) {
        walk.hide(*tip).map_err(failed)?;
    }
    for id in walk {
        if let Some(over) = over() {
            return Err(over);
        }
        let commit = mirror.find_commit(id.map_err(failed)?).map_err(failed)?;
        let parent = commit.parent_ids().next().map(|parent| mirror.find_commit(parent)).transpose().map_err(failed)?;
        missing.tree(commit.tree_id(), parent.map(|parent| parent.tree_id())).map_err(failed)?;
        if let Some(id) = missing.first() {
            return Err(lacks(repository, &format!("no object {id}, which commit {} needs", commit.id())));
        }
    }
    Ok(())
}

fn lacks(repository: &str, what: &str) -> GitError {
    GitError::DamagedSource { repository: repository.to_owned(), message: format!("it did not send all: {what}") }
}

/// Deletes the packs of a fetch that failed. They would only take room.
pub(super) fn delete_packs(mirror: &Path, known: &[PathBuf]) {
    let found = files(&mirror.join("objects/pack")).unwrap_or_default();
    for file in found.into_iter().filter(|file| !known.contains(file)) {
        if let Err(error) = std::fs::remove_file(&file) {
            tracing::warn!(%error, file = %file.display(), "failed to delete what a failed fetch has left");
        }
    }
}
