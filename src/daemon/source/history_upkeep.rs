//! The upkeep of the source's part of the history: old records, the commits that it names, and a new beginning after it was
//! lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::state::{Event, Recorded, Source};
use super::task_result::TaskResult;
use crate::history::{Followed, Trouble};
use belay_core::rollout::{CommitId, Record};

/// The period between two clean-ups of old records.
const EVERY: Duration = Duration::from_hours(24);
/// The time from the start after which the garbage of the mirror is collected first.
const COLLECT_AFTER: Duration = Duration::from_mins(1);

impl Recorded {
    /// Notes that old records are forgotten now, and when they are next. Returns true if the garbage of the mirror is collected:
    /// a run that ends with its head, as `run --once` does, begins no garbage collection, which it would break off.
    fn tidies(&mut self, now: Instant) -> bool {
        let collects = std::mem::replace(&mut self.tidied, true);
        self.next_tidy = now + if collects { EVERY } else { COLLECT_AFTER };
        collects
    }
}

impl Source {
    /// Pins the commits that a plan is about to name, beside the loop.
    pub fn pin(&mut self, records: &[Record]) {
        let mut commits: BTreeSet<CommitId> = records.iter().map(|record| record.commit.clone()).collect();
        commits.extend(self.state.planning().planned().cloned());
        let repository = self.fetching.repository.clone();
        self.tasks.spawn(async move { TaskResult::Kept(repository.pin(commits).await) });
    }

    /// Forgets old records, and pins just the commits that the history still names, beside the loop.
    pub fn tidy_up(&mut self) {
        let collects = self.recorded.tidies(Instant::now());
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move { TaskResult::Kept(context.tidy_up(collects).await) });
    }

    /// Begins again after the history has, because the file was damaged while it was in use: live objects are planned
    /// again, and rollouts under way get a record again.
    pub fn renew_history_if_lost(&mut self) {
        let begun = self.context.history.begun();
        if std::mem::replace(&mut self.recorded.history, begun) == begun {
            return;
        }
        warn!("the records of the source were lost with the history; planning anew");
        self.on(Event::HistoryLost);
        self.recorded.standing = None;
        self.context.note_standings_again();
        self.context.holds.write_again();
    }

    /// Notes the subject of each source and its trouble, for explaining commits that were not rolled out.
    pub fn note_what_is_followed(&self, trouble: Option<Trouble>) {
        let followed = Followed {
            source: self.context.config.name.clone(),
            folders: self.fetching.repository.paths.written().to_vec(),
            follow: self.fetching.follow.to_string(),
            trouble,
        };
        if let Err(error) = self.context.history.follows(&followed) {
            warn!(source = followed.source, %error, "failed to note what is followed");
        }
    }
}
