//! `belay sync --now`: a person lets the head that waits for a window through, once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The request of one source: it counts for the head that waits when it is asked, and for no other.
#[derive(Debug, Default)]
pub struct SyncNow {
    state: Mutex<SyncNowState>,
    asked: Notify,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum SyncNowState {
    #[default]
    NothingWaits,
    Waits,
    /// Asked by this person.
    Asked(String),
}

impl SyncNow {
    fn state(&self) -> MutexGuard<'_, SyncNowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a head begins to wait. A request for an older one does not count for it.
    pub fn begin_wait(&self) {
        *self.state() = SyncNowState::Waits;
    }

    /// Notes that the head does not wait any more. Returns who let it through, if somebody did.
    pub fn end_wait(&self) -> Option<String> {
        match std::mem::take(&mut *self.state()) {
            SyncNowState::Asked(by) => Some(by),
            SyncNowState::NothingWaits | SyncNowState::Waits => None,
        }
    }

    /// Lets the head through that waits. Returns false if none does.
    pub fn ask(&self, by: &str) -> bool {
        let mut state = self.state();
        if *state == SyncNowState::NothingWaits {
            return false;
        }
        *state = SyncNowState::Asked(by.to_owned());
        self.asked.notify_one();
        true
    }

    /// Returns true when the head that waits is let through.
    pub fn is_asked(&self) -> bool {
        matches!(*self.state(), SyncNowState::Asked(_))
    }

    /// Waits until it is asked, perhaps for a head of before.
    pub async fn news(&self) {
        self.asked.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_for_the_head_that_waits_alone() {
        let request = SyncNow::default();
        assert!(!request.ask("ada"), "nothing waits");
        request.begin_wait();
        assert!(request.ask("ada") && request.is_asked());
        // A newer head takes its place.
        request.begin_wait();
        assert!(!request.is_asked());
        assert_eq!(request.end_wait(), None);
        request.begin_wait();
        assert!(request.ask("grace"));
        assert_eq!(request.end_wait().as_deref(), Some("grace"));
        assert!(!request.ask("ada") && request.end_wait().is_none());
    }
}
