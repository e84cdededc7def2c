//! The manifests of a folder on this machine, committed or not.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use super::disk_tree::DiskTree;
use super::units::FolderUnits;
use crate::cli::session::configured::Reading;
use crate::git::OddPath;
use crate::render::{MemoryTree, Tree};
use belay_core::manifest::{Complaint, File, ManifestSet, ObjectKey, Scopes, is_manifest, join, read_file};
use belay_core::rollout::{After, wrong_order};

/// What a folder holds.
pub(in crate::cli) struct Folder {
    /// Its files, in the order of their paths.
    pub files: Vec<File>,
    /// Everything that is wrong with them, also with one against another.
    pub complaints: Vec<Complaint>,
    /// What is doubtful about the folder.
    pub warnings: Vec<Complaint>,
}

/// Reads a file anew as soon as more is known of the kinds in it.
type Read<'a> = Box<dyn Fn(&Scopes) -> File + 'a>;

/// Reads every manifest below a folder, with what is rendered there, or those of one file. Links are not followed, names
/// that begin with `.` or `_` passed over, as the daemon does. Places are told from where one stands, so that they can be opened as they are.
pub(in crate::cli) fn read(path: &Path, reading: &Reading, scopes: Scopes) -> anyhow::Result<Folder> {
    if path.is_file() {
        let bytes = std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
        let path: Arc<str> = path.to_string_lossy().into();
        return Ok(read_all(BTreeMap::from([plain(path, &bytes)]), scopes));
    }
    let present = std::env::current_dir().unwrap_or_default();
    let near = path.strip_prefix(".").or_else(|_| path.strip_prefix(&present)).unwrap_or(path);
    let from_here = |below: &str| -> Arc<str> {
        match near {
            here if here.as_os_str().is_empty() => below.into(),
            folder => folder.join(below).to_string_lossy().into(),
        }
    };
    let (tree, folder) =
        DiskTree::around(path).with_context(|| format!("failed to read the folder {}", path.display()))?;
    let units = FolderUnits::below(tree, &folder, reading);
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    // What lies elsewhere in the repository is found upwards from the folder.
    let up = "../".repeat(folder.split('/').filter(|part| !part.is_empty()).count());
    let shown = |path: &str| match path.strip_prefix(&prefix) {
        Some(below) => from_here(below),
        None => {
            let shown: Arc<str> = from_here(&format!("{up}{path}"));
            // `production/../base` is `base`, where that does not lead further up.
            join("", &shown).map_or(shown, Into::into)
        }
    };
    let (contents, odd) = contents(path)?;
    let plain_files: FolderContents =
        contents.into_iter().filter(|(below, _)| !units.plan.covers(&format!("{prefix}{below}"))).collect();
    let files = plain_files.iter().map(|(below, bytes)| plain(from_here(below), bytes)).collect();
    let mut found = read_with_units(files, &units, shown, scopes);
    found.warnings = units.warnings(shown);
    let odd = odd.into_iter().filter(|odd| !units.plan.covers(&format!("{prefix}{}", odd.shown)));
    let odd = odd.map(|odd| OddPath { shown: from_here(&odd.shown).to_string(), ..odd });
    found.complaints.extend(odd.map(|odd| odd.complaint()));
    Ok(found)
}

/// Reads every manifest below a folder of a revision, by path from the root of the repository.
pub(in crate::cli) fn read_revision(
    tree: MemoryTree,
    folder: &str,
    bytes: &BTreeMap<String, Vec<u8>>,
    reading: &Reading,
    scopes: Scopes,
) -> Folder {
    let units = FolderUnits::below(tree, folder.trim_matches('/'), reading);
    let shown = |path: &str| Arc::<str>::from(path);
    let plain_files = bytes.iter().filter(|(path, _)| is_manifest(path) && !units.plan.covers(path));
    let files = plain_files.map(|(path, bytes)| plain(path.as_str().into(), bytes)).collect();
    read_with_units(files, &units, shown, scopes)
}

/// Reads these files and what the units render to, its places as `shown` shows them.
fn read_with_units<'a, T: Tree<Error = Infallible>>(
    mut files: BTreeMap<Arc<str>, Read<'a>>,
    units: &'a FolderUnits<T>,
    shown: impl Fn(&str) -> Arc<str> + Copy + 'a,
    scopes: Scopes,
) -> Folder {
    for unit in units.plan.units.values() {
        files.insert(shown(&unit.path), Box::new(move |scopes| units.read(unit, scopes, shown)));
    }
    read_all(files, scopes)
}

fn plain(path: Arc<str>, bytes: &[u8]) -> (Arc<str>, Read<'_>) {
    let read = Arc::clone(&path);
    (path, Box::new(move |scopes| read_file(&read, bytes, scopes)))
}

/// Reads all of these files.
fn read_all(reads: BTreeMap<Arc<str>, Read<'_>>, mut scopes: Scopes) -> Folder {
    let mut set = ManifestSet::new();
    let mut files: BTreeMap<Arc<str>, File> = BTreeMap::new();
    let mut waiting: BTreeSet<Arc<str>> = reads.keys().cloned().collect();
    while let Some(path) = waiting.pop_first() {
        let Some(read) = reads.get(&path) else { continue };
        let file = read(&scopes);
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
    Folder { files: files.into_values().collect(), complaints, warnings: Vec::new() }
}

/// Files by their paths.
type FolderContents = BTreeMap<Arc<str>, Vec<u8>>;

/// The files of a folder that may hold manifests, by their paths from it; and those whose names the daemon does not use.
pub(in crate::cli) fn contents(folder: &Path) -> anyhow::Result<(FolderContents, Vec<OddPath>)> {
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
