//! The outbox: outcomes of commits to be sent, and the progress of each receiver.

use std::collections::BTreeMap;

use jiff::Timestamp;

use belay_core::rollout::{CommitId, Outcome, Record};

/// A notice of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Its number: larger for a later one.
    pub number: i64,
    /// The source.
    pub source: String,
    /// Its subject.
    pub about: NoticeAbout,
    /// True when nothing of it was under way any more.
    pub is_final: bool,
    /// When that was so.
    pub at: Timestamp,
    /// The time since which a lasting trouble is so.
    pub since: Option<Timestamp>,
}

/// The subject of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeAbout {
    /// The outcome of a commit: the worst of its objects.
    Commit(CommitId, Outcome),
    /// The worst outcome of the commits before this head, at which the source was first followed.
    Past(CommitId, Outcome),
    /// A commit whose manifest has been held for long.
    Held(CommitId),
    /// A source that has been blocked for long, and the reason; with `None`, one that no longer is.
    Source(Option<String>),
    /// A disagreement of somebody else and belay about an object, with its description.
    Disagreement(String),
}

impl Notice {
    /// Returns the commit that it names.
    #[must_use]
    pub fn commit(&self) -> Option<&CommitId> {
        match &self.about {
            NoticeAbout::Commit(commit, _) | NoticeAbout::Past(commit, _) | NoticeAbout::Held(commit) => Some(commit),
            NoticeAbout::Source(_) | NoticeAbout::Disagreement(_) => None,
        }
    }

    /// Returns true when it is about a lasting trouble; one message covers several of these.
    #[must_use]
    pub fn lasts(&self) -> bool {
        matches!(self.about, NoticeAbout::Held(_) | NoticeAbout::Source(_) | NoticeAbout::Disagreement(_))
    }
}

/// The next notice of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// It.
    pub notice: Notice,
    /// The notices of the same kind right after it, which are sent together with it: only of lasting conditions.
    pub together: Vec<Notice>,
    /// The number of tries of the receiver since it last took one. An attempt under way counts.
    pub attempts: u32,
    /// It is not to be tried again before.
    pub retry: Option<Timestamp>,
}

/// The outcome of a commit in a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitOutcome {
    /// The number of its objects by outcome.
    pub objects: BTreeMap<Outcome, u64>,
    /// The records of those that went wrong, the worst first; only so many as were asked for.
    pub wrong: Vec<Record>,
}

impl Pending {
    /// Returns the number of the last notice that is sent with it.
    #[must_use]
    pub fn last(&self) -> i64 {
        self.together.last().map_or(self.notice.number, |notice| notice.number)
    }

    /// Returns all notices that are sent with it.
    pub fn notices(&self) -> impl Iterator<Item = &Notice> {
        std::iter::once(&self.notice).chain(&self.together)
    }
}
