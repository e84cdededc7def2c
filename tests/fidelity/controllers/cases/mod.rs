//! The scripts, by the letters of the specification.

mod creation;

use super::Case;

/// All scripts.
pub fn all() -> Vec<Case> {
    [creation::cases()].concat()
}
