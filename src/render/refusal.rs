//! Why a unit is not rendered at all.

use belay_core::manifest::Place;

/// Why a unit is not rendered: something that is known before anything runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where it is written.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}
