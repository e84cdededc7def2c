//! One fetch of a repository: read within its limits, a damaged mirror set aside and fetched again, and a repository
//! whose reading has brought belay down left alone for a while, so that the other sources go on.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::head_change::HeadChange;
use super::source_repository::Repository;
use crate::git::{Follow, GitError};
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

/// Returns the report that a repository is left alone, after belay ended so many times while it read it.
pub fn quarantined(times: u32, rest: Duration) -> String {
    let times = if times == 1 { "once".to_owned() } else { format!("{times} times in a row") };
    format!(
        "quarantined: belay ended {times} while it fetched or read this repository (killed for its memory, or by hand); \
         it is tried again, alone, in {} s; other sources go on; if it happens again, look for large files in its \
         newest commits",
        rest.as_secs()
    )
}
