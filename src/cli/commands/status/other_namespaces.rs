//! The line about objects of other namespaces, which the table does not show.

use std::collections::BTreeMap;

use belay_core::rollout::ObjectState;

/// `10 more objects in other namespaces are not as the head says (9 rejected, 1 waiting): belay status -A shows them`
pub(super) fn line(states: impl Iterator<Item = ObjectState>) -> Option<String> {
    let mut counts: BTreeMap<ObjectState, usize> = BTreeMap::new();
    for state in states.filter(|state| state.is_wrong() || *state == ObjectState::Waiting) {
        *counts.entry(state).or_default() += 1;
    }
    let all: usize = counts.values().sum();
    let each: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let (objects, are, them) = if all == 1 { ("object", "is", "it") } else { ("objects", "are", "them") };
    (all > 0).then(|| {
        let each = each.join(", ");
        format!(
            "{all} more {objects} in other namespaces {are} not as the head says ({each}): belay status -A shows {them}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_elsewhere_is_counted_by_state() {
        use ObjectState::{Complete, Progressing, Rejected, Waiting};
        let said = |states: &[ObjectState]| line(states.iter().copied());
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[Complete, Progressing]), None);
        assert_eq!(
            said(&[Waiting]).as_deref(),
            Some("1 more object in other namespaces is not as the head says (1 waiting): belay status -A shows it")
        );
        let three = said(&[Rejected, Complete, Waiting, Rejected]).unwrap();
        assert!(three.starts_with("3 more objects in other namespaces are not as the head says ("), "{three}");
        assert!(
            three.contains("2 rejected") && three.contains("1 waiting") && three.ends_with("-A shows them"),
            "{three}"
        );
    }
}
