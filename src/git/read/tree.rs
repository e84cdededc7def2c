//! The content of a folder at a commit, and the differences between two commits: trees compared by object id, folder by
//! folder, so that a folder in which nothing changed is never opened.

use std::cmp::Ordering;
use std::fmt;

use git2::{ErrorCode, ObjectType, Oid, Repository, Tree, TreeEntry};

use super::names::{OddPath, shown, usable};
use crate::git::error::GitError;
use crate::git::mirror::{Mirror, oid};
use belay_core::manifest::FolderReplacement;
use belay_core::rollout::CommitId;

/// No tree is larger, in bytes: room for 200,000 files and more in one folder.
const TREE_LIMIT: usize = 16 << 20;

/// The id of a file's content. Equal ids are equal contents.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(pub(in crate::git) Oid);

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One entry of a folder that is not itself a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// Its kind.
    pub kind: EntryKind,
    /// Its content; for a submodule, the commit that it stands at.
    pub blob: BlobId,
}

/// The kind of an entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A file, executable or not.
    File,
    /// A symbolic link. Its content is where it leads; belay never goes there.
    Symlink,
    /// Another repository. belay never enters it.
    Submodule,
}

/// A path at which something differs between two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The path, from the root of the repository.
    pub path: String,
    /// The former entry.
    pub before: Option<Entry>,
    /// The present entry.
    pub after: Option<Entry>,
}

/// The differences between two commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The differences, by path.
    pub changes: Vec<Change>,
    /// The new or changed entries whose paths can't be used.
    pub odd: Vec<OddPath>,
}

/// The files of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The files, by path from the root of the repository.
    pub files: Vec<(String, Entry)>,
    /// The entries whose paths can't be used.
    pub odd: Vec<OddPath>,
}

impl Mirror {
    /// Returns the differences in `folder` between two commits; everything in it is new if `from` is `None`, or did not
    /// have the folder. `""` is the whole repository. Costs one read for each folder that differs.
    ///
    /// # Errors
    ///
    /// When a commit is unknown, when `to` has no such folder, and when more differs than [`crate::git::Limits`] allow.
    pub fn changes(&self, from: Option<&CommitId>, to: &CommitId, folder: &str) -> Result<Changes, GitError> {
        self.with(|repository| {
            let before = match from {
                None => None,
                Some(from) => match self.folder(repository, from, folder) {
                    Ok(tree) => Some(tree),
                    Err(GitError::NoFolder { .. } | GitError::NotAFolder { .. }) => None,
                    Err(error) => return Err(error),
                },
            };
            let after = self.folder(repository, to, folder)?;
            self.compare(repository, before, Some(after), folder)
        })
    }

    /// Returns everything in `folder` at a commit, and in the folders below it.
    ///
    /// # Errors
    ///
    /// As for [`Mirror::changes`].
    pub fn files(&self, at: &CommitId, folder: &str) -> Result<Files, GitError> {
        let Changes { changes, odd } = self.changes(None, at, folder)?;
        let files = changes.into_iter().filter_map(|change| Some((change.path, change.after?))).collect();
        Ok(Files { files, odd })
    }

    /// Returns the content of a file, if that is at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// [`GitError::TooLarge`] when it is more, found out without reading it.
    pub fn read(&self, blob: BlobId, limit: u64) -> Result<Vec<u8>, GitError> {
        self.with(|repository| {
            let odb = repository.odb().map_err(|error| self.damaged(&error))?;
            let (size, kind) = odb.read_header(blob.0).map_err(|error| self.damaged(&error))?;
            if size as u64 > limit {
                return Err(GitError::TooLarge { what: format!("blob {blob}"), size: size as u64, limit });
            }
            if kind != ObjectType::Blob {
                let message = format!("{blob} is not the content of a file but a {kind}");
                return Err(GitError::DamagedMirror { path: self.path(), message });
            }
            tracing::trace!(%blob, size, "a file is read");
            Ok(odb.read(blob.0).map_err(|error| self.damaged(&error))?.data().to_vec())
        })
    }

    /// Returns the tree of a folder at a commit.
    pub(in crate::git) fn folder(&self, repository: &Repository, at: &CommitId, folder: &str) -> Result<Oid, GitError> {
        let commit = match repository.find_commit(oid(at)?) {
            Ok(commit) => commit,
            Err(error) if error.code() == ErrorCode::NotFound => {
                return Err(GitError::NoCommit { repository: self.location.to_string(), commit: at.clone() });
            }
            Err(error) => return Err(self.damaged(&error)),
        };
        let found = self.descend(repository, commit.tree_id(), folder)?;
        match found {
            Descent::Tree(tree) => Ok(tree),
            Descent::Missing(others) => {
                Err(GitError::NoFolder { commit: at.clone(), folder: folder.to_owned(), others })
            }
            Descent::Other(kind) => Err(GitError::NotAFolder { commit: at.clone(), folder: folder.to_owned(), kind }),
        }
    }

    /// Returns the tree of a folder at a commit that is known to be there; `None` if it has no such folder.
    pub(in crate::git) fn folder_at(
        &self,
        repository: &Repository,
        at: Oid,
        folder: &str,
    ) -> Result<Option<Oid>, GitError> {
        let commit = repository.find_commit(at).map_err(|error| self.damaged(&error))?;
        match self.descend(repository, commit.tree_id(), folder)? {
            Descent::Tree(tree) => Ok(Some(tree)),
            Descent::Missing(_) | Descent::Other(_) => Ok(None),
        }
    }

    /// Compares two trees, whose path is `folder`.
    pub(in crate::git) fn compare(
        &self,
        repository: &Repository,
        before: Option<Oid>,
        after: Option<Oid>,
        folder: &str,
    ) -> Result<Changes, GitError> {
        let mut comparison = Comparison {
            mirror: self,
            repository,
            found: Changes::default(),
            entries: 0,
            bytes: 0,
            path: String::new(),
        };
        for part in parts(folder) {
            comparison.path.push_str(part);
            comparison.path.push('/');
        }
        comparison.trees(before, after, 0)?;
        // A file that became a folder stands in Git's order between its neighbours in two places.
        comparison.found.changes.sort_by(|one, other| one.path.cmp(&other.path));
        comparison.found.odd.sort();
        Ok(comparison.found)
    }

    /// Reads a tree, unless it is larger than any sensible one.
    pub(in crate::git) fn tree<'a>(&self, repository: &'a Repository, id: Oid) -> Result<Tree<'a>, GitError> {
        let size = repository.odb().and_then(|odb| odb.read_header(id)).map_err(|error| self.damaged(&error))?.0;
        if size > TREE_LIMIT {
            let what = format!("folder {id}");
            return Err(GitError::TooLarge { what, size: size as u64, limit: TREE_LIMIT as u64 });
        }
        repository.find_tree(id).map_err(|error| self.damaged(&error))
    }

    fn descend(&self, repository: &Repository, root: Oid, folder: &str) -> Result<Descent, GitError> {
        let mut tree = root;
        let mut walked = String::new();
        for part in parts(folder) {
            let here = self.tree(repository, tree)?;
            // git2 panics at a NUL, which no name has.
            let entry = if part.contains('\0') { None } else { here.get_name_bytes(part.as_bytes()) };
            match entry {
                Some(entry) if entry.kind() == Some(ObjectType::Tree) => tree = entry.id(),
                Some(entry) => return Ok(Descent::Other(kind_of(entry.filemode()).word())),
                None => {
                    let folders = here.iter().filter(|entry| entry.kind() == Some(ObjectType::Tree));
                    let named = folders.map(|entry| format!("{walked}{}", shown(entry.name_bytes())));
                    return Ok(Descent::Missing(named.collect()));
                }
            }
            walked.push_str(part);
            walked.push('/');
        }
        Ok(Descent::Tree(tree))
    }
}

impl EntryKind {
    /// Returns it as the thing in the place of a folder.
    #[must_use]
    pub fn replaces_folder(self) -> FolderReplacement {
        match self {
            EntryKind::File => FolderReplacement::File,
            EntryKind::Symlink => FolderReplacement::Link,
            EntryKind::Submodule => FolderReplacement::Submodule,
        }
    }

    fn word(self) -> &'static str {
        match self {
            EntryKind::File => "file",
            EntryKind::Symlink => "symbolic link",
            EntryKind::Submodule => "submodule",
        }
    }
}

enum Descent {
    Tree(Oid),
    Missing(Vec<String>),
    Other(&'static str),
}

/// A comparison under way: its position and its findings.
struct Comparison<'a> {
    mirror: &'a Mirror,
    repository: &'a Repository,
    found: Changes,
    entries: usize,
    /// The memory of the paths that were found.
    bytes: usize,
    /// The folder that is being compared, with a slash at its end; nothing for the root.
    path: String,
}

/// One entry of a tree, before it is known whether anybody wants it.
struct Raw<'tree>(TreeEntry<'tree>);

impl Raw<'_> {
    fn name(&self) -> &[u8] {
        self.0.name_bytes()
    }

    fn is_tree(&self) -> bool {
        self.0.filemode() == 0o40000
    }

    /// Orders entries as Git does: a folder stands where its name with a slash would.
    fn order(&self, other: &Raw<'_>) -> Ordering {
        let (one, two) = (self.name(), other.name());
        let common = one.len().min(two.len());
        let slash = |raw: &Raw<'_>| raw.is_tree().then_some(&b'/');
        let rests = || one[common..].iter().chain(slash(self)).cmp(two[common..].iter().chain(slash(other)));
        one[..common].cmp(&two[..common]).then_with(rests)
    }

    fn entry(&self) -> Entry {
        entry_of(&self.0)
    }

    /// Returns true when belay sees them as the same; the executable bit is ignored.
    fn is_same_as(&self, other: &Raw<'_>) -> bool {
        let is_tree = self.is_tree();
        self.0.id() == other.0.id()
            && is_tree == other.is_tree()
            && (is_tree || kind_of(self.0.filemode()) == kind_of(other.0.filemode()))
    }
}

impl<'a> Comparison<'a> {
    fn trees(&mut self, before: Option<Oid>, after: Option<Oid>, depth: usize) -> Result<(), GitError> {
        if before == after {
            return Ok(());
        }
        if depth > self.mirror.limits.depth {
            let what = format!("{} is too deep; folders inside each other", self.path);
            return Err(GitError::TooMany { what, limit: self.mirror.limits.depth });
        }
        let (before, after) = (self.tree(before)?, self.tree(after)?);
        let mut before = before.as_ref().map(entries).unwrap_or_default().into_iter().peekable();
        let mut after = after.as_ref().map(entries).unwrap_or_default().into_iter().peekable();
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(other)) => one.order(other),
            };
            let one = if order.is_le() { before.next() } else { None };
            let other = if order.is_ge() { after.next() } else { None };
            self.pair(one.as_ref(), other.as_ref(), depth)?;
        }
    }

    /// Compares two entries of one name and sort, of which one may be missing.
    fn pair(&mut self, before: Option<&Raw<'_>>, after: Option<&Raw<'_>>, depth: usize) -> Result<(), GitError> {
        if let (Some(one), Some(other)) = (before, after)
            && one.is_same_as(other)
        {
            return Ok(());
        }
        let Some(either) = before.or(after) else { return Ok(()) };
        let Ok(name) = usable(either.name(), self.path.len()) else {
            if let Some(odd) = after.and_then(|after| OddPath::of(&self.path, after.name())) {
                self.has_room_for(&odd.shown)?;
                self.found.odd.push(odd);
            }
            return Ok(());
        };
        if either.is_tree() {
            let length = self.path.len();
            self.path.push_str(name);
            self.path.push('/');
            let id = |raw: Option<&Raw<'_>>| raw.map(|raw| raw.0.id());
            self.trees(id(before), id(after), depth + 1)?;
            self.path.truncate(length);
            return Ok(());
        }
        let entry = |raw: Option<&Raw<'_>>| raw.map(Raw::entry);
        let path = format!("{}{name}", self.path);
        self.has_room_for(&path)?;
        self.found.changes.push(Change { path, before: entry(before), after: entry(after) });
        Ok(())
    }

    /// Fails when no more paths that differ may be held. Two trees of a few bytes can stand for any number of paths.
    fn has_room_for(&mut self, path: &str) -> Result<(), GitError> {
        self.bytes += size_of::<Change>() + path.len();
        if self.bytes <= self.mirror.limits.listing_bytes {
            return Ok(());
        }
        let paths = self.found.changes.len() + self.found.odd.len();
        let what = format!(
            "the difference in {} takes too much memory; follow a folder of it (path = \"…\"); paths that differ",
            if self.path.is_empty() { "/" } else { &self.path }
        );
        Err(GitError::TooMany { what, limit: paths })
    }

    fn tree(&mut self, id: Option<Oid>) -> Result<Option<Tree<'a>>, GitError> {
        let Some(id) = id else { return Ok(None) };
        let tree = self.mirror.tree(self.repository, id)?;
        self.entries += tree.len();
        if self.entries > self.mirror.limits.entries {
            let what = format!(
                "{} has too many files and folders; follow a folder of it (path = \"…\")",
                if self.path.is_empty() { "/" } else { &self.path }
            );
            return Err(GitError::TooMany { what, limit: self.mirror.limits.entries });
        }
        Ok(Some(tree))
    }
}

/// Returns the entries of a tree in Git's order.
fn entries<'tree>(tree: &'tree Tree<'_>) -> Vec<Raw<'tree>> {
    let mut entries: Vec<Raw<'_>> = tree.iter().map(Raw).collect();
    // A tree that was not made by Git may have any order, and a name twice. The last one counts.
    if !entries.is_sorted_by(|one, other| one.order(other).is_lt()) {
        entries.reverse();
        entries.sort_by(Raw::order);
        entries.dedup_by(|one, other| one.order(other).is_eq());
    }
    entries
}

/// Returns the folders of a path, without empty ones and `.`.
pub(in crate::git) fn parts(folder: &str) -> impl Iterator<Item = &str> {
    folder.split('/').filter(|part| !part.is_empty() && *part != ".")
}

pub(in crate::git) fn entry_of(entry: &TreeEntry<'_>) -> Entry {
    Entry { kind: kind_of(entry.filemode()), blob: BlobId(entry.id()) }
}

fn kind_of(mode: i32) -> EntryKind {
    match mode {
        0o120000 => EntryKind::Symlink,
        0o160000 => EntryKind::Submodule,
        _ => EntryKind::File,
    }
}
