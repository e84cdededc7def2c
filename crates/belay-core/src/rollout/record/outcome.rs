//! The standing of a record, or its end.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The standing of a record, or its end, as the history keeps it. Users see its [`Outcome::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// In a plan, not applied yet.
    #[serde(rename = "pending", alias = "planned")]
    Planned,
    /// Not applied yet: it waits, and its last step says for what.
    Waiting,
    /// Applied; the rollout is being watched.
    #[serde(rename = "progressing", alias = "under-way")]
    UnderWay,
    /// Complete, and watched for its bake time.
    Baking,
    /// It has failed; the workload is on its way back.
    RollingBack,
    /// Done: applied, and complete where it rolls out.
    Complete,
    /// Failed, and left as it is.
    Failed,
    /// Failed, and back on its last good revision.
    RolledBack,
    /// Failed, and the way back failed too.
    RollbackFailed,
    /// A newer commit took its place.
    Superseded,
    /// The manifest was invalid.
    Rejected,
    /// There was nothing to do.
    Unchanged,
    /// Not applied: the manifest is held.
    Held,
    /// Not applied: the object is suspended.
    Suspended,
    /// Not applied: it waits for another object that failed, or that is held. A record that has ended, unlike `Waiting`.
    Skipped,
    /// Deleted, because its manifest left the repository.
    Pruned,
    /// Its manifest left the repository, and the object stays: pruning is off, or was refused.
    Orphaned,
    /// Not known any more; only of records that were rebuilt.
    Unknown,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Outcome; 18] = [
        Outcome::Planned,
        Outcome::Waiting,
        Outcome::UnderWay,
        Outcome::Baking,
        Outcome::RollingBack,
        Outcome::Complete,
        Outcome::Failed,
        Outcome::RolledBack,
        Outcome::RollbackFailed,
        Outcome::Superseded,
        Outcome::Rejected,
        Outcome::Unchanged,
        Outcome::Held,
        Outcome::Suspended,
        Outcome::Skipped,
        Outcome::Pruned,
        Outcome::Orphaned,
        Outcome::Unknown,
    ];

    /// The ends that are no good, the worst first.
    pub const WRONG: [Outcome; 6] = [
        Outcome::RollbackFailed,
        Outcome::Failed,
        Outcome::RolledBack,
        Outcome::Rejected,
        Outcome::Held,
        Outcome::Skipped,
    ];

    /// Returns how bad an end is, 0 for the worst; `None` for one that is not bad.
    #[must_use]
    pub fn rank(self) -> Option<usize> {
        Outcome::WRONG.iter().position(|wrong| *wrong == self)
    }

    /// Returns true when it is final.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Outcome::Planned | Outcome::Waiting) && !self.is_applied()
    }

    /// Returns true when its manifest was applied, and its end is still to come.
    #[must_use]
    pub fn is_applied(self) -> bool {
        matches!(self, Outcome::UnderWay | Outcome::Baking | Outcome::RollingBack)
    }

    /// Returns true when the object was as its manifest says then, or was deleted as the repository says.
    #[must_use]
    pub fn is_good(self) -> bool {
        matches!(self, Outcome::Complete | Outcome::Unchanged | Outcome::Pruned)
    }

    /// Returns the word of its state.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.state().word()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
