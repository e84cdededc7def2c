//! `belay sync --now`: a person lets the head that waits for a window through, once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The pass of one source: it counts for the head that waits when it is given, and for no other.
#[derive(Debug, Default)]
pub struct WindowPass {
    state: Mutex<PassState>,
    given: Notify,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum PassState {
    #[default]
    NothingWaits,
    Waits,
    /// Given by this person.
    Given(String),
}

impl WindowPass {
    fn state(&self) -> MutexGuard<'_, PassState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a head begins to wait. A pass for an older one does not count for it.
    pub fn begin_wait(&self) {
        *self.state() = PassState::Waits;
    }

    /// Notes that the head does not wait any more. Returns who let it through, if somebody did.
    pub fn end_wait(&self) -> Option<String> {
        match std::mem::take(&mut *self.state()) {
            PassState::Given(by) => Some(by),
            PassState::NothingWaits | PassState::Waits => None,
        }
    }

    /// Lets the head through that waits. Returns false if none does.
    pub fn give(&self, by: &str) -> bool {
        let mut state = self.state();
        if *state == PassState::NothingWaits {
            return false;
        }
        *state = PassState::Given(by.to_owned());
        self.given.notify_one();
        true
    }

    /// Returns true when the head that waits is let through.
    pub fn is_given(&self) -> bool {
        matches!(*self.state(), PassState::Given(_))
    }

    /// Waits until a pass is given, perhaps one of before.
    pub async fn news(&self) {
        self.given.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_counts_for_the_head_that_waits_alone() {
        let pass = WindowPass::default();
        assert!(!pass.give("ada"), "nothing waits");
        pass.begin_wait();
        assert!(pass.give("ada") && pass.is_given());
        // A newer head takes its place.
        pass.begin_wait();
        assert!(!pass.is_given());
        assert_eq!(pass.end_wait(), None);
        pass.begin_wait();
        assert!(pass.give("grace"));
        assert_eq!(pass.end_wait().as_deref(), Some("grace"));
        assert!(!pass.give("ada") && pass.end_wait().is_none());
    }
}
