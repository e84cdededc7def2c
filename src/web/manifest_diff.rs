//! What a commit changed of its manifests, from the daemon's mirrors: field by field, values of Secrets masked.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::git::{Entry, EntryKind, GitError, Limits, Mirror};
use belay_core::manifest::{Manifest, ObjectKey, Scopes, is_manifest, read_file, yaml};
use belay_core::rollout::{Change, Commit, changes};

/// How many files of a commit are read for it.
const FILES: usize = 200;
/// How many fields of one object are shown.
const FIELDS: usize = 200;
/// How much of one value is shown.
const VALUE: usize = 500;

/// What a commit changed of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManifestDiff {
    pub source: String,
    pub object: ObjectKey,
    pub fields: Vec<FieldDiff>,
    /// Whether there is more than is shown.
    pub more: bool,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldDiff {
    pub path: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// What a commit changed against its first parent, of the objects of these sources. Where a mirror can't be read, nothing.
pub(super) fn diffs(state: &Path, commit: &Commit, sources: &BTreeSet<(String, String)>) -> Vec<ManifestDiff> {
    let mut found = Vec::new();
    for (source, namespace) in sources {
        let mirror = Mirror::kept(&state.join("sources").join(source), Limits::default());
        if let Ok(Some(mirror)) = mirror {
            found.extend(of_source(&mirror, source, namespace, commit).unwrap_or_default());
        }
    }
    found
}

fn of_source(mirror: &Mirror, source: &str, namespace: &str, commit: &Commit) -> Result<Vec<ManifestDiff>, GitError> {
    let scopes = Scopes::new(namespace);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let changed = mirror.changes(commit.parents.first(), &commit.id, "")?.changes;
    for change in changed.iter().filter(|change| is_manifest(&change.path)).take(FILES) {
        for (entry, manifests) in [(change.before, &mut before), (change.after, &mut after)] {
            manifests.extend(read(mirror, &change.path, entry, &scopes)?);
        }
    }
    let diff = |manifest: &Manifest| {
        let old = before.iter().find(|old| old.key == manifest.key)?;
        let all = changes(&old.value(), &manifest.value());
        let fields: Vec<FieldDiff> = all.iter().take(FIELDS).map(FieldDiff::of).collect();
        let more = all.len() > fields.len();
        let differs = !fields.is_empty();
        differs.then(|| ManifestDiff { source: source.to_owned(), object: manifest.key.clone(), fields, more })
    };
    Ok(after.iter().filter_map(diff).collect())
}

fn read(mirror: &Mirror, path: &str, entry: Option<Entry>, scopes: &Scopes) -> Result<Vec<Manifest>, GitError> {
    let Some(Entry { kind: EntryKind::File, blob }) = entry else { return Ok(Vec::new()) };
    match mirror.read(blob, yaml::Limits::default().file_bytes as u64) {
        Ok(bytes) => Ok(read_file(path, &bytes, scopes).manifests),
        Err(GitError::TooLarge { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

impl FieldDiff {
    fn of(change: &Change) -> FieldDiff {
        let shown = |value: &Option<Value>| value.as_ref().map(text);
        FieldDiff { path: change.path.clone(), before: shown(&change.before), after: shown(&change.after) }
    }
}

/// A value as people write it, as far as there is room for it.
fn text(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.chars().count() {
        0..=VALUE => text,
        _ => text.chars().take(VALUE).chain(['…']).collect(),
    }
}
