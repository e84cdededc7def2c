//! An unanswering API server is reported once, with the number of requests concerned, not once for each of them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use crate::backoff::Backoff;

/// The time for which no more of it is logged, the first time.
const QUIET: Duration = Duration::from_mins(1);
/// The longest.
const QUIET_LONGEST: Duration = Duration::from_mins(16);

/// The state of the server: it answers, or not.
#[derive(Debug, Default)]
pub(super) struct Outage(Mutex<OutageState>);

#[derive(Debug)]
struct OutageState {
    since: Option<Instant>,
    /// The number of requests that have failed since.
    failed: u64,
    /// True when this outage was reported.
    told: bool,
    /// The time until which no more is reported.
    quiet_until: Option<Instant>,
    quiet: Backoff,
}

impl Default for OutageState {
    fn default() -> OutageState {
        let quiet = Backoff::between(QUIET, QUIET_LONGEST);
        OutageState { since: None, failed: 0, told: false, quiet_until: None, quiet }
    }
}

impl Outage {
    /// Notes that a request had no answer.
    pub(super) fn failed(&self, message: &str) {
        let now = Instant::now();
        let mut state = self.state();
        let since = *state.since.get_or_insert(now);
        state.failed += 1;
        if state.quiet_until.is_some_and(|until| now < until) {
            return;
        }
        state.quiet_until = Some(now + state.quiet.wait());
        state.told = true;
        let (seconds, failed) = ((now - since).as_secs(), state.failed);
        warn!(seconds, failed, error = message, "the API server does not answer; all that waits for it is tried again");
    }

    /// Notes that a request had an answer.
    pub(super) fn answered(&self) {
        let mut state = self.state();
        let Some(since) = state.since.take() else { return };
        let failed = std::mem::take(&mut state.failed);
        state.quiet.reset();
        if std::mem::take(&mut state.told) {
            info!(seconds = since.elapsed().as_secs(), failed, "the API server answers again");
        }
    }

    fn state(&self) -> MutexGuard<'_, OutageState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn thousands_of_failures_are_a_few_lines() {
        let outage = Outage::default();
        let told = |outage: &Outage| outage.state().quiet_until;
        let mut lines = std::collections::BTreeSet::new();
        for _ in 0..3600 {
            outage.failed("refused");
            lines.insert(told(&outage));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!((5..=9).contains(&lines.len()), "{} lines in an hour", lines.len());
        outage.answered();
        assert!(outage.state().since.is_none() && outage.state().failed == 0);
        // It comes and goes: not each time is reported.
        tokio::time::sleep(QUIET_LONGEST).await;
        lines.clear();
        for _ in 0..60 {
            outage.failed("refused");
            outage.answered();
            lines.insert(told(&outage));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(lines.len() <= 2, "{lines:?}");
    }
}
