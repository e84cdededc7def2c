//! Limits of deletion: how many objects may be pruned at once, and how long records stay.

use crate::history::Retention;

/// The number of objects that may be deleted at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pruning {
    /// As many as `prune_limit` or the commit itself allows.
    #[default]
    Limited,
    /// Everything that has left the repository: somebody has said so.
    Unlimited,
}

/// Limits of deletion: of pruned objects and of old records.
#[derive(Clone, Debug, Default)]
pub struct Cleanup {
    /// The number and age of the records that the history keeps.
    pub retention: Retention,
    /// The limit of deletions at once, or its absence.
    pub pruning: Pruning,
}
