//! The words of a plan about one object.

use std::collections::BTreeMap;

use belay_core::manifest::ObjectKey;
use belay_core::rollout::{After, Apply, Planned, Unnoticed, only_marks};

/// The workloads that will not notice a change, by the changed object.
pub(in crate::cli) type Stale = BTreeMap<ObjectKey, Vec<Unnoticed>>;

/// The remarks on the objects of a plan.
#[derive(Debug, Default)]
pub(in crate::cli) struct PlanNotes {
    /// The workloads that will not notice a change.
    pub stale: Stale,
    /// The power of the analyses of a workload that is rolled out.
    pub guards: BTreeMap<ObjectKey, Vec<String>>,
}

impl PlanNotes {
    /// Returns those on one object, as text.
    pub(in crate::cli) fn on(&self, key: &ObjectKey) -> impl Iterator<Item = String> {
        let stale = self.stale.get(key).into_iter().flatten().map(ToString::to_string);
        stale.chain(self.guards.get(key).into_iter().flatten().cloned())
    }
}

/// Returns `; waits for deployment/db`, if it waits for others.
pub(in crate::cli) fn waits(step: &Planned) -> String {
    After::of(&step.wanted.manifest).map(|after| format!("; {}", after.told())).unwrap_or_default()
}

/// Returns the effect on an object that exists already.
pub(in crate::cli) fn what(apply: &Apply) -> &'static str {
    match (apply.rolls_out, only_marks(&apply.changes)) {
        (true, _) => "rolls out",
        (false, true) => "is taken over, and nothing else",
        (false, false) => "changes",
    }
}
