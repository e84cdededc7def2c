//! The questions to the history, of people, of the daemon and of programs.

pub mod answers;
pub(in crate::history) mod baselines;
#[cfg(test)]
pub(in crate::history) mod cost;
pub(in crate::history) mod drift;
pub(in crate::history) mod records;
pub mod source_histories;
pub(in crate::history) mod standing;
pub(in crate::history) mod stats;
pub mod step_details;
pub(in crate::history) mod templates;
pub(in crate::history) mod timeline;
