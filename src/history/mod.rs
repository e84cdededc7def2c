//! MEMORY. The only room that says rusqlite: what became of each manifest of each commit, in one SQLite file.
//!
//! The file may be lost and nothing else changes: what belay must remember is in the cluster, on the objects.

pub mod answers;
mod aside;
mod connection;
#[cfg(test)]
mod cost;
mod damage;
mod drift;
mod entry;
mod error;
mod file;
mod format;
mod notices;
mod private;
mod read;
mod rebuild;
mod replaced;
mod retention;
mod rows;
pub mod source_histories;
mod states;
mod stats;
pub mod step_details;
mod templates;
mod timeline;
mod write;

pub use drift::Drifted;
pub use entry::HistoryEntry;
pub use error::HistoryError;
pub use file::{History, OpenedHistory};
pub use notices::{CommitOutcome, Notice, Pending};
pub use read::{Arrival, FAILED, Heads, Query, Resolved};
pub use rebuild::{Followed, Trouble};
pub use replaced::Replaced;
pub use retention::Retention;
pub use states::{ObjectStanding, SourceStanding};
pub use stats::{By, Spread, Stats, StatsQuery};
pub use templates::{KeptTemplate, LastGood};
pub use timeline::Turn;
pub use write::Update;
