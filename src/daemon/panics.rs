//! A panic is a fault of belay's own. What it was doing for one object ends; the object's source goes on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt as _;
use tokio::time::Instant;
use tracing::error;

use super::event_queue::Telling;
use super::source::Source;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, Reason, RecordId};

/// How often a rollout is taken up again that ended by a panic, before it counts as failed.
const FAULTS: u32 = 3;

/// The reason code of what belay itself did wrong.
pub(super) const INTERNAL_ERROR: &str = "InternalError";

/// What a future comes to, or what its panic says. Whatever it changed must be right in any state.
pub(super) async fn contained<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| text_of(&*panic))
}

/// The same for what does not wait.
pub(super) fn contained_now<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| text_of(&*panic))
}

/// The reason of a record that ends by a panic.
pub(super) fn internal_error(what: &impl std::fmt::Display, panic: &str) -> Reason {
    error!(object = %what, panic, "belay's own fault: a panic");
    let message = format!("belay's own fault, not the manifest's: {panic}; please report it, with this manifest");
    Reason { code: INTERNAL_ERROR.to_owned(), message }
}

/// What a panic says.
pub(super) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}

impl Source {
    /// Does something of the loop's own. A panic in it does not end the loop.
    pub(super) fn contained(&mut self, act: impl FnOnce(&mut Source)) {
        if let Err(panic) = contained_now(|| act(self)) {
            self.fault(&panic);
        }
    }

    /// A panic of ours, outside of a rollout: what it was doing is begun again.
    pub(super) fn fault(&mut self, error: &dyn std::fmt::Display) {
        error!(%error, "belay's own fault: a task panicked");
        self.context.status.trouble("belay", Some(format!("belay's own fault: {error}")));
        self.fetching.looking = None;
        self.drift.checking = false;
        self.planning.running = None;
        self.events = Telling::default();
        self.desired().forget();
        self.fetching.next_look = Instant::now() + self.context.config.interval.0;
    }

    /// A panic of ours in a rollout: it is taken up again, and after some times recorded as failed.
    pub(super) fn rollout_fault(&mut self, key: &ObjectKey, record: RecordId, panic: &str) {
        let reason = internal_error(key, panic);
        self.context.status.trouble(&key.to_string(), Some(reason.message.clone()));
        let faults = self.rollouts.panics.entry(record).or_default();
        *faults = faults.saturating_add(1);
        if *faults < FAULTS {
            self.take_up_again(key, record);
        } else {
            self.rollouts.panics.remove(&record);
            self.finish(record, Outcome::Failed, Some(&reason));
            self.tell_those_behind(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_only_what_it_happened_in() {
        assert_eq!(contained(async { 1 }).await, Ok(1));
        let number = 3;
        assert_eq!(contained::<()>(async { panic!("no {number}") }).await, Err("no 3".to_owned()));
        assert_eq!(contained_now::<()>(|| panic!("no")), Err("no".to_owned()));
        let reason = internal_error(&"ConfigMap shop/a", "no");
        assert!(reason.code == INTERNAL_ERROR && reason.message.contains("belay's own fault"), "{reason:?}");
    }
}
