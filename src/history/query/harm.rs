//! The harm of a state: rows, counts and the title of the page have the most harmful first.

use std::collections::BTreeMap;

use super::answers::WorkloadAnswer;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Counters, ObjectState, Workload};

/// The harm of an object's state, the most harmful first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// A workload should have pods that go on running, and none is available.
    Unavailable,
    /// It failed, and so did the way back if there was one.
    Failed,
    /// Its manifest is invalid or refused.
    Rejected,
    /// Its manifest is held.
    Held,
    /// It is on its way to a newer or an older template.
    RollingOut,
    /// It waits for something.
    Waiting,
    /// Somebody asked belay to leave it alone.
    Suspended,
    /// It is not in the repository any more, or not known.
    Orphaned,
    /// None.
    Ok,
}

impl Harm {
    /// All of them, the most harmful first.
    pub const ALL: [Harm; 9] = [
        Harm::Unavailable,
        Harm::Failed,
        Harm::Rejected,
        Harm::Held,
        Harm::RollingOut,
        Harm::Waiting,
        Harm::Suspended,
        Harm::Orphaned,
        Harm::Ok,
    ];

    /// Returns the harm of an object in a state. The first pods of a rollout that goes on may still come up.
    #[must_use]
    pub fn of(key: &ObjectKey, state: ObjectState, counters: Counters, is_rolling_out: bool) -> Harm {
        if !serves(key, counters) && !is_rolling_out {
            return Harm::Unavailable;
        }
        Harm::of_state(state)
    }

    /// Returns the harm of a row.
    #[must_use]
    pub fn of_row(row: &WorkloadAnswer) -> Harm {
        Harm::of(&row.object, row.state, counters(row), row.deadline.is_some())
    }

    fn of_state(state: ObjectState) -> Harm {
        match state {
            ObjectState::Failed | ObjectState::RollbackFailed => Harm::Failed,
            ObjectState::Rejected => Harm::Rejected,
            ObjectState::Held | ObjectState::RolledBack => Harm::Held,
            ObjectState::RollingBack | ObjectState::Progressing | ObjectState::Baking => Harm::RollingOut,
            ObjectState::Waiting | ObjectState::Pending => Harm::Waiting,
            ObjectState::Suspended => Harm::Suspended,
            ObjectState::Orphaned | ObjectState::Unknown => Harm::Orphaned,
            ObjectState::Complete | ObjectState::Superseded | ObjectState::Unchanged | ObjectState::Pruned => Harm::Ok,
        }
    }

    /// Returns the word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Harm::Unavailable => "unavailable",
            Harm::Failed => "failed",
            Harm::Rejected => "rejected",
            Harm::Held => "held",
            Harm::RollingOut => "rolling out",
            Harm::Waiting => "waiting",
            Harm::Suspended => "suspended",
            Harm::Orphaned => "orphaned",
            Harm::Ok => "ok",
        }
    }

    /// Returns the word in an address.
    #[must_use]
    pub fn in_address(self) -> &'static str {
        if self == Harm::RollingOut { "rolling-out" } else { self.word() }
    }
}

fn counters(row: &WorkloadAnswer) -> Counters {
    Counters { desired: row.desired, available: row.available, ..Counters::default() }
}

/// Returns false when a workload should have pods that go on running, and none of them is available.
fn serves(key: &ObjectKey, counters: Counters) -> bool {
    let is_run_once = Workload::of(key).is_none_or(|workload| workload == Workload::Job);
    is_run_once || counters.desired <= 0 || counters.available > 0
}

/// The number of objects of each harm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HarmCounts(pub BTreeMap<Harm, usize>);

impl HarmCounts {
    /// Counts these.
    pub fn of(all: impl IntoIterator<Item = Harm>) -> HarmCounts {
        let mut counts = HarmCounts::default();
        for harm in all {
            *counts.0.entry(harm).or_default() += 1;
        }
        counts
    }

    /// Returns the worst, with its number; `None` if there is nothing.
    #[must_use]
    pub fn worst(&self) -> Option<(Harm, usize)> {
        self.0.first_key_value().map(|(harm, count)| (*harm, *count))
    }
}

/// The states within a harm, the most harmful first. Those that are not here come last.
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

/// Sorts the rows: first the workloads without an available pod, then by state, the most harmful first. Rows of the same
/// state keep their order.
pub fn sort_by_harm(rows: &mut [WorkloadAnswer]) {
    let place = |state: ObjectState| ORDER.iter().position(|known| *known == state).unwrap_or(ORDER.len());
    // False comes before true.
    rows.sort_by_key(|row| (serves(&row.object, counters(row)), place(row.state)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, name: &str, state: ObjectState, available: i64) -> WorkloadAnswer {
        let group = if kind == "Job" { "batch" } else { "apps" };
        let key = ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        };
        WorkloadAnswer { desired: 2, available, ..WorkloadAnswer::of_object(&key, "shop", state) }
    }

    #[test]
    fn the_most_harmful_is_first() {
        let begins = WorkloadAnswer {
            deadline: Some(jiff::Timestamp::UNIX_EPOCH),
            ..row("Deployment", "begins", ObjectState::Progressing, 0)
        };
        let mut rows = vec![
            row("Deployment", "rests", ObjectState::Complete, 2),
            row("Deployment", "is-left-alone", ObjectState::Suspended, 2),
            row("Deployment", "b-is-held", ObjectState::Held, 2),
            row("Deployment", "a-is-held", ObjectState::Held, 1),
            row("Job", "has-run", ObjectState::Complete, 0),
            row("Deployment", "rolls-out", ObjectState::Progressing, 1),
            begins,
            row("Deployment", "waits", ObjectState::Waiting, 1),
            row("Deployment", "has-failed", ObjectState::Failed, 1),
            row("StatefulSet", "serves-nobody", ObjectState::Progressing, 0),
            row("Deployment", "is-held-and-serves-nobody", ObjectState::Held, 0),
        ];
        sort_by_harm(&mut rows);
        let names: Vec<&str> = rows.iter().map(|row| row.object.name.as_str()).collect();
        let expected = [
            "is-held-and-serves-nobody",
            "begins",
            "serves-nobody",
            "has-failed",
            "b-is-held",
            "a-is-held",
            "rolls-out",
            "waits",
            "is-left-alone",
            "rests",
            "has-run",
        ];
        assert_eq!(names, expected);
        let counts = HarmCounts::of(rows.iter().map(Harm::of_row));
        assert_eq!(counts.worst(), Some((Harm::Unavailable, 2)));
        assert_eq!(counts.0.values().sum::<usize>(), rows.len());
    }

    #[test]
    fn every_state_has_a_place() {
        let resting = [ObjectState::Complete, ObjectState::Superseded, ObjectState::Unchanged, ObjectState::Pruned];
        for state in ObjectState::ALL {
            assert_ne!(ORDER.contains(&state), resting.contains(&state), "{state}");
            assert_eq!(Harm::of_state(state) == Harm::Ok, resting.contains(&state), "{state}");
        }
        assert!(Harm::ALL.is_sorted() && ORDER.iter().map(|state| Harm::of_state(*state)).is_sorted());
    }
}
