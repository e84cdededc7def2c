//! The outcomes of units: their rendering, or the reason for which they could not be rendered.
#![allow(clippy::disallowed_methods, reason = "a tool lives in the machine's own time")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::arguments::namespace;
use super::tools::Tool;
use super::unit::{RenderId, Unit, UnitKind};
use crate::blocking::turn_to_read;
use belay_core::manifest::{File, Origins, Place, Rendered, Scopes, not_rendered, read_rendered};

/// The most that is held in memory, in outcomes and in bytes.
const HELD: usize = 1000;
const BYTES: usize = 128 << 20;
/// The time after which a tool is run again that took more than its limits, or that the machine did not let run.
const AGAIN: Duration = Duration::from_mins(10);

/// The outcome of a unit.
pub(super) type Outcome = Result<Arc<[u8]>, FailedRender>;

/// The reason for which a unit was not rendered.
#[derive(Clone, Debug)]
pub(super) struct FailedRender {
    pub place: Place,
    pub message: String,
    pub hint: Option<String>,
    pub passes: Passes,
}

/// When the same inputs may render another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passes {
    Never,
    /// As soon as the tool is there.
    WithTheTool(Tool),
    /// A failure of the machine may pass later.
    After(Instant),
    /// It was given up, and says nothing of the unit.
    AtOnce,
}

impl Passes {
    /// Returns a later time, if it may pass at all.
    pub(super) fn later(may_pass: bool) -> Passes {
        if may_pass { Passes::After(Instant::now() + AGAIN) } else { Passes::Never }
    }
}

/// Returns a unit for which no tool is installed.
pub(super) fn no_tool(kind: &UnitKind, place: Place) -> FailedRender {
    let (tool, message, hint) = match kind {
        UnitKind::Kustomize { .. } => (
            Tool::Kustomize,
            "kustomize is not installed: there is neither kustomize nor kubectl on the PATH",
            "install kustomize or kubectl, or name the program: [render] kustomize = \"/usr/local/bin/kustomize\"",
        ),
        UnitKind::Helm(_) => (
            Tool::Helm,
            "helm is not installed: it is not on the PATH",
            "install helm, or name the program: [render] helm = \"/usr/local/bin/helm\"",
        ),
    };
    FailedRender { place, message: message.to_owned(), hint: Some(hint.to_owned()), passes: Passes::WithTheTool(tool) }
}

/// Returns a unit that could not be rendered.
pub(super) fn failed(place: Place, message: String, passes: Passes) -> FailedRender {
    FailedRender { place, message, hint: None, passes }
}

/// Returns the outcome of a unit, as one file.
pub(super) fn read(unit: &Unit, outcome: Outcome, scopes: &Scopes) -> File {
    let bytes = match outcome {
        Ok(bytes) => bytes,
        Err(FailedRender { place, message, hint, .. }) => return not_rendered(&unit.path, place, message, hint),
    };
    let (origins, namespace) = match &unit.kind {
        UnitKind::Kustomize { asks_origin, .. } => (Origins::Annotation { kept: *asks_origin }, None),
        UnitKind::Helm(options) => (Origins::Comment, Some(namespace(options))),
    };
    let rendered = Rendered { path: &unit.path, folder: &unit.folder, origins };
    let _turn = turn_to_read(bytes.len());
    match namespace.filter(|namespace| *namespace != scopes.default_namespace) {
        None => read_rendered(&rendered, &bytes, scopes),
        Some(namespace) => {
            let mut scopes = scopes.clone();
            namespace.clone_into(&mut scopes.default_namespace);
            read_rendered(&rendered, &bytes, &scopes)
        }
    }
}

/// The outcomes that can't be kept on disk: failures, and all of them if there is no folder. Within limits; the oldest
/// goes first.
#[derive(Debug, Default)]
pub(super) struct HeldOutcomes {
    outcomes: BTreeMap<RenderId, Outcome>,
    order: VecDeque<RenderId>,
    bytes: usize,
}

impl HeldOutcomes {
    pub(super) fn get(&self, id: RenderId) -> Option<&Outcome> {
        self.outcomes.get(&id)
    }

    /// Holds an outcome. A unit that was given up is forgotten at once.
    pub(super) fn hold(&mut self, id: RenderId, outcome: &Outcome) {
        if matches!(outcome, Err(FailedRender { passes: Passes::AtOnce, .. })) {
            return;
        }
        self.forget(id);
        let size = size(outcome);
        while self.order.len() >= HELD || (self.bytes + size > BYTES && !self.order.is_empty()) {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.outcomes.remove(&oldest).map_or(0, |outcome| self::size(&outcome));
        }
        self.bytes += size;
        self.order.push_back(id);
        self.outcomes.insert(id, outcome.clone());
    }

    fn forget(&mut self, id: RenderId) {
        if let Some(outcome) = self.outcomes.remove(&id) {
            self.bytes -= size(&outcome);
            self.order.retain(|held| *held != id);
        }
    }

    /// Forgets failures whose reason may have passed. Returns whether there was any.
    pub(super) fn forget_passing(&mut self, kustomize: bool, helm: bool) -> bool {
        let has_passed = |(id, outcome): (&RenderId, &Outcome)| {
            let passed = match outcome.as_ref().map_err(|failed| failed.passes) {
                Ok(_) | Err(Passes::Never) => false,
                Err(Passes::WithTheTool(Tool::Helm)) => helm,
                Err(Passes::WithTheTool(_)) => kustomize,
                Err(Passes::After(moment)) => Instant::now() >= moment,
                Err(Passes::AtOnce) => true,
            };
            passed.then_some(*id)
        };
        let passed: Vec<RenderId> = self.outcomes.iter().filter_map(has_passed).collect();
        passed.iter().for_each(|id| self.forget(*id));
        !passed.is_empty()
    }
}

/// Returns the size of an outcome, in bytes.
fn size(outcome: &Outcome) -> usize {
    match outcome {
        Ok(bytes) => bytes.len(),
        Err(failed) => failed.message.len() + failed.hint.as_ref().map_or(0, String::len),
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryTree;
    use super::super::unit::Options;
    use super::*;

    /// Units that differ.
    fn ids(count: usize) -> Vec<RenderId> {
        let mut tree = MemoryTree::default();
        (0..count).for_each(|number| tree.file(format!("{number}/kustomization.yaml"), ""));
        let Ok(plan) = super::super::find(&tree, "", &Options::default());
        plan.units.values().map(|unit: &Unit| unit.id).collect()
    }

    #[test]
    fn what_is_held_is_bounded_in_bytes() {
        let mut held = HeldOutcomes::default();
        let large: Outcome = Ok(vec![0; BYTES / 4].into());
        let ids = ids(10);
        ids.iter().for_each(|id| held.hold(*id, &large));
        assert!(held.bytes <= BYTES && held.outcomes.len() == 4, "{}", held.bytes);
        assert!(held.get(ids[9]).is_some() && held.get(ids[0]).is_none(), "the oldest went first");
        held.hold(ids[9], &large);
        assert_eq!(held.outcomes.len(), 4, "held once");
    }

    #[test]
    fn what_was_given_up_says_nothing() {
        let mut held = HeldOutcomes::default();
        let place = Place { path: "a".into(), line: 1, column: 1 };
        let failed = FailedRender { place, message: "given up".to_owned(), hint: None, passes: Passes::AtOnce };
        held.hold(ids(1)[0], &Err(failed));
        assert!(held.get(ids(1)[0]).is_none());
    }
}
