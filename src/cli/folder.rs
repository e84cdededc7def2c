//! The manifests of a folder on this machine, committed or not.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use crate::git::OddPath;
use belay_core::manifest::{Complaint, File, ManifestSet, ObjectKey, Scopes, is_manifest, read_file};
use belay_core::rollout::{After, wrong_order};

/// What a folder holds.
pub(super) struct Folder {
    /// Its files, in the order of their paths.
    pub files: Vec<File>,
    /// Everything that is wrong with them, also with one against another.
    pub complaints: Vec<Complaint>,
}

/// Reads every manifest below a folder, or those of one file. Links are not followed, names that begin with `.` or `_`
/// passed over, as the daemon does. Places are told from where one stands, so that they can be opened as they are.
pub(super) fn read(path: &Path, scopes: Scopes) -> anyhow::Result<Folder> {
    if path.is_file() {
        let bytes = std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
        return Ok(read_all(&BTreeMap::from([(path.to_string_lossy().into(), bytes)]), scopes));
    }
    let present = std::env::current_dir().unwrap_or_default();
    let near = path.strip_prefix(".").or_else(|_| path.strip_prefix(&present)).unwrap_or(path);
    let from_here = |below: &str| -> Arc<str> {
        match near {
            here if here.as_os_str().is_empty() => below.into(),
            folder => folder.join(below).to_string_lossy().into(),
        }
    };
    let (files, odd) = contents(path)?;
    let files = files.into_iter().map(|(below, bytes)| (from_here(&below), bytes)).collect();
    let mut folder = read_all(&files, scopes);
    folder
        .complaints
        .extend(odd.into_iter().map(|odd| OddPath { shown: from_here(&odd.shown).to_string(), ..odd }.complaint()));
    Ok(folder)
}

/// Reads every manifest of these files, by path.
pub(super) fn read_all(bytes: &BTreeMap<Arc<str>, Vec<u8>>, mut scopes: Scopes) -> Folder {
    let mut set = ManifestSet::new();
    let mut files: BTreeMap<Arc<str>, File> = BTreeMap::new();
    let mut waiting: BTreeSet<Arc<str>> = bytes.keys().cloned().collect();
    while let Some(path) = waiting.pop_first() {
        let file = read_file(&path, bytes.get(&path).map(Vec::as_slice).unwrap_or_default(), &scopes);
        // Files with objects of a custom kind are read again when its definition is found.
        for kind in set.replace(&path, Some(&file)) {
            match set.definition(&kind) {
                Some(definition) => scopes.define(definition.clone()),
                None => scopes.forget(&kind),
            }
            waiting.extend(set.files_with(&kind));
        }
        files.insert(path, file);
    }
    let mut complaints = set.complaints();
    let after: Vec<After> = files.values().flat_map(|file| &file.manifests).filter_map(After::of).collect();
    let objects: Vec<&ObjectKey> = set.iter().map(|(key, _)| key).collect();
    complaints.extend(wrong_order(&after, |key| set.mentions(key), &objects));
    Folder { files: files.into_values().collect(), complaints }
}

/// The files of a folder that may hold manifests, by their paths from it; and those whose names the daemon does not use.
pub(super) fn contents(folder: &Path) -> anyhow::Result<(BTreeMap<Arc<str>, Vec<u8>>, Vec<OddPath>)> {
    let (mut found, mut odd) = (BTreeMap::new(), Vec::new());
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((next, below)) = folders.pop() {
        let entries =
            std::fs::read_dir(&next).with_context(|| format!("failed to read the folder {}", next.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("failed to read the folder {}", next.display()))?;
            let (path, name) = (entry.path(), entry.file_name());
            if let Some(path) = OddPath::of(&below, name.as_bytes()) {
                odd.push(path);
                continue;
            }
            let shown = format!("{below}{}", name.to_string_lossy());
            let kind = entry.file_type().with_context(|| format!("failed to look at {}", path.display()))?;
            if kind.is_dir() && !name.to_string_lossy().starts_with(['.', '_']) {
                folders.push((path, format!("{shown}/")));
            } else if kind.is_file() && is_manifest(&shown) {
                let bytes = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
                found.insert(shown.into(), bytes);
            }
        }
    }
    odd.sort();
    Ok((found, odd))
}
