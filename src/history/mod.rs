//! MEMORY. The only room that uses rusqlite: the outcome of each manifest of each commit, in one SQLite file.
//!
//! The file may be lost and nothing else changes: the state that belay needs is in the cluster, on the objects.

mod error;
mod notices;
pub mod query;
mod store;
mod write;

pub use error::HistoryError;
pub use notices::lasting::{Lasting, LastingKind, NotedLasting};
pub use notices::{CommitOutcome, Notice, NoticeAbout, Pending};
pub use query::baselines::{JudgedBake, JudgedBaseline, JudgedWrite};
pub use query::drift::Drifted;
pub use query::records::{Arrival, FAILED, Heads, Query, Resolved};
pub use query::standing::{Follower, HeldStatus, ObjectStanding, PublishedRollout, PublishedSource, SourceStanding};
pub use query::stats::{By, Spread, Stats, StatsQuery};
pub use query::templates::{KeptTemplate, LastGood};
pub use query::timeline::TimelineEntry;
pub use store::file::{History, OpenedHistory};
pub use store::private::check_owner;
pub use write::Update;
pub use write::entry::HistoryEntry;
pub use write::fallback_template::FallbackTemplate;
pub use write::noted_disputes::NotedDispute;
pub use write::rebuild::{Followed, Trouble};
pub use write::retention::Retention;
