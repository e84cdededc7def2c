//! The counts of what is shown, the worst first: the strip of the overview, and the beginning of every title.

use super::components::Mark;
use crate::daemon::{SourceStatus, Status};
use crate::history::query::harm::{Harm, HarmCounts};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::SourceState;

/// A count of objects or sources in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateCount {
    /// `2 failed`
    pub text: String,
    pub mark: Mark,
    /// The harm that its objects have; `None` for sources.
    pub harm: Option<Harm>,
}

/// Returns the counts of a status, the worst first.
pub(super) fn of_status(status: &Status) -> Vec<StateCount> {
    let harms = HarmCounts::of(status.sources.values().flat_map(harms));
    let states: Vec<SourceState> = status.sources.values().map(SourceStatus::state).collect();
    counts(&harms, &states)
}

/// Returns the harm of each object of which a source says something.
fn harms(source: &SourceStatus) -> impl Iterator<Item = Harm> {
    let is_live = |key: &&ObjectKey| source.workloads.contains_key(*key);
    let others = source.ended.keys().filter(|key| !source.under_way.contains_key(*key));
    let held =
        source.held.keys().filter(|key| !source.under_way.contains_key(*key) && !source.ended.contains_key(*key));
    let besides = source.under_way.keys().chain(others).chain(held).filter(move |key| !is_live(key));
    source.workloads.keys().chain(besides).map(|key| {
        let counters = source.workloads.get(key).map(|live| live.counters).unwrap_or_default();
        Harm::of(key, source.state_of_workload(key), counters, source.under_way.contains_key(key))
    })
}

/// Returns the counts of objects with these harms and of sources in these states, the worst first.
pub(super) fn counts(harms: &HarmCounts, sources: &[SourceState]) -> Vec<StateCount> {
    let mut counts = Vec::new();
    for harm in Harm::ALL {
        let count = harms.0.get(&harm).copied().unwrap_or_default();
        counts.extend((count > 0).then(|| StateCount {
            text: format!("{count} {}", harm.word()),
            mark: Mark::of_harm(harm),
            harm: Some(harm),
        }));
        counts.extend(told_after(harm, counts.is_empty()).and_then(|state| of_sources(sources, state)));
    }
    counts
}

/// Returns the state of sources that is the next in harm. A source with a failure is degraded: that is told once.
fn told_after(harm: Harm, is_well_so_far: bool) -> Option<SourceState> {
    match harm {
        Harm::Failed => Some(SourceState::Blocked),
        Harm::Held if is_well_so_far => Some(SourceState::Degraded),
        Harm::RollingOut => Some(SourceState::Waiting),
        _ => None,
    }
}

fn of_sources(sources: &[SourceState], state: SourceState) -> Option<StateCount> {
    let count = sources.iter().filter(|one| **one == state).count();
    let noun = if count == 1 { "source" } else { "sources" };
    (count > 0).then(|| StateCount {
        text: format!("{count} {noun} {state}"),
        mark: Mark::of_source(state),
        harm: None,
    })
}

/// Returns the worst count; of nothing, that there is nothing.
pub(super) fn worst(counts: &[StateCount]) -> StateCount {
    let nothing = || StateCount { text: "nothing yet".to_owned(), mark: Mark::of_harm(Harm::Waiting), harm: None };
    counts.first().cloned().unwrap_or_else(nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_count_is_first() {
        let texts = |harms: &[Harm], sources: &[SourceState]| {
            let counts = counts(&HarmCounts::of(harms.iter().copied()), sources);
            counts.into_iter().map(|count| count.text).collect::<Vec<_>>().join(" · ")
        };
        for (harms, sources, text) in [
            (
                vec![Harm::Ok, Harm::Held, Harm::Failed, Harm::Held, Harm::RollingOut, Harm::Rejected],
                vec![],
                "1 failed · 1 rejected · 2 held · 1 rolling out · 1 ok",
            ),
            (vec![Harm::Ok, Harm::Unavailable], vec![SourceState::Synced], "1 unavailable · 1 ok"),
            (
                vec![Harm::Ok, Harm::Rejected],
                vec![SourceState::Blocked, SourceState::Degraded, SourceState::Degraded],
                "1 source blocked · 1 rejected · 1 ok",
            ),
            (vec![Harm::Ok], vec![SourceState::Degraded; 2], "2 sources degraded · 1 ok"),
            (vec![], vec![SourceState::Waiting], "1 source waiting"),
            (vec![], vec![], ""),
        ] {
            assert_eq!(texts(&harms, &sources), text);
        }
        assert_eq!(worst(&[]).text, "nothing yet");
    }
}
