//! The records of a source in the history.
//!
//! In: steps and ends of rollouts. Out: writes to the history in their order, records that are rebuilt after the history
//! was lost, and the deletion of old ones.

mod charged_commits;
pub(super) mod history_file;
mod journal;
mod queued_writes;
pub(super) mod rebuild;
mod retention;
