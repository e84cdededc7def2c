//! Which revision to go back to, what is held, and what people took back themselves.

pub(in crate::rollout) mod hold;
pub(in crate::rollout) mod manual_rollback;
pub(in crate::rollout) mod target;
pub(in crate::rollout) mod undo;
