//! The outcome of each manifest of each commit.
//!
//! Here are its plain types, its questions and the computations on them; `query` puts answers together from several
//! questions, and `sqlite` keeps it all in one file: the only folder that uses rusqlite, beside which another store could
//! stand. In go records, steps and notices of the daemon; out come answers to people, programs and the daemon itself.
//!
//! The file may be lost and nothing else changes: the state that belay needs is in the cluster, on the objects.

mod baselines;
mod commit_notice;
mod disk_space;
mod drift;
mod entry;
mod error;
mod fallback_template;
mod folded;
mod followed;
mod kept_evidence;
mod lasting;
mod location;
mod noted_disputes;
mod opened;
mod outbox;
mod private;
pub mod query;
mod records;
mod retention;
mod sqlite;
mod standing;
mod stats;
mod templates;
mod timeline;

pub use baselines::{JudgedBake, JudgedBaseline, JudgedWrite};
pub use commit_notice::says_something;
pub use drift::Drifted;
pub use entry::{HistoryEntry, Update};
pub use error::HistoryError;
pub use fallback_template::FallbackTemplate;
pub use followed::{Followed, Trouble};
pub use lasting::{Lasting, LastingKind, NotedLasting};
pub use location::HistoryLocation;
pub use noted_disputes::NotedDispute;
pub use opened::OpenedHistory;
pub use outbox::{CommitOutcome, Notice, NoticeAbout, Pending};
pub use private::check_owner;
pub use records::{Arrival, FAILED, FetchTimes, Heads, Query, Resolved};
pub use retention::Retention;
pub use sqlite::History;
pub use standing::{Follower, HeldStatus, ObjectStanding, PublishedRollout, PublishedSource, SourceStanding};
pub use stats::{By, Spread, Stats, StatsQuery};
pub use templates::{KeptTemplate, LastGood};
pub use timeline::TimelineEntry;
