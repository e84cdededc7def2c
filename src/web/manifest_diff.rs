//! The changes of a commit to its manifests, from the daemon's mirrors: field by field, values of Secrets masked.
//!
//! Anybody who reaches the page may ask for any commit. So only the files of recorded objects are read, by one request
//! at a time, up to a number of bytes, for as long as the request lasts; and they are kept for the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::git::{Entry, EntryKind, GitError, Limits, Mirror};
use belay_core::manifest::{Manifest, ObjectKey, Scopes, is_manifest, read_file, shortened};
use belay_core::rollout::{Change, Commit, changes};

/// The largest file that is compared, in bytes.
const FILE: u64 = 1 << 20;
/// The number of bytes of files that are read for one page, before and after the commit. One page at a time is read
/// for, so that this is the bound for all requests together.
const BYTES: u64 = 8 << 20;
/// The largest number of bytes of the manifests that are held for one file.
const HELD: usize = 16 << 20;
/// The number of fields of one object, and of all objects of a page, that are shown.
const FIELDS: usize = 200;
const FIELDS_OF_ALL: usize = 1000;
/// The number of characters of one value, and of the path of one field, that are shown.
const VALUE: usize = 500;
/// The time for which a page waits until it is its turn. Then it is shown without differences.
const TURN: Duration = Duration::from_secs(10);
/// The number of pages that are kept.
const KEPT: usize = 8;

/// The changes of a commit to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManifestDiff {
    pub source: String,
    pub object: ObjectKey,
    pub fields: Vec<FieldDiff>,
    /// True when there is more than is shown.
    pub more: bool,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldDiff {
    pub path: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// An object whose change by a commit is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordedObject {
    pub source: String,
    /// The namespace of objects that name none.
    pub namespace: String,
    /// The file that it is written in, as its record says.
    pub path: String,
    pub object: ObjectKey,
}

/// The changes of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommitDiff {
    pub diffs: Vec<ManifestDiff>,
    /// The reason for which some are not shown.
    pub missing: Option<String>,
    /// The number of bytes that were read for it.
    read: u64,
}

/// A page that has been read for: of which commit, and for which of its objects.
type Key = (String, BTreeSet<RecordedObject>);

/// The differences that are kept, the oldest first.
type KeptDiffs = VecDeque<(Key, Arc<CommitDiff>)>;

/// Reads the changes of commits. Cheap to clone.
#[derive(Clone)]
pub(super) struct DiffReader {
    state: PathBuf,
    turn: Arc<Semaphore>,
    kept: Arc<Mutex<KeptDiffs>>,
}

impl DiffReader {
    /// Reads from the mirrors in this state folder.
    pub(super) fn new(state: PathBuf) -> DiffReader {
        DiffReader { state, turn: Arc::new(Semaphore::new(1)), kept: Arc::default() }
    }

    /// Returns the changes of a commit against its first parent, of these objects. Reading ends with the future.
    pub(super) async fn read(&self, commit: &Commit, objects: BTreeSet<RecordedObject>) -> Arc<CommitDiff> {
        let key = (commit.id.to_string(), objects);
        if let Some(kept) = self.kept(&key) {
            return kept;
        }
        let Ok(Ok(turn)) = timeout(TURN, Arc::clone(&self.turn).acquire_owned()).await else {
            return missing("belay reads for other pages: load this one again");
        };
        // Another page of the same commit may have been read for meanwhile.
        if let Some(kept) = self.kept(&key) {
            return kept;
        }
        let stop = CancellationToken::new();
        let _ends_with_this = stop.clone().drop_guard();
        let (state, commit, objects) = (self.state.clone(), commit.clone(), key.1.clone());
        let read = tokio::task::spawn_blocking(move || {
            // Kept until it has ended, also if nobody waits for it any more.
            let _turn = turn;
            Reading::new(&stop).read(&state, &commit, &objects)
        });
        let Ok(diff) = read.await.map(Arc::new) else { return missing("belay's own fault: reading them panicked") };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((key, Arc::clone(&diff)));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        diff
    }

    fn kept(&self, key: &Key) -> Option<Arc<CommitDiff>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(of, _)| of == key).map(|(_, diff)| Arc::clone(diff))
    }
}

fn missing(why: &str) -> Arc<CommitDiff> {
    Arc::new(CommitDiff { missing: Some(why.to_owned()), ..CommitDiff::default() })
}

/// The reading for one page.
struct Reading<'s> {
    stop: &'s CancellationToken,
    fields: usize,
    found: CommitDiff,
}

impl<'s> Reading<'s> {
    fn new(stop: &'s CancellationToken) -> Reading<'s> {
        Reading { stop, fields: FIELDS_OF_ALL, found: CommitDiff::default() }
    }

    /// Reads the changes; if a mirror can't be read, there are no differences of its source.
    fn read(mut self, state: &Path, commit: &Commit, objects: &BTreeSet<RecordedObject>) -> CommitDiff {
        let mut files: BTreeMap<(&str, &str), Vec<&RecordedObject>> = BTreeMap::new();
        for object in objects.iter().filter(|object| is_manifest(&object.path)) {
            files.entry((&object.source, &object.path)).or_default().push(object);
        }
        let mut mirror: Option<(&str, Mirror)> = None;
        for ((source, path), objects) in files {
            if self.stop.is_cancelled() {
                break;
            }
            if mirror.as_ref().is_none_or(|(of, _)| *of != source) {
                let opened = Mirror::kept(&state.join("sources").join(source), Limits::default());
                mirror = opened.ok().flatten().map(|mirror| (source, mirror));
            }
            let Some((_, mirror)) = &mirror else { continue };
            if let Err(error) = self.file(mirror, commit, path, &objects) {
                tracing::debug!(%error, path, "failed to read what a commit changed");
            }
        }
        self.found
    }

    /// Compares the objects of one file.
    fn file(
        &mut self,
        mirror: &Mirror,
        commit: &Commit,
        path: &str,
        objects: &[&RecordedObject],
    ) -> Result<(), GitError> {
        let Some(parent) = commit.parents.first() else { return Ok(()) };
        let (before, after) = (mirror.file_at(parent, path)?, mirror.file_at(&commit.id, path)?);
        if before == after {
            return Ok(());
        }
        let before = self.manifests(mirror, path, before, objects)?;
        let after = self.manifests(mirror, path, after, objects)?;
        for object in objects {
            let (Some(before), Some(after)) = (before.get(&object.object), after.get(&object.object)) else { continue };
            let all = changes(&before.value(), &after.value());
            let fields: Vec<FieldDiff> = all.iter().take(FIELDS.min(self.fields)).map(FieldDiff::of).collect();
            self.fields -= fields.len();
            let more = all.len() > fields.len();
            if !all.is_empty() {
                let (source, object) = (object.source.clone(), object.object.clone());
                self.found.diffs.push(ManifestDiff { source, object, fields, more });
            }
        }
        Ok(())
    }

    /// Returns the manifests of these objects in a file, read a document at a time.
    fn manifests(
        &mut self,
        mirror: &Mirror,
        path: &str,
        entry: Option<Entry>,
        objects: &[&RecordedObject],
    ) -> Result<BTreeMap<ObjectKey, Manifest>, GitError> {
        let mut found = BTreeMap::new();
        let Some(Entry { kind: EntryKind::File, blob }) = entry else { return Ok(found) };
        let left = BYTES.saturating_sub(self.found.read).min(FILE);
        let bytes = match mirror.read(blob, left) {
            Ok(bytes) => bytes,
            Err(GitError::TooLarge { .. }) => {
                self.found.missing = Some(format!("{path} is larger than is compared here"));
                return Ok(found);
            }
            Err(error) => return Err(error),
        };
        self.found.read += bytes.len() as u64;
        let mut held = 0;
        for document in documents(&bytes) {
            let Some(first) = objects.first() else { break };
            let read = read_file(path, document, &Scopes::new(&first.namespace));
            for manifest in read.manifests {
                if objects.iter().any(|object| object.object == manifest.key) {
                    held += manifest.size();
                    found.entry(manifest.key.clone()).or_insert(manifest);
                }
            }
            if held > HELD || self.stop.is_cancelled() {
                self.found.missing = Some(format!("{path} holds more than is compared here"));
                break;
            }
        }
        Ok(found)
    }
}

/// Returns the documents of a file of YAML: a line that begins with `---` ends one.
fn documents(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.windows(4).position(|window| window == b"\n---").map(|at| at + 1);
        rest = end.map(|end| &text[end..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

impl FieldDiff {
    fn of(change: &Change) -> FieldDiff {
        let shown = |value: &Option<Value>| value.as_ref().map(text);
        FieldDiff {
            path: shortened(&change.path, VALUE).into_owned(),
            before: shown(&change.before),
            after: shown(&change.after),
        }
    }
}

/// Returns a value as people write it, as far as there is room for it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => shortened(text, VALUE).into_owned(),
        other => shortened(&other.to_string(), VALUE).into_owned(),
    }
}

#[cfg(test)]
mod tests;
