//! One fetch of a repository: read within its limits, a damaged mirror set aside and fetched again, and a repository
//! whose reading has brought belay down left alone for a while, so that the other sources go on.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::head_change::HeadChange;
use super::source_repository::Repository;
use crate::daemon::source::state::Source;
use crate::git::{Follow, GitError, Mirror};
use belay_core::rollout::CommitId;

/// Held while a repository is read that has brought belay down: of those, one is read at a time.
static ALONE: Mutex<()> = Mutex::new(());

impl Repository {
    /// Fetches, and reads the head if it is there. A mirror that turns out to be damaged is set aside and fetched
    /// again, once.
    pub fn look(
        &self,
        follow: &Follow,
        stop: &CancellationToken,
        mut read: impl FnMut(&CommitId) -> Result<Option<HeadChange>, GitError>,
    ) -> Result<(Option<CommitId>, Option<HeadChange>), GitError> {
        let careful = self.mirror.unended_attempts() > 0;
        let _alone = careful.then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
        let mut attempt = || -> Result<_, GitError> {
            self.mirror.fetch(follow, stop)?;
            let head = self.mirror.head(follow)?;
            let news = head.as_ref().map(&mut read).transpose()?.flatten();
            Ok((head, news))
        };
        match attempt() {
            Err(damaged) if damaged.wants_a_new_mirror() => {
                let set_aside = self.mirror.start_over()?;
                warn!(error = %damaged, set_aside = %set_aside.display(), "the mirror is damaged: set aside, and fetched anew");
                attempt()
            }
            looked => looked,
        }
    }
}

impl Source {
    /// Leaves the repository alone for a while where belay ended while it read it, and says so.
    pub fn wait_after_crashes(&mut self) {
        let unended = self.fetching.repository.mirror.unended_attempts();
        if unended == 0 {
            return;
        }
        let rest = Mirror::rest_after(unended);
        let until = Instant::now() + rest;
        self.state.fetch.rest(until);
        let times = if unended == 1 { "once".to_owned() } else { format!("{unended} times in a row") };
        let message = format!(
            "quarantined: belay ended {times} while it fetched or read this repository (killed for its memory, or by hand); \
             it is tried again, alone, in {} s; other sources go on; if it happens again, look for large files in its \
             newest commits",
            rest.as_secs()
        );
        error!(source = self.context.config.name, message);
        self.repository_trouble(Some(message));
    }
}
