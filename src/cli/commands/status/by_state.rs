//! `belay status --state`, and the order of the rows: the most harmful first.

use std::cmp::Ordering;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::cli::output::answer::WorkloadAnswer;
use belay_core::rollout::{ObjectState, Workload};

/// The states from the most harmful on. Those that are not here come last.
const ORDER: [ObjectState; 13] = [
    ObjectState::Failed,
    ObjectState::RollbackFailed,
    ObjectState::Rejected,
    ObjectState::Held,
    ObjectState::RolledBack,
    ObjectState::RollingBack,
    ObjectState::Progressing,
    ObjectState::Baking,
    ObjectState::Waiting,
    ObjectState::Pending,
    ObjectState::Suspended,
    ObjectState::Orphaned,
    ObjectState::Unknown,
];

/// Returns the parser of the words for states.
pub(super) fn states() -> impl TypedValueParser<Value = ObjectState> {
    PossibleValuesParser::new(ObjectState::ALL.map(ObjectState::word)).try_map(|word| {
        ObjectState::ALL.into_iter().find(|state| state.word() == word).ok_or("this is no state of an object")
    })
}

/// Sorts the rows: first the workloads without an available pod, then by state, the most harmful first. Rows of the same
/// state keep their order.
pub(super) fn sort(rows: &mut [WorkloadAnswer]) {
    rows.sort_by(|one, other| {
        // False comes before true.
        let serves = serves(one).cmp(&serves(other));
        serves.then_with(|| by_state(one.state, other.state))
    });
}

fn by_state(one: ObjectState, other: ObjectState) -> Ordering {
    let place = |state: ObjectState| ORDER.iter().position(|known| *known == state).unwrap_or(ORDER.len());
    place(one).cmp(&place(other))
}

/// Returns false when a workload should have pods that go on running, and none of them is available.
fn serves(row: &WorkloadAnswer) -> bool {
    let is_run_once = Workload::of(&row.object).is_none_or(|workload| workload == Workload::Job);
    is_run_once || row.desired <= 0 || row.available > 0
}

/// Returns the line for a list without rows: `No object in namespace shop is held or failed (-A: in all).`
pub(super) fn none(states: &[ObjectState], namespace: Option<&str>) -> String {
    let words: Vec<&str> = states.iter().map(|state| state.word()).collect();
    let (place, hint) = match namespace {
        Some(namespace) => (format!(" in namespace {namespace}"), " (-A: in all)"),
        None => (String::new(), ""),
    };
    format!("No object{place} is {}{hint}.", words.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::manifest::ObjectKey;

    #[test]
    fn the_most_harmful_is_first() {
        let row = |kind: &str, name: &str, state, available| {
            let group = if kind == "Job" { "batch" } else { "apps" };
            let key = ObjectKey {
                group: group.to_owned(),
                kind: kind.to_owned(),
                namespace: Some("shop".to_owned()),
                name: name.to_owned(),
            };
            WorkloadAnswer { desired: 2, available, ..WorkloadAnswer::of_object(&key, "shop", state) }
        };
        let mut rows = vec![
            row("Deployment", "rests", ObjectState::Complete, 2),
            row("Deployment", "is-left-alone", ObjectState::Suspended, 2),
            row("Deployment", "b-is-held", ObjectState::Held, 2),
            row("Deployment", "a-is-held", ObjectState::Held, 1),
            row("Job", "has-run", ObjectState::Complete, 0),
            row("Deployment", "rolls-out", ObjectState::Progressing, 1),
            row("Deployment", "has-failed", ObjectState::Failed, 1),
            row("StatefulSet", "serves-nobody", ObjectState::Progressing, 0),
            row("Deployment", "is-held-and-serves-nobody", ObjectState::Held, 0),
        ];
        sort(&mut rows);
        let names: Vec<&str> = rows.iter().map(|row| row.object.name.as_str()).collect();
        let expected = [
            "is-held-and-serves-nobody",
            "serves-nobody",
            "has-failed",
            "b-is-held",
            "a-is-held",
            "rolls-out",
            "is-left-alone",
            "rests",
            "has-run",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn every_state_has_a_place() {
        let resting = [ObjectState::Complete, ObjectState::Superseded, ObjectState::Unchanged, ObjectState::Pruned];
        for state in ObjectState::ALL {
            assert_ne!(ORDER.contains(&state), resting.contains(&state), "{state}");
        }
        assert_eq!(none(&[ObjectState::Held, ObjectState::Failed], None), "No object is held or failed.");
    }
}
