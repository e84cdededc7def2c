//! The rollback of a failed rollout: facts in, one plan out. The plan asks for unknown facts, so that nothing is read
//! from the cluster or from Git that it does not need.

mod by_hand;
mod facts;
mod held;
pub(in crate::rollout) mod hold;
mod kept_hold;
pub(in crate::rollout) mod manual_rollback;
mod plan;
pub(in crate::rollout) mod target;
#[cfg(test)]
mod tests;
pub(in crate::rollout) mod undo;
mod whole_commit;

pub use by_hand::{held_by_undo, restored_by_hand};
pub use facts::{ChangedConfiguration, FormerManifest, RollbackFacts};
pub use kept_hold::KeptHold;
pub use plan::{Planning, Question, Rollback, RollbackKind, RollbackPlan, also_goes_back, plan};
pub use target::{Known, NoRollbackTarget, Revision, RollbackTarget, revisions, rollback_target};
pub use whole_commit::CommitPart;
