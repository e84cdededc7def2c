//! What a source does about a panic: the loop goes on, and a rollout is taken up again.

use tokio::time::Instant;
use tracing::error;

use super::panics::{contained_now, internal_error};
use super::queued_events::EventQueue;
use super::state::Source;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, RecordId};

/// How often a rollout is taken up again that ended by a panic, before it counts as failed.
const FAULTS: u32 = 3;

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
        self.drift.comparing.clear();
        self.planning.running = None;
        self.events = EventQueue::default();
        self.forget_head();
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
