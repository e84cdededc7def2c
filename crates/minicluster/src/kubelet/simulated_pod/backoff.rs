//! How long to wait before something that failed is tried again: 10 s, doubling to 5 min.

use std::time::Duration;

use jiff::Timestamp;

use super::environment::PodEnvironment;

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);

/// The waits of one container's restarts, or of its image's pulls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    delay: Duration,
    last: Option<Timestamp>,
}

impl Backoff {
    /// As it stands after so many tries, the last of them at `last`.
    pub fn after_tries(tries: u32, last: Timestamp) -> Backoff {
        let delay = FIRST * (1 << tries.saturating_sub(1).min(5));
        if tries == 0 { Backoff::default() } else { Backoff { delay: delay.min(LONGEST), last: Some(last) } }
    }

    /// How long after a failure at `failed` to wait; `None` if not at all, as after the first failure and after a run
    /// of more than twice the longest wait.
    pub fn wait(&self, failed: Timestamp, environment: &PodEnvironment<'_>) -> Option<Duration> {
        let last = self.last?;
        (failed <= environment.after(last, LONGEST * 2)).then_some(self.delay)
    }

    /// It is tried again now.
    pub fn tried(&mut self, environment: &PodEnvironment<'_>) {
        let stale = self.last.is_none_or(|last| environment.now > environment.after(last, LONGEST * 2));
        self.delay = if stale { FIRST } else { (self.delay * 2).min(LONGEST) };
        self.last = Some(environment.now);
    }
}
