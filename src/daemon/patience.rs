//! The end of a rollout that was given up because its object was not served for all of `outage_timeout`.

use std::sync::OnceLock;

use belay_core::rollout::{Outcome, Reason};

/// The patience of one rollout.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// The reason for which the rollout was given up, if it was.
    pub gave_up: OnceLock<Reason>,
    /// True when the rollout had failed, and was going back.
    pub is_going_back: bool,
}

impl Patience {
    /// Returns the end of a rollout that was given up; `None` if it was not.
    pub(super) fn end(&mut self) -> Option<(Outcome, Reason)> {
        let outcome = if self.is_going_back { Outcome::RollbackFailed } else { Outcome::Failed };
        Some((outcome, self.gave_up.take()?))
    }
}
