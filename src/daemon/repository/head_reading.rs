//! The differences between two heads, object by object, each with the commit that is charged with it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::desired_state::{HeadFiles, ReadFile};
use super::head_change::{Charged, HeadChange, Known};
use super::lost_folder::was_in_lost_folder;
use super::source_repository::Repository;
use super::units::{Content, SourceChange};
use crate::git::{Chain, Entry, GitError};
use belay_core::manifest::{File, Manifest, ManifestHash, ObjectKey, Scopes};
use belay_core::rollout::{Commit, CommitId};

/// The most commits that are searched for the newest that changed one object of a file.
pub const LINKS: usize = 1000;

/// The time that tools may take for older commits alone: for earlier renderings of a unit, and to charge each object to
/// the commit that changed it.
const OLDER: Duration = Duration::from_secs(10);

/// The hash of each object of one version of a file.
type Hashes = BTreeMap<ObjectKey, ManifestHash>;

/// One comparison of two commits, with a memory of its reads.
pub struct HeadReading<'a> {
    pub repository: &'a Repository,
    pub scopes: &'a Arc<Scopes>,
    pub head: &'a CommitId,
    pub commits: BTreeMap<CommitId, Arc<Commit>>,
    /// The files of the head. Earlier versions of them are not kept: a file may have a thousand.
    pub parsed: BTreeMap<(String, Content), Arc<File>>,
    /// The rest of the time that tools may take for older commits.
    left: Cell<Duration>,
}

impl<'a> HeadReading<'a> {
    /// Returns a comparison in which nothing has been read yet.
    pub fn new(repository: &'a Repository, scopes: &'a Arc<Scopes>, head: &'a CommitId) -> HeadReading<'a> {
        // No less than the head waits for its own units.
        let left = Cell::new(OLDER.max(repository.units.patience));
        HeadReading { repository, scopes, head, commits: BTreeMap::new(), parsed: BTreeMap::new(), left }
    }

    /// Remembers files that have been read already.
    pub fn has_read(&mut self, files: &HeadFiles) {
        for (path, read) in files {
            if let Some(ReadFile { file, content: Some(content) }) = read {
                self.parsed.insert((path.to_string(), *content), Arc::clone(file));
            }
        }
    }

    pub fn compare(
        &mut self,
        changes: &[SourceChange],
        after: &HeadFiles,
        known: &Known,
        planned: Option<&CommitId>,
        news: &mut HeadChange,
    ) -> Result<(), GitError> {
        let is_unreadable = |path: &str| matches!(after.get(path), Some(Some(read)) if read.file.unreadable);
        let counts = |change: &&SourceChange| change.is_manifest || is_unreadable(&change.path);
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
                None => self.side(&change.path, change.before.as_ref())?.map(|file| hashes(&file)).unwrap_or_default(),
            };
            if is_unreadable(&change.path) || was_in_lost_folder(&change.path, after) {
                // The former objects of the file may still be meant.
                unreadable.extend(held.iter().map(|(key, _)| key.clone()));
            }
            before.extend(held.into_iter().map(|(key, hash)| (key, (*change, hash))));
        }
        for change in &changes {
            let Some(Some(ReadFile { file, .. })) = after.get(change.path.as_str()) else { continue };
            let chain = chains.get(&change.path);
            let differs =
                |manifest: &&Manifest| before.get(&manifest.key).map(|(_, hash)| *hash) != Some(manifest.hash);
            let changed: Vec<&Manifest> = file.manifests.iter().filter(differs).collect();
            let now = changed.iter().map(|manifest| (manifest.key.clone(), Some(manifest.hash))).collect();
            let commits = self.charge_change(change, now, chain, planned)?;
            for manifest in changed {
                let Some(commit) = commits.get(&manifest.key).cloned() else { continue };
                news.changed.push(Charged { manifest: manifest.clone(), commit });
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
        let mut gone: BTreeMap<&str, (&SourceChange, BTreeSet<ObjectKey>)> = BTreeMap::new();
        for (key, (change, _)) in before.into_iter().filter(|(key, _)| is_gone(key)) {
            gone.entry(&change.path).or_insert_with(|| (change, BTreeSet::new())).1.insert(key);
        }
        for (path, (change, keys)) in gone {
            let Some(file) = self.side(path, change.before.as_ref())? else { continue };
            let now = keys.iter().map(|key| (key.clone(), None)).collect();
            let commits = self.charge_change(change, now, chains.get(path), planned)?;
            let commits = self.past_moves(commits)?;
            for manifest in file.manifests.iter().filter(|manifest| keys.contains(&manifest.key)) {
                let Some(commit) = commits.get(&manifest.key).cloned() else { continue };
                news.removed.insert(manifest.key.clone(), Charged { manifest: manifest.clone(), commit });
            }
        }
        Ok(())
    }

    /// Returns the commits that are charged with the objects of a change, which are `now` as these hashes say. At the
    /// first fetch, a unit's objects are charged to the newest commit that changed its inputs: to distinguish objects,
    /// all of its past would have to be rendered.
    fn charge_change(
        &mut self,
        change: &SourceChange,
        now: BTreeMap<ObjectKey, Option<ManifestHash>>,
        chain: Option<&Chain>,
        planned: Option<&CommitId>,
    ) -> Result<BTreeMap<ObjectKey, Arc<Commit>>, GitError> {
        if now.is_empty() {
            return Ok(BTreeMap::new());
        }
        if !change.is_rendered() {
            return self.charge(&change.path, now, chain);
        }
        let head = self.head.clone();
        if planned.is_some() {
            let charge = |key: ObjectKey| {
                let commit = self.charge_unit(&change.path, Some(&key), &head)?;
                Ok((key, commit))
            };
            return now.into_keys().map(charge).collect();
        }
        let commit = self.charge_unit(&change.path, None, &head)?;
        Ok(now.into_keys().map(|key| (key, Arc::clone(&commit))).collect())
    }

    /// Returns the newest commits that made these very objects of a file as they are `now`; others may have changed the
    /// file since. Each version of the file is read once for all of them.
    pub fn charge(
        &mut self,
        path: &str,
        now: BTreeMap<ObjectKey, Option<ManifestHash>>,
        chain: Option<&Chain>,
    ) -> Result<BTreeMap<ObjectKey, Arc<Commit>>, GitError> {
        let keys: Vec<ObjectKey> = now.keys().cloned().collect();
        let charged = match chain {
            Some(chain) => chain.charged(now, |entry| self.version(path, entry))?,
            None => BTreeMap::new(),
        };
        let commit = |key: ObjectKey| {
            let id = charged.get(&key).copied().unwrap_or(self.head).clone();
            Ok((key, self.commit(&id)?))
        };
        keys.into_iter().map(commit).collect()
    }

    /// Returns the objects of one version of a file.
    fn version(&self, path: &str, entry: Option<&Entry>) -> Result<Hashes, GitError> {
        let Some(content) = Content::readable(entry.copied().map(Content::Entry).as_ref()) else {
            return Ok(Hashes::new());
        };
        if let Some(file) = self.parsed.get(&(path.to_owned(), content)) {
            return Ok(hashes(file).into_iter().collect());
        }
        Ok(hashes(&*self.repository.read_lately(path, content, self.scopes)?).into_iter().collect())
    }

    /// Returns one side of a change; `None` if there is no file that can be read, or if it is a unit that would take
    /// longer to render than is left for older commits.
    pub fn side(&self, path: &str, content: Option<&Content>) -> Result<Option<Arc<File>>, GitError> {
        let Some(content) = Content::readable(content) else { return Ok(None) };
        if let Some(file) = self.parsed.get(&(path.to_owned(), content)) {
            return Ok(Some(Arc::clone(file)));
        }
        if let Content::Rendered(id) = content
            && !self.repository.is_rendered_in_time(path, id, &self.left)?
        {
            return Ok(None);
        }
        self.repository.read_lately(path, content, self.scopes).map(Some)
    }

    pub fn commit(&mut self, id: &CommitId) -> Result<Arc<Commit>, GitError> {
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
