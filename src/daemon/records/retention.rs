//! Retention: the history within its bounds, and in the mirror the commits that it names.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::{info, warn};

use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::repository::source_repository::Repository;
use crate::daemon::shared::context::Context;
use crate::history::HistoryError;
use belay_core::rollout::CommitId;

impl Repository {
    /// Pins the commits that a plan is about to name, so that no force-push removes them. Returns the trouble with that.
    pub async fn pin(&self, commits: BTreeSet<CommitId>) -> Option<String> {
        let mirror = Arc::clone(&self.mirror);
        // Commits that nobody has are those of manifests that were live before belay came.
        let pinned = self.blocking_pool.run(move || mirror.pin(&commits)).await;
        pinned.err().map(|error| error.to_string())
    }
}

impl Context {
    /// Forgets old records, and pins just the commits that the history still names; `collects` says whether the garbage of the
    /// mirror is collected then. Returns the trouble with that.
    pub async fn tidy_up(self: &Arc<Context>, collects: bool) -> Option<String> {
        let context = Arc::clone(self);
        let (mirror, now) = (Arc::clone(&self.repository.mirror), self.clock.now());
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
        self.repository.blocking_pool.run(tidy).await.err()
    }

    /// Hears whether commits were kept, and records forgotten. A failed clean-up is tried again with the next plan, at the
    /// latest tomorrow.
    pub fn kept(&self, trouble: Option<String>) {
        if let Some(trouble) = &trouble {
            warn!(trouble, "failed to keep what the history names");
        }
        self.status.trouble(&Obstacle::Retention, trouble);
    }
}
