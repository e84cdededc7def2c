//! The folders of a source that are rendered: their facts by commit.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::daemon::shared::source_dependency::LookRequest;
use crate::git::{Entry, EntryKind, OddPath};
use crate::render::{Capabilities, Plan, RenderId, Renderer, Unit, are_patterns_too_many};
use belay_core::rollout::CommitId;

/// The number of commits whose units are remembered.
const PLANS: usize = 128;

/// The most paths of units that are remembered for other commits than the one that is followed.
const PATHS: usize = 200_000;

/// The longest wait of a head for its units by default. A unit that takes longer follows when it is rendered.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The rendering of a source.
#[derive(Clone)]
pub struct Units {
    pub renderer: Arc<Renderer>,
    plans: Arc<Mutex<Plans>>,
    /// True when units that could not be rendered are to be rendered again, for the cause may be gone.
    pub again: Arc<AtomicBool>,
    /// The longest wait of a head for its units.
    pub patience: Duration,
    late: Arc<Mutex<PendingUnits>>,
    /// Requests a fetch as soon as they are done.
    look: LookRequest,
}

/// Units that take longer than their head waits for: they are rendered while the rest of it is rolled out.
#[derive(Default)]
struct PendingUnits {
    /// Those that are being rendered.
    rendering: BTreeSet<RenderId>,
    /// The paths of those that are still to be read.
    unread: BTreeSet<Arc<str>>,
}

#[derive(Default)]
pub struct Plans {
    /// Those of the commit that is followed, whatever else is asked.
    pub head: Option<(CommitId, Arc<Plan>)>,
    others: VecDeque<(CommitId, Arc<Plan>)>,
}

/// The content from which a file of a source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// Git's entry at its path.
    Entry(Entry),
    /// A unit's rendering.
    Rendered(RenderId),
}

/// A path at which something differs between two commits.
#[derive(Clone, Debug)]
pub struct SourceChange {
    /// The path of a file; for a unit, its name.
    pub path: String,
    pub before: Option<Content>,
    pub after: Option<Content>,
    /// True when it may hold manifests.
    pub is_manifest: bool,
}

/// The differences between two commits.
#[derive(Debug, Default)]
pub struct SourceChanges {
    pub changes: Vec<SourceChange>,
    /// The new or changed files whose paths can't be used.
    pub odd: Vec<OddPath>,
}

impl SourceChange {
    /// Returns true when it is a unit's.
    pub fn is_rendered(&self) -> bool {
        [self.before, self.after].iter().any(|content| matches!(content, Some(Content::Rendered(_))))
    }
}

impl Content {
    /// Returns a file that can be read; a link and a submodule are none.
    pub fn readable(content: Option<&Content>) -> Option<Content> {
        content.copied().filter(|content| match content {
            Content::Entry(entry) => entry.kind == EntryKind::File,
            Content::Rendered(_) => true,
        })
    }
}

impl Units {
    /// Returns the units that a renderer renders.
    pub fn new(renderer: Renderer, patience: Duration, look: LookRequest) -> Units {
        let (plans, again, late) = (Arc::default(), Arc::default(), Arc::default());
        Units { renderer: Arc::new(renderer), plans, again, patience, late, look }
    }

    /// Returns true while units of the head are still to be read.
    pub fn are_late(&self) -> bool {
        !self.late().unread.is_empty()
    }

    /// Returns true while a unit is rendered beside the rollout of its head.
    pub fn is_late(&self, id: RenderId) -> bool {
        self.late().rendering.contains(&id)
    }

    /// Leaves out the units that are being rendered already. They are read when they are done.
    pub fn without_late(&self, units: Vec<Unit>) -> Vec<Unit> {
        let late = self.late();
        units.into_iter().filter(|unit| !late.rendering.contains(&unit.id)).collect()
    }

    /// Notes that a head does not wait for these units any longer, unless they are done by now.
    pub fn leave_late<T>(&self, units: &[Unit], is_done: impl FnOnce() -> Option<T>) -> Option<T> {
        let mut late = self.late();
        let done = is_done();
        if done.is_none() {
            let unknown = units.iter().filter(|unit| !self.renderer.is_known(unit));
            late.rendering.extend(unknown.map(|unit| unit.id));
        }
        done
    }

    /// Notes that these units are done, well or not. If their head did not wait for them, they are read now.
    pub fn end_late(&self, units: &[Unit]) {
        let mut late = self.late();
        let were_late = units.iter().filter(|unit| late.rendering.remove(&unit.id)).count() > 0;
        drop(late);
        if were_late {
            self.again.store(true, Ordering::Relaxed);
            self.look.pushed();
        }
    }

    /// Returns the paths of the units that are still to be read.
    pub fn unread(&self) -> BTreeSet<Arc<str>> {
        self.late().unread.clone()
    }

    /// Notes which units are still to be read, of all that a reading was about.
    pub fn set_unread(&self, paths: BTreeSet<Arc<str>>) {
        self.late().unread = paths;
    }

    fn late(&self) -> MutexGuard<'_, PendingUnits> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true when a unit that failed before may be rendered by now.
    pub fn may_render_now(&self) -> bool {
        let late = self.late();
        // A reading that failed or was given up has not read them.
        let are_rendered = late.rendering.is_empty() && !late.unread.is_empty();
        drop(late);
        let now = self.renderer.forget_passing() || are_rendered;
        self.again.fetch_or(now, Ordering::Relaxed) || now
    }

    /// Sets the capabilities of the cluster. If they have changed, charts are rendered again.
    pub fn set_capabilities(&self, capabilities: Capabilities) {
        if self.renderer.set_capabilities(capabilities) {
            *self.plans() = Plans::default();
            self.again.store(true, Ordering::Relaxed);
        }
    }

    pub fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn planned(&self, at: &CommitId) -> Option<Arc<Plan>> {
        let plans = self.plans();
        plans.head.iter().chain(&plans.others).find(|(commit, _)| commit == at).map(|(_, plan)| Arc::clone(plan))
    }

    pub fn remember(&self, at: &CommitId, plan: &Arc<Plan>) {
        let mut plans = self.plans();
        let mut paths = plan.weight() + plans.others.iter().map(|(_, plan)| plan.weight()).sum::<usize>();
        while plans.others.len() >= PLANS || are_patterns_too_many() || paths > PATHS {
            let Some((_, oldest)) = plans.others.pop_front() else { break };
            paths -= oldest.weight();
        }
        plans.others.push_back((at.clone(), Arc::clone(plan)));
    }

    /// Returns a unit as it was when it was made from this, and a commit that has it so.
    pub fn find(&self, path: &str, id: RenderId) -> Option<(CommitId, Unit)> {
        let plans = self.plans();
        plans.head.iter().chain(plans.others.iter().rev()).find_map(|(commit, plan)| {
            let unit = plan.units.get(path).filter(|unit| unit.id == id)?;
            Some((commit.clone(), unit.clone()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{MemoryTree, Options, Tools};

    /// Returns a commit's plan with so many units, each made from a file.
    fn plan(units: &Units, number: usize) -> Arc<Plan> {
        let mut tree = MemoryTree::default();
        for unit in 0..number {
            tree.file(format!("{unit}/kustomization.yaml"), "resources: [a.yaml]\n");
        }
        let Ok(plan) = units.renderer.plan(&tree, "");
        Arc::new(plan)
    }

    #[test]
    fn what_is_remembered_of_plans_is_bounded() {
        let renderer = Renderer::new(Options::default(), Tools::default(), None);
        let units = Units::new(renderer, PATIENCE, LookRequest::of(&Arc::default()));
        let id = |number: usize| format!("{number:040}").parse::<CommitId>().unwrap();
        let known = || (0..300).filter(|number| units.planned(&id(*number)).is_some()).count();
        let small = plan(&units, 1);
        (0..300).for_each(|number| units.remember(&id(number), &small));
        assert_eq!(known(), PLANS);
        let large = plan(&units, 3000);
        assert!(large.weight() > 12_000 && large.weight() < 30_000, "{}", large.weight());
        (0..300).for_each(|number| units.remember(&id(number), &large));
        assert!((5..20).contains(&known()), "{}", known());
        assert!(units.planned(&id(299)).is_some(), "the newest is there");
    }
}
