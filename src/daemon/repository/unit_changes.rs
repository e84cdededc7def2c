//! The changes of a commit to the units of a source, and to their renderings.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tracing::{Span, info, warn};

use super::head_reading::HeadReading;
use super::source_repository::Repository;
use super::units::{Content, SourceChange, SourceChanges};
use crate::daemon::shared::blocking_pool::BlockingPool;
use crate::daemon::shared::commit_tree::CommitTree;
use crate::daemon::shared::panics::contained_now;
use crate::git::{Change, Entry, EntryKind, GitError};
use crate::render::{
    IGNORE_FILE, Plan, RenderId, Tree as _, Unit, UnitWarning, below, ignoring_above, leads_to_manifests,
};
use belay_core::manifest::{File, ManifestHash, ObjectKey, Scopes, is_manifest, is_passed_over};
use belay_core::rollout::{Commit, CommitId};

/// The number of commits that are searched for the newest that changed a unit's rendering.
const COMMITS: usize = 50;

impl Repository {
    /// Returns the units that a commit has.
    pub fn plan_at(&self, at: &CommitId) -> Result<Arc<Plan>, GitError> {
        if let Some(plan) = self.units.planned(at) {
            return Ok(plan);
        }
        let _attempt = self.mirror.attempt();
        let plan = Arc::new(self.units.renderer.plan(&CommitTree::new(&self.mirror, at), &self.folder)?);
        self.units.remember(at, &plan);
        Ok(plan)
    }

    /// Remembers the units of the commit that is followed for as long as it is.
    pub fn keep_plan(&self, head: &CommitId) -> Result<(), GitError> {
        let plan = self.plan_at(head)?;
        self.units.plans().head = Some((head.clone(), plan));
        Ok(())
    }

    /// Returns the warnings about the units, by the path of the file.
    pub fn warnings(&self, head: &CommitId) -> Result<BTreeMap<String, String>, GitError> {
        let plan = self.plan_at(head)?;
        let _attempt = self.mirror.attempt();
        let warnings = self.units.renderer.warnings(&CommitTree::new(&self.mirror, head), &plan)?;
        let told = |warning: UnitWarning| {
            (warning.place.path.to_string(), format!("{} ({})", warning.message, warning.advice))
        };
        Ok(warnings.into_iter().map(told).collect())
    }

    /// Returns the differences in the source's folder between two commits; everything is new if `from` is `None`.
    pub fn changes(&self, from: Option<&CommitId>, to: &CommitId) -> Result<SourceChanges, GitError> {
        let _attempt = self.mirror.attempt();
        let changes = self.mirror.changes(from, to, &self.folder)?;
        self.has_all_folders(to)?;
        // If no kustomization, no chart and no .belayignore comes or goes, a commit has none because another has none.
        let same = !changes.changes.iter().any(|change| Unit::may_change_with(&change.path));
        let same = same && !self.is_ignored_from_above(to)?;
        let same = same && !from.map_or(Ok(false), |from| self.is_ignored_from_above(from))?;
        let bare =
            |at: Option<&CommitId>| at.and_then(|at| self.units.planned(at)).filter(|plan| same && plan.is_empty());
        let after = match bare(from) {
            Some(bare) if self.units.planned(to).is_none() => {
                self.units.remember(to, &bare);
                bare
            }
            _ => self.plan_at(to)?,
        };
        let before = match from {
            None => Arc::default(),
            Some(from) if same && after.is_empty() => {
                if self.units.planned(from).is_none() {
                    self.units.remember(from, &after);
                }
                Arc::clone(&after)
            }
            Some(from) => self.plan_at(from)?,
        };
        let mut found = SourceChanges::default();
        found.odd.extend(changes.odd.into_iter().filter(|odd| !after.covers(&odd.shown)));
        if before.leaves_the_same(&after) {
            let left = changes.changes.into_iter().filter(|change| !after.covers(&change.path));
            let entry = |entry: Option<Entry>| entry.map(Content::Entry);
            let change =
                |Change { path, before, after }| self.plain_change(from, to, path, (entry(before), entry(after)));
            found.changes = left.map(change).collect::<Result<_, _>>()?;
        } else {
            found.changes = self.plain_between(from.map(|from| (from, &*before)), (to, &after))?;
        }
        let paths: BTreeSet<&Arc<str>> = before.units.keys().chain(after.units.keys()).collect();
        for path in paths {
            let id = |plan: &Plan| plan.units.get(path).map(|unit| Content::Rendered(unit.id));
            let (before, after) = (id(&before), id(&after));
            if before != after {
                found.changes.push(SourceChange { path: path.to_string(), before, after, is_manifest: true });
            }
        }
        found.changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    /// Checks that none of several folders is missing. A single one that is missing is an error where it is read.
    fn has_all_folders(&self, at: &CommitId) -> Result<(), GitError> {
        match self.paths.is_one_folder() {
            true => Ok(()),
            false => CommitTree::new(&self.mirror, at).has_all_folders(&self.paths),
        }
    }

    /// Returns true when a folder above the source's helps decide which files count: its changes are not among the
    /// source's changes.
    fn is_ignored_from_above(&self, at: &CommitId) -> Result<bool, GitError> {
        let tree = CommitTree::new(&self.mirror, at);
        for above in ignoring_above(&self.folder) {
            if tree.node(&below(above, IGNORE_FILE))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the plain files that differ where a folder became a unit, or is none any more.
    fn plain_between(
        &self,
        from: Option<(&CommitId, &Plan)>,
        (to, after): (&CommitId, &Plan),
    ) -> Result<Vec<SourceChange>, GitError> {
        let files = |at: &CommitId, plan: &Plan| -> Result<BTreeMap<String, Content>, GitError> {
            let files = match self.mirror.files(at, &self.folder) {
                Ok(files) => files.files,
                Err(GitError::NoFolder { .. } | GitError::NotAFolder { .. }) => Vec::new(),
                Err(error) => return Err(error),
            };
            let left = files.into_iter().filter(|(path, _)| !plan.covers(path));
            Ok(left.map(|(path, entry)| (path, Content::Entry(entry))).collect())
        };
        let before = from.map(|(from, before)| files(from, before)).transpose()?.unwrap_or_default();
        let after = files(to, after)?;
        let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let differs = paths.into_iter().filter(|path| before.get(*path) != after.get(*path));
        let sides = |path: &String| (before.get(path).copied(), after.get(path).copied());
        let from = from.map(|(from, _)| from);
        differs.map(|path| self.plain_change(from, to, path.clone(), sides(path))).collect()
    }

    /// Returns a change of Git's entry at a path.
    fn plain_change(
        &self,
        from: Option<&CommitId>,
        to: &CommitId,
        path: String,
        (before, after): (Option<Content>, Option<Content>),
    ) -> Result<SourceChange, GitError> {
        let inside = path.strip_prefix(&self.folder).unwrap_or(&path).trim_start_matches('/');
        let is_manifest = is_manifest(inside)
            || !is_passed_over(inside)
                && (from.map_or(Ok(false), |from| self.is_linked_folder(from, &path, before))?
                    || self.is_linked_folder(to, &path, after)?);
        Ok(SourceChange { path, before, after, is_manifest })
    }

    /// Returns true when a path is that of a link to a folder with manifests.
    fn is_linked_folder(&self, at: &CommitId, path: &str, content: Option<Content>) -> Result<bool, GitError> {
        match content {
            Some(Content::Entry(Entry { kind: EntryKind::Symlink, .. })) => {
                leads_to_manifests(&CommitTree::new(&self.mirror, at), path)
            }
            _ => Ok(false),
        }
    }

    /// Returns the units that were in the way and may not be any more, and those that an older reading did not wait
    /// for, as if they were new.
    pub fn units_to_try_again(&self, head: &CommitId) -> Result<Vec<SourceChange>, GitError> {
        let (again, unread) = (self.units.again.swap(false, Ordering::Relaxed), self.units.unread());
        if !again && unread.is_empty() {
            return Ok(Vec::new());
        }
        let plan = self.plan_at(head)?;
        let is_tried = |unit: &&Unit| unread.contains(&unit.path) || again && !self.units.renderer.is_known(unit);
        let unknown = plan.units.values().filter(is_tried);
        let change = |unit: &Unit| SourceChange {
            path: unit.path.to_string(),
            before: None,
            after: Some(Content::Rendered(unit.id)),
            is_manifest: true,
        };
        Ok(unknown.map(change).collect())
    }

    /// Renders the units of these changes, several at once, and gives up the rendering for another head. A rendering
    /// that takes longer than a head waits goes on, and is read when it is done.
    pub fn render_changed(&self, to: &CommitId, changes: &[SourceChange]) -> Result<(), GitError> {
        let _turn = self.units.renderer.begin(to.as_str());
        if !changes.iter().any(SourceChange::is_rendered) {
            return Ok(());
        }
        let plan = self.plan_at(to)?;
        let rendered = changes.iter().filter(|change| change.is_rendered());
        let units = rendered.filter_map(|change| plan.units.get(change.path.as_str()));
        let units = units.filter(|unit| !self.units.renderer.is_known(unit)).cloned().collect();
        let units = self.units.without_late(units);
        match self.blocking_pool {
            _ if units.is_empty() => {}
            BlockingPool::InTurn(_) => self.render(to, &units)?,
            BlockingPool::Threads(_) => self.render_beside(to, units)?,
        }
        self.unless_given_up(to)
    }

    fn render(&self, at: &CommitId, units: &[Unit]) -> Result<(), GitError> {
        let units: Vec<&Unit> = units.iter().collect();
        self.units.renderer.prepare(&CommitTree::new(&self.mirror, at), &units)
    }

    /// Renders units on a thread of its own, which is waited for only so long.
    fn render_beside(&self, at: &CommitId, units: Vec<Unit>) -> Result<(), GitError> {
        let units: Arc<[Unit]> = units.into();
        let (repository, commit, rendered) = (self.clone(), at.clone(), Arc::clone(&units));
        let (send, done) = mpsc::channel();
        let span = Span::current();
        let work = move || {
            let _in = span.enter();
            let _attempt = repository.mirror.attempt();
            let result = contained_now(|| repository.render(&commit, &rendered));
            // Nobody may be waiting any more: then the loop hears when they are read.
            drop(send.send(result));
            repository.units.end_late(&rendered);
        };
        let started = thread::Builder::new().name("render".to_owned()).spawn(work);
        if let Err(error) = started {
            warn!(%error, "failed to start a thread: the units are rendered here");
            return self.render(at, &units);
        }
        let result = done.recv_timeout(self.units.patience).ok();
        match result.or_else(|| self.units.leave_late(&units, || done.try_recv().ok())) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(Box::new(panic)),
            None => {
                info!(commit = at.short(), "some units take long to render: the rest is rolled out meanwhile");
                Ok(())
            }
        }
    }

    /// Fails when a newer head is read by now instead of this one.
    pub fn unless_given_up(&self, head: &CommitId) -> Result<(), GitError> {
        match self.units.renderer.has_turn(head.as_str()) {
            true => Ok(()),
            false => Err(GitError::GivenUp { commit: head.clone() }),
        }
    }

    /// Renders a unit of an older commit, if that is not known, within the time that is left. Returns whether it is
    /// known.
    pub fn is_rendered_in_time(&self, path: &str, id: RenderId, left: &Cell<Duration>) -> Result<bool, GitError> {
        let Some((commit, unit)) = self.units.find(path, id) else { return Ok(true) };
        let mut time = left.get();
        let tree = CommitTree::new(&self.mirror, &commit);
        let is_known = self.units.renderer.renders_within(&tree, &unit, &mut time)?;
        left.set(time);
        Ok(is_known)
    }

    /// Returns the objects of a unit's rendering.
    pub fn read_rendered(&self, path: &str, id: RenderId, scopes: &Scopes) -> Result<File, GitError> {
        if self.units.is_late(id) {
            return Ok(File::unreadable(path.into(), Vec::new()));
        }
        let Some((commit, unit)) = self.units.find(path, id) else {
            // The inputs of a unit are known only for commits that have been asked about it.
            return Ok(File::unreadable(path.into(), Vec::new()));
        };
        self.units.renderer.file(&CommitTree::new(&self.mirror, &commit), &unit, scopes)
    }
}

impl HeadReading<'_> {
    /// Returns the newest commit up to `head` that changed a unit's rendering of an object. If an object need not be
    /// distinguished from its unit, returns the newest that changed the unit's sources.
    pub fn charge_unit(
        &mut self,
        path: &str,
        key: Option<&ObjectKey>,
        head: &CommitId,
    ) -> Result<Arc<Commit>, GitError> {
        let now = self.unit_at(path, head)?;
        let object = key.map(|key| self.object_in(path, now, key)).transpose()?.flatten();
        let mut at = head.clone();
        for _ in 0..COMMITS {
            let commit = self.commit(&at)?;
            let mut same = None;
            for parent in &commit.parents {
                let before = match self.unit_at(path, parent) {
                    Ok(before) => before,
                    // A commit that the mirror does not hold was not followed here.
                    Err(GitError::NoCommit { .. }) => None,
                    Err(error) => return Err(error),
                };
                let is_same = before == now
                    || match (key, &object) {
                        (Some(key), Some(object)) => self.object_in(path, before, key)?.as_ref() == Some(object),
                        _ => false,
                    };
                if is_same {
                    same = Some(parent.clone());
                    break;
                }
            }
            match same {
                Some(parent) => at = parent,
                None => return Ok(commit),
            }
        }
        self.commit(head)
    }

    fn unit_at(&self, path: &str, at: &CommitId) -> Result<Option<RenderId>, GitError> {
        Ok(self.repository.plan_at(at)?.units.get(path).map(|unit| unit.id))
    }

    /// Returns a unit's rendering of an object. `None` if that would take longer than is left for older commits.
    fn object_in(
        &self,
        path: &str,
        unit: Option<RenderId>,
        key: &ObjectKey,
    ) -> Result<Option<Option<ManifestHash>>, GitError> {
        let Some(id) = unit else { return Ok(Some(None)) };
        let Some(file) = self.side(path, Some(&Content::Rendered(id)))? else { return Ok(None) };
        Ok(Some(file.manifests.iter().find(|manifest| manifest.key == *key).map(|manifest| manifest.hash)))
    }
}
