//! The words of a plan about one object.

use std::collections::BTreeMap;

use belay_core::manifest::ObjectKey;
use belay_core::rollout::{After, Apply, Planned, Unnoticed, only_marks};

/// The workloads that will not notice a change, by the changed object.
pub(in crate::cli) type Stale = BTreeMap<ObjectKey, Vec<Unnoticed>>;

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
