//! The rollback of what failed.
//!
//! In: a failed rollout, or an undo by hand. Out: the writes that bring the earlier template back, and the outcome.
//! `facts` gathers the facts, the core plans, `executor` carries out any plan, and `watch` proves it.

pub(in crate::daemon) mod commit_rollback;
mod dependent_config;
mod executor;
mod facts;
pub(super) mod failure;
mod fallback_template;
pub(in crate::daemon) mod manual_rollback;
mod previous_manifest;
pub(super) mod target;
mod unhealthy;
mod watch;
