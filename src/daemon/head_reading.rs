//! What differs between two heads, object by object, and which commit is charged with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::desired_state::{HeadFiles, ReadFile};
use super::head_change::{Charged, HeadChange, Known};
use super::lost_folder::was_in_lost_folder;
use super::repository::Repository;
use super::units::{Content, SourceChange};
use crate::git::{Chain, GitError};
use belay_core::manifest::{File, ManifestHash, ObjectKey, Scopes, read_file};
use belay_core::rollout::{Commit, CommitId};

/// The most commits that are looked through for the newest that changed one object of a file.
const LINKS: usize = 1000;

/// One comparison of two commits: remembers what it has read.
pub(super) struct HeadReading<'a> {
    pub repository: &'a Repository,
    pub scopes: &'a Scopes,
    pub head: &'a CommitId,
    pub commits: BTreeMap<CommitId, Arc<Commit>>,
    pub parsed: BTreeMap<(String, Content), Arc<File>>,
}

impl<'a> HeadReading<'a> {
    /// A comparison in which nothing has been read yet.
    pub(super) fn new(repository: &'a Repository, scopes: &'a Scopes, head: &'a CommitId) -> HeadReading<'a> {
        HeadReading { repository, scopes, head, commits: BTreeMap::new(), parsed: BTreeMap::new() }
    }

    /// Remembers files that have been read already.
    pub(super) fn has_read(&mut self, files: &HeadFiles) {
        for (path, read) in files {
            if let Some(ReadFile { file, content: Some(content) }) = read {
                self.parsed.insert((path.to_string(), *content), Arc::clone(file));
            }
        }
    }

    pub(super) fn compare(
        &mut self,
        changes: &[SourceChange],
        after: &HeadFiles,
        known: &Known,
        planned: Option<&CommitId>,
        news: &mut HeadChange,
    ) -> Result<(), GitError> {
        let is_unreadable = |path: &str| matches!(after.get(path), Some(Some(read)) if read.file.unreadable);
        let counts = |change: &&SourceChange| change.is_manifest() || is_unreadable(&change.path);
        let changes: Vec<&SourceChange> = changes.iter().filter(counts).collect();
        let plain = changes.iter().filter(|change| !change.is_rendered());
        let paths: Vec<String> = plain.map(|change| change.path.clone()).collect();
        let repository = self.repository;
        let chains = repository.mirror.attribution(planned, self.head, &repository.folder, &paths, LINKS)?;
        let mut before: BTreeMap<ObjectKey, (&SourceChange, ManifestHash)> = BTreeMap::new();
        let mut unreadable = BTreeSet::new();
        for change in &changes {
            let held = match known.get(&change.path) {
                Some(known) => known.clone(),
                None => hashes(&*self.side(&change.path, change.before.as_ref())?),
            };
            if is_unreadable(&change.path) || was_in_lost_folder(&change.path, after) {
                // What the file held before may still be meant.
                unreadable.extend(held.iter().map(|(key, _)| key.clone()));
            }
            before.extend(held.into_iter().map(|(key, hash)| (key, (*change, hash))));
        }
        for change in &changes {
            let Some(Some(ReadFile { file, .. })) = after.get(change.path.as_str()) else { continue };
            let chain = chains.get(&change.path);
            for manifest in &file.manifests {
                if before.get(&manifest.key).map(|(_, hash)| *hash) != Some(manifest.hash) {
                    let commit = self.charge_change(change, &manifest.key, chain, planned)?;
                    news.changed.push(Charged { manifest: manifest.clone(), commit });
                }
            }
            if file.complaints.is_empty() {
                continue;
            }
            let newest = if change.is_rendered() {
                self.charge_unit(&change.path, None, &self.head.clone())?
            } else {
                let newest = chain.and_then(|chain| chain.links.first()).map_or(self.head, |link| &link.commit);
                self.commit(&newest.clone())?
            };
            news.complaints.extend(file.complaints.iter().map(|complaint| (complaint.clone(), Arc::clone(&newest))));
        }
        let desired = Arc::clone(&news.desired);
        let is_gone = |key: &ObjectKey| !desired.mentions(key) && !unreadable.contains(key);
        for (key, (change, _)) in before.into_iter().filter(|(key, _)| is_gone(key)) {
            let file = self.side(&change.path, change.before.as_ref())?;
            let Some(manifest) = file.manifests.iter().find(|manifest| manifest.key == key).cloned() else { continue };
            let commit = self.charge_change(change, &key, chains.get(&change.path), planned)?;
            news.removed.insert(key, Charged { manifest, commit });
        }
        Ok(())
    }

    /// The commit that is charged with an object of a change. In a first look, of a unit the newest that changed what it
    /// is made from: to tell objects apart, all of its past would have to be rendered.
    fn charge_change(
        &mut self,
        change: &SourceChange,
        key: &ObjectKey,
        chain: Option<&Chain>,
        planned: Option<&CommitId>,
    ) -> Result<Arc<Commit>, GitError> {
        if change.is_rendered() {
            return self.charge_unit(&change.path, planned.map(|_| key), &self.head.clone());
        }
        self.charge(&change.path, key, chain)
    }

    /// The newest commit that made this very object what it is; others may have changed its file since.
    pub(super) fn charge(
        &mut self,
        path: &str,
        key: &ObjectKey,
        chain: Option<&Chain>,
    ) -> Result<Arc<Commit>, GitError> {
        let id = match chain {
            Some(chain) => chain.charged(|entry| {
                let file = self.side(path, entry.copied().map(Content::Entry).as_ref())?;
                Ok(file.manifests.iter().find(|manifest| manifest.key == *key).map(|manifest| manifest.hash))
            })?,
            None => None,
        };
        let id = id.unwrap_or(self.head).clone();
        self.commit(&id)
    }

    pub(super) fn side(&mut self, path: &str, content: Option<&Content>) -> Result<Arc<File>, GitError> {
        let Some(content) = Content::readable(content) else {
            return Ok(Arc::new(read_file(path, b"", self.scopes)));
        };
        if let Some(file) = self.parsed.get(&(path.to_owned(), content)) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(self.repository.read(path, content, self.scopes)?);
        self.parsed.insert((path.to_owned(), content), Arc::clone(&file));
        Ok(file)
    }

    pub(super) fn commit(&mut self, id: &CommitId) -> Result<Arc<Commit>, GitError> {
        if let Some(commit) = self.commits.get(id) {
            return Ok(Arc::clone(commit));
        }
        let commit = Arc::new(self.repository.mirror.commit(id)?);
        self.commits.insert(id.clone(), Arc::clone(&commit));
        Ok(commit)
    }
}

fn hashes(file: &File) -> Vec<(ObjectKey, ManifestHash)> {
    file.manifests.iter().map(|manifest| (manifest.key.clone(), manifest.hash)).collect()
}
