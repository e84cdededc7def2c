//! The history in one SQLite file: the only folder that uses rusqlite and has SQL.
//!
//! In go the plain types of `history` and its pure computations (`stats`, `timeline`, `templates`, `kept_evidence`,
//! `commit_notice`); out comes [`History`], of which the other folders add what they write (`write`, `notices`) and what
//! they read (`query`). `store` finds the file, makes it and brings it to the newest format.

mod failure;
mod notices;
mod query;
mod store;
mod write;

pub use store::file::History;
