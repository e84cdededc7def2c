//! The end of a rollout that was given up: its object was not served for all of `outage_timeout`, or somebody took the
//! hold off that its write would repeat.

use std::sync::OnceLock;

use belay_core::rollout::{Outcome, Reason};

/// The patience of one rollout.
#[derive(Debug, Default)]
pub struct Patience {
    /// The reason for which the rollout was given up, if it was.
    pub gave_up: OnceLock<GaveUp>,
    /// True when the rollout had failed, and was going back.
    pub is_going_back: bool,
}

/// The reason for which a rollout was given up.
#[derive(Debug)]
pub enum GaveUp {
    /// Its object was not served.
    NotServed(Reason),
    /// Somebody asked for another try of the held manifest.
    Released(Reason),
}

impl Patience {
    /// Returns the end of a rollout that was given up; `None` if it was not.
    pub fn end(&mut self) -> Option<(Outcome, Reason)> {
        Some(match self.gave_up.take()? {
            GaveUp::NotServed(reason) if self.is_going_back => (Outcome::RollbackFailed, reason),
            GaveUp::NotServed(reason) => (Outcome::Failed, reason),
            GaveUp::Released(reason) => (Outcome::Superseded, reason),
        })
    }
}
