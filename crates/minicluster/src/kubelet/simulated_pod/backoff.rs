//! The back-off before something that failed is tried again: 10 s, doubling to 5 min.

use std::time::Duration;

use jiff::Timestamp;

use super::environment::PodEnvironment;

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);

/// The waits of one container's restarts, or of its image's pulls: the last try, and how long to wait after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff(Option<(Timestamp, Duration)>);

impl Backoff {
    /// As it stands after so many tries, the last of them at `last`.
    pub fn after_tries(tries: u32, last: Timestamp) -> Backoff {
        let delay = FIRST * (1 << tries.saturating_sub(1).min(5));
        Backoff((tries > 0).then(|| (last, delay.min(LONGEST))))
    }

    /// Returns how long after a failure at `failed` to wait; `None` if not at all, as after the first failure and after
    /// a run of more than twice the longest wait.
    pub fn wait(&self, failed: Timestamp, environment: &PodEnvironment<'_>) -> Option<Duration> {
        let (last, delay) = self.0?;
        (failed <= environment.after(last, LONGEST * 2)).then_some(delay)
    }

    /// Notes that it is tried again now.
    pub fn tried(&mut self, environment: &PodEnvironment<'_>) {
        let recent = self.0.filter(|(last, _)| environment.now <= environment.after(*last, LONGEST * 2));
        let delay = recent.map_or(FIRST, |(_, delay)| (delay * 2).min(LONGEST));
        self.0 = Some((environment.now, delay));
    }
}
