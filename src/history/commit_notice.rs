//! The outcome of a commit, and whether it is news after the last notice of it.

use std::collections::BTreeMap;

use belay_core::rollout::{CommitId, Outcome, Trigger};

/// The message of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::history) struct NoticeState {
    pub(in crate::history) outcome: Outcome,
    /// The number of objects without a good outcome.
    pub(in crate::history) wrong: i64,
    pub(in crate::history) is_final: bool,
}

impl NoticeState {
    /// The message that something of a commit has begun.
    pub(in crate::history) const BEGUN: NoticeState =
        NoticeState { outcome: Outcome::Planned, wrong: 0, is_final: false };

    /// Returns the message of a commit of which nothing is open, by the newest record of each of its objects.
    pub(in crate::history) fn of_ended(newest: &[(i64, Outcome)]) -> NoticeState {
        let wrong = newest.iter().filter(|(_, outcome)| outcome.rank().is_some()).count();
        NoticeState { outcome: worst(newest), wrong: i64::try_from(wrong).unwrap_or(i64::MAX), is_final: true }
    }

    /// Returns the message of an end while something of the commit is open, if it is worse than the last message.
    pub(in crate::history) fn of_worse(outcome: Outcome, said: Option<NoticeState>) -> Option<NoticeState> {
        let worse = |said: NoticeState| outcome.rank() < said.outcome.rank() || said.outcome.rank().is_none();
        let is_news = outcome.rank().is_some() && said.is_none_or(worse);
        is_news.then_some(NoticeState { outcome, wrong: 1, is_final: false })
    }

    /// Returns true when a notice of the commit is only that it has begun: it says nothing of its outcome, but an end is
    /// to follow.
    pub(in crate::history) fn is_begun(self) -> bool {
        self.outcome == Outcome::Planned
    }

    /// Returns true when this end of a commit is as the last message says: a good end of the rest is no news if another
    /// object was reported as wrong, and still is.
    pub(in crate::history) fn is_as(self, said: NoticeState) -> bool {
        (said.outcome, said.wrong) == (self.outcome, self.wrong) && (said.is_final || self.outcome.rank().is_some())
    }

    /// Returns true when this end of the commits before the first head is news: a good end is none, and neither is a
    /// later improvement.
    pub(in crate::history) fn is_news_of_past(self, said: Option<NoticeState>) -> bool {
        let more = |said: NoticeState| self.outcome.rank() < said.outcome.rank() || self.wrong > said.wrong;
        self.outcome.rank().is_some() && said.is_none_or(more)
    }
}

impl EndedRecord<'_> {
    /// Returns true when the end says nothing that is to be sent, whatever became of the rest of the commit: it corrected
    /// a change by others, or it changed nothing and nobody heard of the commit.
    pub(in crate::history) fn says_nothing(self, is_heard_of: bool) -> bool {
        let good = self.outcome.rank().is_none();
        good && !says_something(self.trigger) || self.outcome == Outcome::Unchanged && !is_heard_of
    }
}

/// A record that has ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::history) struct EndedRecord<'r> {
    pub(in crate::history) plan: i64,
    pub(in crate::history) source: &'r str,
    pub(in crate::history) commit: &'r CommitId,
    pub(in crate::history) outcome: Outcome,
    pub(in crate::history) trigger: &'r Trigger,
}

impl EndedRecord<'_> {
    /// Returns the one of the two that ended worse.
    pub(in crate::history) fn worse(self, other: Self) -> Self {
        let rank = |ended: Self| ended.outcome.rank().unwrap_or(usize::MAX);
        if rank(other) < rank(self) { other } else { self }
    }
}

/// Returns true when a good end with this trigger says anything of its commit: nothing if belay corrected a change by
/// others.
#[must_use]
pub fn says_something(trigger: &Trigger) -> bool {
    !matches!(trigger, Trigger::Drift(_) | Trigger::Autoscaler(_) | Trigger::Rebuilt)
}

/// Returns the worst of these; else that a newer commit took the place of some; else that all is complete.
fn worst(records: &[(i64, Outcome)]) -> Outcome {
    let outcomes = || records.iter().map(|(_, outcome)| *outcome);
    let wrong = outcomes().filter_map(Outcome::rank).min().map(|rank| Outcome::WRONG[rank]);
    let superseded = || outcomes().find(|outcome| *outcome == Outcome::Superseded);
    wrong.or_else(superseded).unwrap_or(Outcome::Complete)
}

/// Returns how many objects have each outcome, and the records of those that went wrong, the worst first.
pub(in crate::history) fn outcomes_of(newest: &[(i64, Outcome)]) -> (BTreeMap<Outcome, u64>, Vec<i64>) {
    let mut objects = BTreeMap::new();
    let mut wrong = Vec::new();
    for (number, outcome) in newest {
        *objects.entry(*outcome).or_default() += 1;
        wrong.extend(outcome.rank().map(|rank| (rank, *number)));
    }
    wrong.sort_unstable();
    (objects, wrong.into_iter().map(|(_, number)| number).collect())
}
