//! The manifests of a folder on this machine, committed or not.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};

use super::disk_tree::DiskTree;
use super::lost_folders::FolderInGit;
use super::units::FolderUnits;
use crate::cli::session::configured::Reading;
use crate::git::{OddPath, Revision, WorkingCopy};
use crate::render::{MemoryTree, SourcePaths, Tree, Unit, leads_to_manifests};
use belay_core::manifest::{
    Complaint, File, ManifestSet, NotRead, ObjectKey, Scopes, is_manifest, is_passed_over, join, read_file,
};
use belay_core::rollout::{After, wrong_order};

/// The content of a folder.
pub(in crate::cli) struct Folder {
    /// Its files, in the order of their paths.
    pub files: Vec<File>,
    /// Everything that is wrong with them, also with one against another.
    pub complaints: Vec<Complaint>,
    /// The warnings about the folder.
    pub warnings: Vec<Complaint>,
}

/// Reads a file again as soon as more is known of the kinds in it.
type Read<'a> = Box<dyn Fn(&Scopes) -> File + 'a>;

/// Reads every manifest below a folder, with the rendered ones there, or those of one file. Names that begin with `.`
/// or `_` are passed over, as the daemon does, and links are complained about as it does. Places are relative to the
/// present folder, so that they can be opened as they are.
///
/// If a configuration says which folders of the repository are followed, only these are read, from the repository's
/// root down; `path` then leaves out all other folders. Without `path`, all of them are read, else the present folder.
pub(in crate::cli) fn read(path: Option<&Path>, reading: &Reading, scopes: Scopes) -> anyhow::Result<Folder> {
    if let Some(path) = path.filter(|path| path.is_file()) {
        let bytes = std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
        let path: Arc<str> = path.to_string_lossy().into();
        return Ok(read_all(BTreeMap::from([plain(path, &bytes)]), scopes).0);
    }
    let asked = path.unwrap_or(Path::new("."));
    let (tree, folder) =
        DiskTree::around(asked).with_context(|| format!("failed to read the folder {}", asked.display()))?;
    let start = match &reading.followed {
        None => folder.clone(),
        Some(followed) => {
            has_all_folders(followed, &tree)?;
            followed.common()
        }
    };
    let below = if reading.followed.is_some() && path.is_none() { "" } else { &folder };
    let root = tree.root().to_owned();
    let (contents, units) = (contents(&root.join(&start), &start)?, FolderUnits::below(tree, &start, reading));
    let shown = |path: &str| shown_from(asked, &folder, path);
    // A file that Git ignores is in no commit that the daemon reads.
    let copy = WorkingCopy::open(&root).ok();
    let followed = copy.as_ref().filter(|_| reading.followed.is_some());
    let is_ignored = |path: &str| followed.is_some_and(|copy| copy.ignores(path));
    let counts = |path: &str| is_below(path, below) && !units.plan.covers(path) && !is_ignored(path);
    let files = contents.files.iter().filter(|(path, _)| counts(path));
    let files = files.map(|(path, bytes)| plain(shown(path), bytes)).collect();
    let counts_unit =
        |unit: &Unit| (is_below(&unit.path, below) || reading.options.names(unit)) && !is_ignored(&unit.path);
    let (mut found, scopes) = read_with_units(files, &units, counts_unit, shown, scopes);
    found.warnings = units.warnings(shown);
    let odd = contents.odd.into_iter().filter(|odd| counts(&odd.shown));
    let odd = odd.map(|odd| OddPath { shown: shown(&odd.shown).to_string(), ..odd }.complaint());
    let links = contents.links.iter().filter(|path| counts(path));
    let links = links.filter_map(|path| Some(link(&units.tree, path)?.complaint(&shown(path))));
    found.complaints.extend(odd.chain(links));
    if let Some(copy) = &copy {
        let counts = |path: &str| is_read(path, &start) && counts(path);
        let in_git =
            FolderInGit { files: &found.files, complaints: &found.complaints, scopes: &scopes, copy, revision: None };
        let lost = in_git.complaints(counts, shown)?;
        found.complaints.extend(lost);
    }
    Ok(found)
}

/// Returns a path of the repository as it is opened from the present folder; `asked` is a folder that lies at `folder`
/// of the repository.
fn shown_from(asked: &Path, folder: &str, path: &str) -> Arc<str> {
    let present = std::env::current_dir().unwrap_or_default();
    let near = asked.strip_prefix(".").or_else(|_| asked.strip_prefix(&present)).unwrap_or(asked);
    let from_here = |below: &str| -> Arc<str> {
        match near {
            here if here.as_os_str().is_empty() => below.into(),
            folder => folder.join(below).to_string_lossy().into(),
        }
    };
    let inside = match folder {
        "" => Some(path),
        folder => path.strip_prefix(folder).and_then(|path| path.strip_prefix('/')),
    };
    match inside {
        Some(below) => from_here(below),
        None => {
            // A path elsewhere in the repository is found upwards from the folder.
            let up = "../".repeat(folder.split('/').count());
            let shown = from_here(&format!("{up}{path}"));
            // `production/../base` is `base`, if that does not lead further up.
            join("", &shown).map_or(shown, Into::into)
        }
    }
}

/// Returns true when a path lies below a folder; everything does below the empty one.
fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns true when a path lies below the folder where reading starts, and no name on the way there is passed over.
fn is_read(path: &str, start: &str) -> bool {
    is_below(path, start) && !is_passed_over(path.strip_prefix(start).unwrap_or(path).trim_start_matches('/'))
}

/// Reads every manifest of a revision of a working copy as the daemon would, by path from the root of the repository;
/// `folder` leaves out all others.
pub(in crate::cli) fn read_revision(
    copy: &WorkingCopy,
    tree: MemoryTree,
    folder: &str,
    revision: Revision,
    reading: &Reading,
    scopes: Scopes,
) -> anyhow::Result<Folder> {
    let start = match &reading.followed {
        None => folder.to_owned(),
        Some(followed) => {
            has_all_folders(followed, &tree)?;
            followed.common()
        }
    };
    let Revision { commit, files, links, submodules, odd } = revision;
    let units = FolderUnits::below(tree, &start, reading);
    let shown = |path: &str| -> Arc<str> { path.into() };
    let inside = |path: &str| path.strip_prefix(&start).unwrap_or(path).trim_start_matches('/').to_owned();
    let counts = |path: &str| is_below(path, folder) && is_read(path, &start) && !units.plan.covers(path);
    let plain_files = files.iter().filter(|(path, _)| is_manifest(&inside(path)) && counts(path));
    let plain_files = plain_files.map(|(path, bytes)| plain(path.as_str().into(), bytes)).collect();
    let counts_unit = |unit: &Unit| is_below(&unit.path, folder) || reading.options.names(unit);
    let (mut found, scopes) = read_with_units(plain_files, &units, counts_unit, shown, scopes);
    let links = links.keys().filter(|path| counts(path)).filter_map(|path| Some((path, link(&units.tree, path)?)));
    let submodules = submodules.iter().filter(|path| is_manifest(&inside(path)) && counts(path));
    let not_read = links.chain(submodules.map(|path| (path, NotRead::Submodule)));
    found.complaints.extend(not_read.map(|(path, what)| what.complaint(path)));
    found.complaints.extend(odd.iter().filter(|odd| counts(&odd.shown)).map(OddPath::complaint));
    let in_git = FolderInGit {
        files: &found.files,
        complaints: &found.complaints,
        scopes: &scopes,
        copy,
        revision: Some(commit.id.as_str()),
    };
    let lost = in_git.complaints(counts, shown)?;
    found.complaints.extend(lost);
    found.warnings = units.warnings(shown);
    Ok(found)
}

/// Returns how a link is complained about; `None` if it leads to nothing that would be read.
fn link<T: Tree<Error = Infallible>>(tree: &T, path: &str) -> Option<NotRead> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if is_manifest(name) {
        return Some(NotRead::Link);
    }
    let Ok(leads) = leads_to_manifests(tree, path);
    leads.then_some(NotRead::LinkedFolder)
}

/// Refuses a source whose folder is missing: it would pass for an empty one.
fn has_all_folders<T: Tree<Error = Infallible>>(followed: &SourcePaths, tree: &T) -> anyhow::Result<()> {
    let Ok(missing) = followed.missing(tree);
    match missing {
        Some(missing) => bail!("the source follows {missing}, and there is no such folder here"),
        None => Ok(()),
    }
}

/// Reads these files and the rendered manifests of the units that count, its places as `shown` shows them. Returns what
/// is known of the kinds by then, too.
fn read_with_units<'a, T: Tree<Error = Infallible>>(
    mut files: BTreeMap<Arc<str>, Read<'a>>,
    units: &'a FolderUnits<T>,
    counts: impl Fn(&Unit) -> bool,
    shown: impl Fn(&str) -> Arc<str> + Copy + 'a,
    scopes: Scopes,
) -> (Folder, Scopes) {
    for unit in units.plan.units.values().filter(|unit| counts(unit)) {
        files.insert(shown(&unit.path), Box::new(move |scopes| units.read(unit, scopes, shown)));
    }
    read_all(files, scopes)
}

fn plain(path: Arc<str>, bytes: &[u8]) -> (Arc<str>, Read<'_>) {
    let read = Arc::clone(&path);
    (path, Box::new(move |scopes| read_file(&read, bytes, scopes)))
}

/// Reads all of these files. Returns what is known of the kinds by then, too.
fn read_all(reads: BTreeMap<Arc<str>, Read<'_>>, mut scopes: Scopes) -> (Folder, Scopes) {
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
    (Folder { files: files.into_values().collect(), complaints, warnings: Vec::new() }, scopes)
}

/// The contents of a folder, by their paths from the root.
#[derive(Default)]
pub(in crate::cli) struct FolderContents {
    /// The files that may hold manifests.
    pub files: BTreeMap<Arc<str>, Vec<u8>>,
    /// Names that the daemon does not use.
    pub odd: Vec<OddPath>,
    /// Symbolic links.
    pub links: BTreeSet<String>,
}

/// Reads a folder whose path from the root is `at`.
pub(in crate::cli) fn contents(folder: &Path, at: &str) -> anyhow::Result<FolderContents> {
    let mut found = FolderContents::default();
    let mut folders = vec![(folder.to_owned(), at.to_owned())];
    while let Some((next, at)) = folders.pop() {
        let reading = || format!("failed to read the folder {}", next.display());
        for entry in std::fs::read_dir(&next).with_context(reading)? {
            let entry = entry.with_context(reading)?;
            let (path, name) = (entry.path(), entry.file_name());
            let within = if at.is_empty() { String::new() } else { format!("{at}/") };
            if let Some(path) = OddPath::of(&within, name.as_bytes()) {
                found.odd.push(path);
                continue;
            }
            let name = name.to_string_lossy();
            let shown = format!("{within}{name}");
            let kind = entry.file_type().with_context(|| format!("failed to look at {}", path.display()))?;
            if kind.is_dir() && !name.starts_with(['.', '_']) {
                // Another repository, which Git does not enter.
                if !path.join(".git").exists() {
                    folders.push((path, shown));
                }
            } else if kind.is_symlink() && !is_passed_over(&name) {
                found.links.insert(shown);
            } else if kind.is_file() && is_manifest(&name) {
                let bytes = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
                found.files.insert(shown.into(), bytes);
            }
        }
    }
    found.odd.sort();
    Ok(found)
}
