//! How a rollout ends that was given up because its object was not served for all of `outage_timeout`.

use std::sync::OnceLock;

use belay_core::rollout::{Outcome, Reason};

/// The patience of one rollout.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Why the rollout was given up, where it was.
    pub gave_up: OnceLock<Reason>,
    /// Whether the rollout had failed, and was going back.
    pub is_going_back: bool,
}

impl Patience {
    /// How a rollout ends that was given up; `None` where it was not.
    pub(super) fn end(&mut self) -> Option<(Outcome, Reason)> {
        let outcome = if self.is_going_back { Outcome::RollbackFailed } else { Outcome::Failed };
        Some((outcome, self.gave_up.take()?))
    }
}
