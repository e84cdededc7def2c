//! `belay status --state`.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use belay_core::rollout::ObjectState;

/// Returns the parser of the words for states.
pub(super) fn states() -> impl TypedValueParser<Value = ObjectState> {
    PossibleValuesParser::new(ObjectState::ALL.map(ObjectState::word)).try_map(|word| {
        ObjectState::ALL.into_iter().find(|state| state.word() == word).ok_or("this is no state of an object")
    })
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

    #[test]
    fn a_list_without_rows_says_which_states_it_is_of() {
        assert_eq!(none(&[ObjectState::Held, ObjectState::Failed], None), "No object is held or failed.");
        assert_eq!(none(&[ObjectState::Held], Some("shop")), "No object in namespace shop is held (-A: in all).");
    }
}
