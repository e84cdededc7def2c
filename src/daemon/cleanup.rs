//! How much is deleted of what is not wanted any more.

use crate::history::Retention;

/// How much may be deleted at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pruning {
    /// What `prune_limit` allows, or the commit itself.
    #[default]
    Limited,
    /// Everything that has left the repository: somebody has said so.
    Unlimited,
}

/// How much is deleted of what is not wanted any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Cleanup {
    /// How much the history remembers.
    pub retention: Retention,
    /// Whether more objects may be deleted at once than the limit allows.
    pub pruning: Pruning,
}
