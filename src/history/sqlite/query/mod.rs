//! The questions to the file. In go the questions of `history`; out come its plain types, read from rows.

pub(in crate::history) mod baselines;
#[cfg(test)]
mod cost;
pub(in crate::history) mod drift;
pub(in crate::history) mod measurements;
pub(in crate::history) mod records;
mod standing;
mod stats;
pub(in crate::history) mod templates;
mod timeline;
