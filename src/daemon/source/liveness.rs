//! Checks that the loop of each source still turns. The daemon answers systemd's watchdog only while they do: a runtime
//! that lives says nothing about a loop that hangs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

/// The loops of a daemon's sources. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Liveness {
    /// Each with the name of its source.
    loops: Arc<Mutex<Vec<LoopOf>>>,
}

type LoopOf = (String, Weak<LoopHeartbeat>);

/// The answer of a loop.
#[derive(Debug)]
pub struct LoopHeartbeat {
    asked: Notify,
    answered: AtomicBool,
}

impl Liveness {
    /// Returns the sources whose loop has not turned since the last call, by name. Asks every loop again. A source
    /// whose loop has ended, or that another belay follows, is not among them.
    #[must_use]
    pub fn hanging(&self) -> Vec<String> {
        let mut loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|(_, heartbeat)| heartbeat.strong_count() > 0);
        let silent = |heartbeat: Arc<LoopHeartbeat>| {
            heartbeat.asked.notify_one();
            !heartbeat.answered.swap(false, Ordering::Relaxed)
        };
        loops
            .iter()
            .filter(|(_, heartbeat)| heartbeat.upgrade().is_some_and(silent))
            .map(|(source, _)| source.clone())
            .collect()
    }

    /// Returns one more loop, which counts as long as the returned value is kept.
    pub fn of_loop(&self, source: &str) -> Arc<LoopHeartbeat> {
        let heartbeat = Arc::new(LoopHeartbeat { asked: Notify::new(), answered: AtomicBool::new(true) });
        self.loops.lock().unwrap_or_else(PoisonError::into_inner).push((source.to_owned(), Arc::downgrade(&heartbeat)));
        heartbeat
    }
}

impl LoopHeartbeat {
    /// Returns when the loop is asked whether it turns.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Answers that the loop turns.
    pub fn answer(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_loop_that_turns_is_alive() {
        let liveness = Liveness::default();
        let (web, shop) = (liveness.of_loop("web"), liveness.of_loop("shop"));
        assert!(liveness.hanging().is_empty(), "none has been asked yet");
        web.asked().await;
        web.answer();
        assert_eq!(liveness.hanging(), ["shop"]);
        web.asked().await;
        web.answer();
        shop.asked().await;
        shop.answer();
        assert!(liveness.hanging().is_empty(), "it turns again");
        drop(shop);
        web.asked().await;
        web.answer();
        assert!(liveness.hanging().is_empty(), "its loop has ended");
        assert_eq!(liveness.hanging(), ["web"]);
    }
}
