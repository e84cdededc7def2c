//! Fetching from a repository on this machine, without a git program and without trusting it to stand still.
//!
//! libgit2 can fetch from a path, but it packs every object again and takes all branches: 11 s for 83,000 objects,
//! while copying the packs takes milliseconds. So the objects are brought over here:
//!
//! 1. The first time, the repository's packs are copied as they are. This copy is only a short cut; if it fails half
//!    way, or the repository is repacked meanwhile, nothing depends on it.
//! 2. Then every commit that is new is compared with its first parent, oldest first, and each object of it that the
//!    mirror lacks is put into one new pack. A pack is there as a whole or not at all.
//! 3. Only then are the references moved. So the objects of a reference of the mirror are complete, even if the
//!    repository changes, and even if belay is killed.
//!
//! Copies are taken, never hard links: a link would let the owner of the repository change the mirror afterwards.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use git2::{ConfigLevel, ErrorCode, ObjectType, Odb, OdbLookupFlags, Oid, Repository, RepositoryOpenFlags, Sort};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::copied_packs::copy_packs;
use super::local_files::{OPEN_TIMEOUT, check_objects, check_references, within};
use super::surplus_parents::{SURPLUS, too_many};
use crate::git::error::{GitError, while_doing, with_file};
use crate::git::mirror::damage::of_the_machine;
use crate::git::read::follow::{Follow, Offer};
use crate::git::read::limits::{Limits, REFERENCES};
use crate::systemd_unit::hidden_by_systemd;

/// The number of times that an import begins again because objects moved under it: `git gc` packs loose objects and
/// deletes them.
const ATTEMPTS: usize = 3;
/// The largest number of objects of one import, beside the packs that are copied as they are: some 300 bytes of memory
/// each.
const OBJECTS: usize = 500_000;

/// A repository on this machine, opened for reading.
pub(in crate::git) struct PackSource {
    repository: Repository,
    path: PathBuf,
}

impl PackSource {
    /// Opens it, and reads its branches and tags; only the wanted one, if that is found without reading all of them. It
    /// must be a complete one, of the user that belay runs as or declared safe, of regular files only.
    pub(in crate::git) fn look(path: &Path, follow: &Follow) -> Result<(PackSource, Offer), GitError> {
        check_references(path)?;
        let (owned, follow) = (path.to_owned(), follow.clone());
        within(OPEN_TIMEOUT, path, move || {
            let source = PackSource::open(&owned)?;
            let offer = source.offer(&follow)?;
            Ok((source, offer))
        })
    }

    fn open(path: &Path) -> Result<PackSource, GitError> {
        let flags = RepositoryOpenFlags::NO_SEARCH;
        let repository =
            Repository::open_ext(path, flags, std::iter::empty::<&Path>()).map_err(|error| refusal(path, &error))?;
        if repository.is_shallow() {
            return Err(GitError::Shallow { repository: path.display().to_string() });
        }
        Ok(PackSource { repository, path: path.to_owned() })
    }

    /// Returns true for a partial clone: objects are missing that a remote is to have.
    fn is_partial(&self) -> bool {
        let config = self.repository.config().and_then(|config| config.open_level(ConfigLevel::Local));
        let Ok(config) = config else { return false };
        let Ok(mut found) = config.entries(Some("^remote\\..*\\.promisor$")) else { return false };
        while let Some(Ok(entry)) = found.next() {
            if entry.name().is_ok_and(|name| config.get_bool(name).unwrap_or_default()) {
                return true;
            }
        }
        false
    }

    fn offer(&self, follow: &Follow) -> Result<Offer, GitError> {
        // Somebody may just be writing them.
        let reading = || {
            |error: git2::Error| GitError::Unreachable {
                repository: self.path.display().to_string(),
                message: error.message().to_owned(),
            }
        };
        let mut offer = Offer::default();
        if let Follow::Branch(branch) = follow {
            let name = format!("refs/heads/{branch}");
            let found = self.repository.find_reference(&name).and_then(|reference| reference.resolve());
            if let Some(target) = found.ok().and_then(|reference| reference.target()) {
                offer.references.insert(name, target);
                return Ok(offer);
            }
        }
        for reference in self.repository.references().map_err(reading())? {
            let reference = reference.map_err(reading())?;
            let Ok(name) = reference.name() else { continue };
            // A symbolic branch follows another one.
            let resolved = reference.resolve().ok().and_then(|resolved| resolved.target());
            if offer.references.len() == REFERENCES {
                let what = format!("{} has too many branches and tags", self.path.display());
                return Err(GitError::TooMany { what, limit: REFERENCES });
            }
            if let Some(target) = resolved {
                offer.references.insert(name.to_owned(), target);
            }
        }
        if let Ok(head) = self.repository.find_reference("HEAD")
            && let Ok(Some(target)) = head.symbolic_target()
        {
            offer.default_branch = target.strip_prefix("refs/heads/").map(str::to_owned);
        }
        Ok(offer)
    }

    /// Brings over everything that `wanted` needs. Returns how many objects were new.
    pub(in crate::git) fn import(
        mut self,
        mirror: &Repository,
        wanted: &[Oid],
        limits: &Limits,
        stop: &CancellationToken,
    ) -> Result<usize, GitError> {
        check_objects(&self.path)?;
        let known = tips(mirror)?;
        if known.is_empty() {
            let copied = copy_packs(&self.repository, mirror, limits, stop);
            if let Err(error) = copied {
                tracing::debug!(%error, "failed to copy packs; object by object then");
            }
        }
        let until = Instant::now() + limits.fetch_time;
        let mut attempt = 1;
        loop {
            let import = Import { source: &self.repository, path: &self.path, mirror, limits, until, stop };
            match import.run(&known, wanted) {
                Ok(objects) => return Ok(objects),
                Err(ImportFault::Final(error)) => return Err(error),
                Err(ImportFault::Object(error)) if of_the_machine(&error, mirror.path()).is_some() => {
                    return Err(of_the_machine(&error, mirror.path()).unwrap_or(GitError::Cancelled));
                }
                Err(ImportFault::Object(error)) if attempt == ATTEMPTS => {
                    let repository = self.path.display().to_string();
                    if self.is_partial() {
                        return Err(partial_clone(repository));
                    }
                    return Err(GitError::DamagedSource { repository, message: error.message().to_owned() });
                }
                Err(ImportFault::Object(_)) => {
                    attempt += 1;
                    check_objects(&self.path)?;
                    self = PackSource::open(&self.path)?;
                }
            }
        }
    }
}

/// The reason for which an import stopped: for good, or because an object of the repository could not be read, which
/// may only have moved.
enum ImportFault {
    Final(GitError),
    Object(git2::Error),
}

impl From<git2::Error> for ImportFault {
    fn from(error: git2::Error) -> ImportFault {
        ImportFault::Object(error)
    }
}

struct Import<'a> {
    source: &'a Repository,
    path: &'a Path,
    mirror: &'a Repository,
    limits: &'a Limits,
    until: Instant,
    stop: &'a CancellationToken,
}

impl Import<'_> {
    fn run(&self, known: &[Oid], wanted: &[Oid]) -> Result<usize, ImportFault> {
        let ours = self.mirror.odb().map_err(|error| self.failed("open the mirror", error))?;
        ours.refresh().map_err(|error| self.failed("open the mirror", error))?;
        let mut missing = Missing::new(self.source, ours);
        let mut walk = self.source.revwalk()?;
        walk.set_sorting(Sort::TOPOLOGICAL | Sort::REVERSE)?;
        let mut tips = Vec::new();
        for id in wanted {
            // A tag may stand before a tag that stands before a commit.
            let mut object = self.source.find_object(*id, None)?;
            while let Some(tag) = object.as_tag() {
                missing.add(tag.id());
                object = tag.target()?;
            }
            if object.kind() == Some(ObjectType::Commit) {
                walk.push(object.id())?;
                tips.push(object.id());
            }
        }
        // Nothing is known at first: packs were copied, with whatever is in them.
        let is_known = |id: Oid| !known.is_empty() && missing.ours.exists_ext(id, OdbLookupFlags::NO_REFRESH);
        if let Some(commit) = too_many(self.source, &tips, is_known, SURPLUS)? {
            let what =
                format!("parents, two for each commit not counted, up to commit {commit} of {}", self.path.display());
            return Err(ImportFault::Final(GitError::TooMany { what, limit: SURPLUS }));
        }
        let theirs = self.source.odb()?;
        for tip in known.iter().filter(|tip| theirs.exists(**tip)) {
            if self.source.find_commit(*tip).is_ok() {
                walk.hide(*tip)?;
            }
        }
        for id in walk {
            // More than one commit brings is not gathered before it is refused.
            if missing.objects.len() > OBJECTS {
                break;
            }
            if let Some(over) = self.over() {
                return Err(ImportFault::Final(over));
            }
            let commit = self.source.find_commit(id?)?;
            let parent = commit.parent_ids().next();
            let before = parent.map(|parent| self.source.find_commit(parent)).transpose()?;
            missing.tree(commit.tree_id(), before.map(|commit| commit.tree_id()))?;
            missing.add(commit.id());
        }
        if missing.objects.len() > OBJECTS {
            let what = format!("the objects of {} that are new", self.path.display());
            return Err(ImportFault::Final(GitError::TooMany { what, limit: OBJECTS }));
        }
        self.pack(&missing.objects)?;
        Ok(missing.objects.len())
    }

    fn pack(&self, objects: &[(Oid, Option<String>)]) -> Result<(), ImportFault> {
        if objects.is_empty() {
            return Ok(());
        }
        // By a handle of its own on the mirror, whose configuration bounds the memory that packing takes. It sees the
        // objects of the source, too, and is not used for anything else.
        let packing =
            Repository::open_bare(self.mirror.path()).map_err(|error| self.failed("open the mirror", error))?;
        let both = packing.odb().map_err(|error| self.failed("open the mirror", error))?;
        if let Some(folder) = self.source.commondir().join("objects").to_str() {
            both.add_disk_alternate(folder)?;
        }
        let mut builder = packing.packbuilder()?;
        for (id, name) in objects {
            builder.insert_object(*id, name.as_deref())?;
        }
        let folder = self.mirror.path().join("objects/pack");
        fs::create_dir_all(&folder)
            .map_err(|error| ImportFault::Final(with_file("make the folder", folder.clone())(error)))?;
        builder.set_progress_callback(|_, _, _| self.over().is_none())?;
        builder
            .write(&folder, 0o444)
            .map_err(|error| self.over().map_or(ImportFault::Object(error), ImportFault::Final))?;
        let odb = self.mirror.odb().map_err(|error| self.failed("open the mirror", error))?;
        odb.refresh().map_err(|error| self.failed("open the mirror", error))
    }

    /// Returns why it is to be given up.
    fn over(&self) -> Option<GitError> {
        if self.stop.is_cancelled() {
            return Some(GitError::Cancelled);
        }
        let repository = self.path.display().to_string();
        (Instant::now() >= self.until).then_some(GitError::TooSlow { repository, after: self.limits.fetch_time })
    }

    fn failed(&self, doing: &str, error: git2::Error) -> ImportFault {
        ImportFault::Final(while_doing(format!("{doing} of {}", self.path.display()))(error))
    }
}

/// Collects what the mirror lacks.
pub(super) struct Missing<'a> {
    source: &'a Repository,
    ours: Odb<'a>,
    seen: HashSet<Oid>,
    /// Each with a name that lets similar ones stand together in the pack.
    objects: Vec<(Oid, Option<String>)>,
}

impl<'a> Missing<'a> {
    /// Nothing yet, of what is in `source` and not in `ours`.
    pub(super) fn new(source: &'a Repository, ours: Odb<'a>) -> Missing<'a> {
        Missing { source, ours, seen: HashSet::new(), objects: Vec::new() }
    }

    /// The first that was found.
    pub(super) fn first(&self) -> Option<Oid> {
        self.objects.first().map(|(id, _)| *id)
    }

    fn add(&mut self, id: Oid) {
        self.add_named(id, None);
    }

    fn add_named(&mut self, id: Oid, name: Option<String>) {
        // Without a refresh: the mirror is locked, nobody else adds to it.
        if self.seen.insert(id) && !self.ours.exists_ext(id, OdbLookupFlags::NO_REFRESH) {
            self.objects.push((id, name));
        }
    }

    /// Adds what is in a tree and not in the one that the first parent had in its place; of that all is there already.
    /// The existence of a tree says nothing about what is in it: a copied pack may hold what no branch leads to.
    pub(super) fn tree(&mut self, root: Oid, before: Option<Oid>) -> Result<(), git2::Error> {
        let mut stack = vec![(root, before)];
        while let Some((id, before)) = stack.pop() {
            if before == Some(id) || self.seen.contains(&id) {
                continue;
            }
            let before = before.map(|before| self.source.find_tree(before)).transpose()?;
            for (number, entry) in self.source.find_tree(id)?.iter().enumerate() {
                // Mostly the same entry stands in the same place.
                let there = before.as_ref().and_then(|tree| tree.get(number));
                if there.is_some_and(|there| there.id() == entry.id() && there.name_bytes() == entry.name_bytes()) {
                    continue;
                }
                let old = before.as_ref().and_then(|tree| tree.get_name_bytes(entry.name_bytes()));
                if old.as_ref().is_some_and(|old| old.id() == entry.id()) {
                    continue;
                }
                match entry.kind() {
                    Some(ObjectType::Tree) => {
                        let old = old.filter(|old| old.kind() == Some(ObjectType::Tree));
                        stack.push((entry.id(), old.map(|old| old.id())));
                    }
                    Some(ObjectType::Blob) => {
                        self.add_named(entry.id(), entry.name().ok().map(str::to_owned));
                    }
                    // The commit of a submodule is in another repository.
                    _ => {}
                }
            }
            self.add_named(id, None);
        }
        Ok(())
    }
}

/// What the references of the mirror lead to; all of it is complete.
pub(super) fn tips(mirror: &Repository) -> Result<Vec<Oid>, GitError> {
    let reading = || while_doing("read the references of the mirror");
    let mut tips = Vec::new();
    for reference in mirror.references().map_err(reading())? {
        tips.extend(reference.map_err(reading())?.target());
    }
    Ok(tips)
}

fn partial_clone(repository: String) -> GitError {
    let what = "it is a partial clone, in which objects are missing; follow the repository that it was cloned from";
    GitError::Unsupported { repository, what: what.to_owned() }
}

fn refusal(path: &Path, error: &git2::Error) -> GitError {
    let (path, message) = (path.to_owned(), error.message());
    let repository = path.display().to_string();
    if let Some(why) = hidden_by_systemd(&path).filter(|_| fs::read_dir(&path).is_err()) {
        return GitError::NoRepository { path, why };
    }
    match error.code() {
        ErrorCode::Owner => GitError::ForeignOwner { path },
        ErrorCode::NotFound if !path.exists() => GitError::NoRepository { path, why: "nothing is there".to_owned() },
        ErrorCode::NotFound => {
            let why = if path.is_dir() { "the folder is not a repository" } else { "it is not a folder" };
            GitError::NoRepository { path, why: why.to_owned() }
        }
        _ if message.contains("partialclone") => partial_clone(repository),
        _ if message.contains("refstorage") => GitError::Unsupported {
            repository,
            what: "it keeps its branches in a reftable; change it with: git refs migrate --ref-format=files".to_owned(),
        },
        _ if message.contains("objectformat") || message.contains("object format") => {
            GitError::Unsupported { repository, what: "its ids are SHA-256; belay knows SHA-1 repositories".to_owned() }
        }
        _ if message.contains("extension") => GitError::Unsupported { repository, what: message.to_owned() },
        _ => GitError::NoRepository { path, why: message.to_owned() },
    }
}
