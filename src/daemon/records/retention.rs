//! Retention: the history within its bounds, and in the mirror the commits that it names.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::source::state::Source;
use crate::daemon::source::task_result::TaskResult;
use crate::history::HistoryError;
use belay_core::rollout::{CommitId, Record};

/// The period between two clean-ups of old records.
const EVERY: Duration = Duration::from_hours(24);
/// The time from the start after which the garbage of the mirror is collected first.
const COLLECT_AFTER: Duration = Duration::from_mins(1);

impl Source {
    /// Pins the commits that a plan is about to name, so that no force-push removes them.
    pub fn pin(&mut self, records: &[Record]) {
        let mut commits: BTreeSet<CommitId> = records.iter().map(|record| record.commit.clone()).collect();
        commits.extend(self.state.planning.planned.clone());
        let (mirror, blocking_pool) =
            (Arc::clone(&self.fetching.repository.mirror), self.fetching.repository.blocking_pool.clone());
        self.tasks.spawn(async move {
            // Commits that nobody has are those of manifests that were live before belay came.
            let pinned = blocking_pool.run(move || mirror.pin(&commits)).await;
            TaskResult::Kept(pinned.err().map(|error| error.to_string()))
        });
    }

    /// Forgets old records, and pins just the commits that the history still names.
    pub fn tidy_up(&mut self) {
        // A run that ends with its head, as `run --once` does, begins no garbage collection, which it would break off.
        let collects = std::mem::replace(&mut self.recorded.tidied, true);
        self.recorded.next_tidy = Instant::now() + if collects { EVERY } else { COLLECT_AFTER };
        let context = Arc::clone(&self.context);
        let (mirror, now) = (Arc::clone(&self.fetching.repository.mirror), context.clock.now());
        let blocking_pool = self.fetching.repository.blocking_pool.clone();
        self.tasks.spawn(async move {
            let tidy = move || {
                if context.begin_anew_if_damaged().map_err(|error| error.to_string())? {
                    return Ok(());
                }
                let mend = |error: HistoryError| {
                    context.mend(&error);
                    error.to_string()
                };
                let forgotten = context.history.forget(&context.cleanup.retention, now).map_err(mend)?;
                if forgotten > 0 {
                    info!(forgotten, "forgot old records");
                }
                let named = context.history.pinned_commits().map_err(mend)?;
                let pinned = if collects { mirror.pin_only(&named) } else { mirror.unpin_others(&named) };
                pinned.map(drop).map_err(|error| error.to_string())
            };
            TaskResult::Kept(blocking_pool.run(tidy).await.err())
        });
    }

    /// Hears whether that worked. A failed clean-up is tried again with the next plan, at the latest tomorrow.
    pub fn kept(&self, trouble: Option<String>) {
        if let Some(trouble) = &trouble {
            warn!(trouble, "failed to keep what the history names");
        }
        self.context.status.trouble(&Obstacle::Retention, trouble);
    }
}
