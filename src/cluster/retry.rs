//! Retries after a fault of the infrastructure: with a back-off, without an end, until cancelled.

use std::future::Future;
use std::time::Duration;

use tracing::{debug, warn};

use super::ClusterError;
pub use crate::backoff::Backoff;
use belay_core::rollout::lasting_words;

/// The first wait.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(30);

/// The number of troubles of one kind that are logged; more of them, one after the other, are not.
const TROUBLES: usize = 8;

/// The troubles of something that is tried again, as they were logged: each is logged once, also if a time, a number or an id
/// in its words is another each time.
#[derive(Debug, Default)]
pub struct LoggedTrouble(Vec<String>);

impl LoggedTrouble {
    /// Logs that something is tried again, if that is news.
    pub fn tell(&mut self, error: &ClusterError, wait: Duration) {
        let wait_ms = wait.as_millis();
        if self.is_news(error) {
            warn!(%error, wait_ms, "trying again, until it is done; not told again");
        } else {
            debug!(%error, wait_ms, "trying again");
        }
    }

    /// Notes an error; returns true when it is to be logged.
    pub(super) fn is_news(&mut self, error: &ClusterError) -> bool {
        let trouble = lasting_words(&error.to_string());
        if error.is_silence() || self.0.len() >= TROUBLES || self.0.contains(&trouble) {
            return false;
        }
        self.0.push(trouble);
        true
    }
}

impl Default for Backoff {
    /// Returns the waits between requests to the API server.
    fn default() -> Backoff {
        Backoff::between(FIRST, LONGEST)
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.wait())
    }
}

impl kube::runtime::utils::Backoff for Backoff {
    fn reset(&mut self) {
        Backoff::reset(self);
    }
}

impl Backoff {
    /// Returns the next wait, after an error. A server that says when to come back is believed, up to a minute.
    pub fn after(&mut self, error: &ClusterError) -> Duration {
        let wait = self.wait();
        match error {
            ClusterError::Away { retry_after_seconds: Some(seconds), .. } => {
                wait.max(Duration::from_secs(u64::from(*seconds).min(60)))
            }
            _ => wait,
        }
    }

    /// Does something until it is answered: for as long as the API server can do nothing at all. A server that does not
    /// allow it, or can't serve only this, has answered.
    ///
    /// # Errors
    /// Everything but an outage, and a write of somebody else at the same moment.
    pub async fn until_answered<T, F>(
        say: impl Fn(&ClusterError),
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let attempt = || {
            let answer = attempt();
            async move {
                match answer.await {
                    Err(error) if error.is_own() || matches!(error, ClusterError::Denied { .. }) => Ok(Err(error)),
                    answer => answer.map(Ok),
                }
            }
        };
        Backoff::retry(say, attempt).await.and_then(|answer| answer)
    }

    /// Does something until it succeeds or is refused. `say` hears of every failure that is tried again.
    ///
    /// # Errors
    /// [`ClusterError::Refused`], which trying again does not change, and [`ClusterError::Missing`], which the caller
    /// knows better how to wait for.
    pub async fn retry<T, F>(say: impl Fn(&ClusterError), mut attempt: impl FnMut() -> F) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let mut backoff = Backoff::default();
        let mut told = LoggedTrouble::default();
        loop {
            match attempt().await {
                Err(error @ (ClusterError::Away { .. } | ClusterError::Denied { .. })) => {
                    say(&error);
                    let wait = backoff.after(&error);
                    told.tell(&error, wait);
                    tokio::time::sleep(wait).await;
                }
                answer => return answer,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_logged_once_whatever_numbers_it_has() {
        let mut logged = LoggedTrouble::default();
        let mut is_news = |message: &str| logged.is_news(&ClusterError::away("apply ConfigMap a", message));
        assert!(is_news("the webhook is down, at 10:00:01"));
        assert!(!is_news("the webhook is down, at 10:00:02"));
        assert!(is_news("the certificate has expired") && !is_news("the webhook is down, at 10:00:03"));
        let words = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        assert_eq!(words.iter().filter(|word| is_news(word)).count(), TROUBLES - 2);
        let silent = ClusterError::silence("apply ConfigMap a", "nobody answers");
        assert!(!LoggedTrouble::default().is_news(&silent));
    }
}
