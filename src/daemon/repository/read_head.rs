//! Reads a new head: the manifests that differ from the commit that was planned last, and the commits that are charged
//! with them. Everything here blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::desired_state::{DesiredState, HeadFiles, ReadFile};
use super::head_change::{HeadChange, Known, SuspectHead};
use super::head_reading::HeadReading;
use super::lost_folder::LostFolderFacts;
use super::source_repository::Repository;
use super::units::{Content, SourceChange, SourceChanges};
use crate::blocking::turn_to_read;
use crate::daemon::shared::blocking_pool::helper;
use crate::daemon::shared::cleanup::Pruning;
use crate::daemon::shared::panics::{contained_now, internal_error};
use crate::git::{Entry, EntryKind, GitError, OddPath, Relation};
use belay_core::manifest::yaml::Limits;
use belay_core::manifest::{Complaint, File, Manifest, NotRead, ObjectKey, Place, Scopes, is_manifest, read_file};
use belay_core::rollout::{CommitId, allowed_by_trailer};

/// The most memory that the manifests of a head may take that are read at once, in bytes: some 25,000 small ones.
const HELD: usize = 64 << 20;

/// The approximate size in bytes of a file besides its manifests: its differences, its path and key in several lists.
const FILE: usize = 1 << 10;

/// The most commits whose arrival is noted at once, the newest of those that came.
const ARRIVALS: usize = 1000;

/// The fewest files for which a thread is worth its start.
const SHARE: usize = 200;

/// The file at a path after a change; `None` if the file is gone.
type Placed = (Arc<str>, Option<ReadFile>);

impl Repository {
    /// Returns the manifest of an object at the head.
    pub fn manifest(&self, key: &ObjectKey) -> Result<Option<Manifest>, GitError> {
        self.desired().manifest(key, |path, content, scopes| self.read_lately(path, content, scopes))
    }

    /// Returns the change from the commit that was planned last to `head`. Only files that differ from the desired
    /// state at `known` are read for it.
    ///
    /// `complained` are the paths that an earlier run complained about. A suspect change is not taken up, unless the options of belay or the head's own commit allow deletions.
    pub fn news(
        &self,
        known: &Arc<DesiredState>,
        planned: Option<&CommitId>,
        head: &CommitId,
        pruning: Pruning,
        complained: &BTreeSet<String>,
    ) -> Result<HeadChange, GitError> {
        let _attempt = self.mirror.attempt();
        let mut for_desired = self.changes(known.at.as_ref(), head)?;
        let mut again = self.units_to_try_again(head)?;
        again.retain(|again| for_desired.changes.iter().all(|change| change.path != again.path));
        for_desired.changes.extend(again);
        self.keep_plan(head)?;
        self.render_changed(head, &for_desired.changes)?;
        let mut files = self.files(&for_desired.changes, &known.scopes)?;
        let odd_file_of = |odd: &OddPath| Some(ReadFile { file: odd_file(odd).into(), content: None });
        files.extend(for_desired.odd.iter().map(|odd| (odd.shown.as_str().into(), odd_file_of(odd))));
        let is_planned = known.at.as_ref() == planned;
        let since_plan = if is_planned { None } else { Some(self.changes(planned, head)?) };
        let lost = LostFolderFacts {
            known,
            changes: &for_desired.changes,
            since_plan: since_plan.as_ref().map_or(&[], |since| &since.changes),
            complained,
        };
        files.extend(lost.files());
        let before = match known.at {
            Some(_) if is_planned => known_objects(known, &for_desired),
            _ => Known::new(),
        };
        let SourceChanges { changes: for_plan, odd } = since_plan.unwrap_or(for_desired);
        let suspect = match self.suspect(known, &files, &for_plan, planned, head) {
            Some(_) if pruning == Pruning::Unlimited || self.is_meant(head)? => None,
            suspect => suspect,
        };
        let mut desired = Arc::clone(known);
        if suspect.is_none() {
            let read = |path: &str, content, scopes: &Scopes| self.read(path, content, scopes);
            let next = known.changed_to(head.clone(), read, files)?;
            (desired, files) = (Arc::new(next.0), next.1);
            self.units.set_unread(pending_units(&files));
        }
        let scopes = Arc::clone(&desired.scopes);
        // The desired state took these up with a head whose plan was given up for this one.
        for change in for_plan.iter().filter(|_| suspect.is_none()) {
            if !files.contains_key(change.path.as_str()) {
                files.extend(self.file(change, &scopes)?);
            }
        }
        let mut reading = HeadReading::new(self, &scopes, head);
        reading.has_read(&files);
        let mut news = HeadChange {
            head: reading.commit(head)?,
            since: planned.cloned(),
            desired,
            commits: Vec::new(),
            paths: for_plan.iter().map(|change| change.path.clone()).collect(),
            changed: Vec::new(),
            complaints: Vec::new(),
            removed: BTreeMap::new(),
            warnings: self.warnings(head)?,
            suspect,
            let_through: None,
            fetch: None,
        };
        news.paths.extend(rendered_places(&for_plan, &files));
        if suspect.is_none() {
            reading.compare(&for_plan, &files, &before, planned, &mut news)?;
            for complaint in odd.iter().flat_map(|odd| odd_file(odd).complaints) {
                news.complaints.push((complaint, reading.commit(head)?));
            }
        }
        self.unless_given_up(head)?;
        for id in self.mirror.between(planned, head, ARRIVALS)? {
            news.commits.push((*reading.commit(&id)?).clone());
        }
        Ok(news)
    }

    /// Returns the reason for suspicion: nothing is left of a repository that had objects, or none of its former
    /// objects.
    fn suspect(
        &self,
        known: &DesiredState,
        files: &HeadFiles,
        for_plan: &[SourceChange],
        planned: Option<&CommitId>,
        head: &CommitId,
    ) -> Option<SuspectHead> {
        let is_manifests = |change: &&SourceChange| change.is_manifest;
        let mut gone = for_plan.iter().filter(is_manifests);
        let kept = known.paths().any(|path| !files.contains_key(path));
        if kept || !gone.any(|change| change.before.is_some() && change.after.is_none()) {
            return None;
        }
        let holds = |read: &ReadFile| !read.file.manifests.is_empty() || !read.file.complaints.is_empty();
        if !files.values().flatten().any(holds) {
            return Some(SuspectHead::Emptied);
        }
        let new: BTreeSet<&str> = for_plan
            .iter()
            .filter(is_manifests)
            .filter(|change| change.before.is_none())
            .map(|change| change.path.as_str())
            .collect();
        let strange = files.iter().all(|(path, file)| file.is_none() || new.contains(&**path));
        let related = || self.mirror.relation(planned?, head).ok();
        (strange && related() == Some(Relation::Rewritten(None))).then_some(SuspectHead::Replaced)
    }

    /// Returns true when the head's own commit allows deletions.
    fn is_meant(&self, head: &CommitId) -> Result<bool, GitError> {
        Ok(allowed_by_trailer(&[self.mirror.commit(head)?]).is_some())
    }

    /// Returns the files at the places of all changes, as they are after them. Many are read on several threads.
    fn files(&self, changes: &[SourceChange], scopes: &Scopes) -> Result<HeadFiles, GitError> {
        let share = changes.len().div_ceil(self.blocking_pool.threads()).max(SHARE);
        let held = AtomicUsize::new(0);
        let read = &|changes: &[SourceChange]| -> Result<HeadFiles, GitError> {
            let files = changes.iter().filter_map(|change| self.file(change, scopes).transpose());
            files.map(|placed| placed.and_then(|placed| self.has_room_for(placed, &held))).collect()
        };
        let Some((own, others)) = changes.split_at_checked(share) else { return read(changes) };
        std::thread::scope(|scope| {
            let help = |changes| (changes, helper(scope, move || read(changes)));
            let others: Vec<_> = others.chunks(share).map(help).collect();
            let mut files = read(own);
            for (changes, helper) in others {
                let more = match helper {
                    Some(helper) => helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                    None => read(changes),
                };
                files = files.and_then(|mut files| {
                    files.append(&mut more?);
                    Ok(files)
                });
            }
            files
        })
    }

    /// Returns a file, unless it and those before it take more memory than belay gives the manifests of a head.
    fn has_room_for(&self, placed: Placed, held: &AtomicUsize) -> Result<Placed, GitError> {
        let size = |read: &ReadFile| read.file.manifests.iter().map(Manifest::size).sum::<usize>();
        let size = placed.1.as_ref().map_or(0, size) + FILE;
        let all = held.fetch_add(size, Ordering::Relaxed) + size;
        if all <= HELD {
            return Ok(placed);
        }
        let what = format!(
            "the changed manifests below {:?}, {} among them, are more than belay reads at once: split the change into several \
             sources (path = \"…\"), or into several commits; it",
            self.folder, placed.0
        );
        Err(GitError::TooLarge { what, size: all as u64, limit: HELD as u64 })
    }

    /// Returns the file at the place of a change, as it is after it. `None` for a path that is no manifest's.
    fn file(&self, change: &SourceChange, scopes: &Scopes) -> Result<Option<Placed>, GitError> {
        if !change.is_manifest {
            return Ok(None);
        }
        let path: Arc<str> = change.path.as_str().into();
        let read = match change.after {
            None => return Ok(Some((path, None))),
            Some(content @ (Content::Rendered(_) | Content::Entry(Entry { kind: EntryKind::File, .. }))) => {
                ReadFile { file: self.read(&change.path, content, scopes)?.into(), content: Some(content) }
            }
            Some(Content::Entry(Entry { kind: EntryKind::Symlink, .. })) => {
                let what = if is_manifest(&change.path) { NotRead::Link } else { NotRead::LinkedFolder };
                ReadFile { file: complained(what.complaint(&path)).into(), content: None }
            }
            Some(Content::Entry(Entry { kind: EntryKind::Submodule, .. })) => {
                ReadFile { file: complained(NotRead::Submodule.complaint(&path)).into(), content: None }
            }
        };
        Ok(Some((path, Some(read))))
    }

    /// Returns one file, or a unit's rendering, for questions about single objects of it: one after another, they read
    /// it once.
    pub fn read_lately(&self, path: &str, content: Content, scopes: &Arc<Scopes>) -> Result<Arc<File>, GitError> {
        self.read_files.get(path, content, scopes, || self.read(path, content, scopes))
    }

    /// Reads and parses one file, or a unit's rendering.
    pub fn read(&self, path: &str, content: Content, scopes: &Scopes) -> Result<File, GitError> {
        let _attempt = self.mirror.attempt();
        let blob = match content {
            Content::Entry(entry) => entry.blob,
            Content::Rendered(id) => return self.read_rendered(path, id, scopes),
        };
        let limit = Limits::default().file_bytes;
        match self.mirror.read(blob, limit as u64) {
            Ok(bytes) => {
                let _turn = turn_to_read(bytes.len());
                Ok(contained_now(|| read_file(path, &bytes, scopes)).unwrap_or_else(|panic| {
                    let reason = internal_error(&path, &panic);
                    refused(&path.into(), &format!("can't be read: {}", reason.message), "leave it out for now")
                }))
            }
            Err(GitError::TooLarge { size, .. }) => {
                let message = format!("has {size} bytes, and belay reads files of up to {limit}");
                Ok(refused(
                    &path.into(),
                    &message,
                    "split it, or keep it out: belay passes over names that begin with . or _",
                ))
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the desired state's objects of the files that differ, so that their former contents need not be read.
fn known_objects(desired: &DesiredState, changes: &SourceChanges) -> Known {
    let paths = changes.changes.iter().map(|change| change.path.as_str());
    paths.filter_map(|path| Some((path.to_owned(), desired.known(path)?))).collect()
}

/// Returns the paths of units that are not rendered yet: nothing can be read of them, and nothing is wrong with them.
fn pending_units(files: &HeadFiles) -> BTreeSet<Arc<str>> {
    let is_pending = |read: &Option<ReadFile>| {
        read.as_ref().is_some_and(|read| read.file.unreadable && read.file.complaints.is_empty())
    };
    files.iter().filter(|(_, read)| is_pending(read)).map(|(path, _)| Arc::clone(path)).collect()
}

/// Returns the files that the objects and complaints of units come from, if those changed.
fn rendered_places(changes: &[SourceChange], files: &HeadFiles) -> BTreeSet<String> {
    let changed = changes.iter().filter(|change| change.is_rendered());
    let read = changed.filter_map(|change| files.get(change.path.as_str())?.as_ref());
    let places = read.flat_map(|read| {
        let manifests = read.file.manifests.iter().map(|manifest| &manifest.place);
        manifests.chain(read.file.complaints.iter().map(|complaint| &complaint.place))
    });
    places.map(|place| place.path.to_string()).collect()
}

fn odd_file(odd: &OddPath) -> File {
    complained(odd.complaint())
}

/// Returns a file that is not read.
fn refused(path: &Arc<str>, message: &str, hint: &str) -> File {
    let place = Place { path: Arc::clone(path), line: 1, column: 1 };
    complained(Complaint::of_file(place, format!("the file {message}"), Some(hint.to_owned())))
}

/// Returns a file that holds nothing but a complaint.
fn complained(complaint: Complaint) -> File {
    File::unreadable(Arc::clone(&complaint.place.path), vec![complaint])
}
