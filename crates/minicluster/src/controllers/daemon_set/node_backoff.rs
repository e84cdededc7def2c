//! Pauses between attempts to run a pod on a node where it ends again and again.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The first pause; it doubles with each attempt up to the last.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_mins(15);

/// Pauses by set and node.
#[derive(Debug, Default)]
pub struct NodeBackoff(Mutex<BTreeMap<(String, String), (Instant, Duration)>>);

impl NodeBackoff {
    /// Allows another attempt now, which then counts as made. Otherwise how long to wait.
    pub fn may_try(&self, set: &str, node: &str) -> Result<(), Duration> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // An entry that was quiet for long is forgotten.
        all.retain(|_, (last, _)| now.duration_since(*last) < LAST * 2);
        let key = (set.to_owned(), node.to_owned());
        let Some((last, pause)) = all.get(&key).copied() else {
            all.insert(key, (now, FIRST));
            return Ok(());
        };
        let passed = now.duration_since(last);
        if passed < pause {
            return Err(pause - passed);
        }
        all.insert(key, (now, (pause * 2).min(LAST)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::NodeBackoff;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn pauses_double() {
        let node_backoff = NodeBackoff::default();
        let mut waits = Vec::new();
        for _ in 0..5 {
            while let Err(wait) = node_backoff.may_try("set", "node") {
                waits.push(wait.as_secs());
                tokio::time::advance(wait).await;
            }
        }
        assert_eq!(waits, [1, 2, 4, 8]);
        assert!(node_backoff.may_try("set", "other").is_ok());
        tokio::time::advance(Duration::from_hours(1)).await;
        assert!(node_backoff.may_try("set", "node").is_ok());
    }
}
