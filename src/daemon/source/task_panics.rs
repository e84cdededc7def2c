//! Handles a panic of a source's task: the loop goes on, and a rollout is continued.

use tracing::error;

use super::state::{Event, Source};
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::queued_events::EventQueue;
use crate::daemon::shared::panics::contained_now;

impl Source {
    /// Does something of the loop's own. A panic in it does not end the loop.
    pub fn contained(&mut self, act: impl FnOnce(&mut Source)) {
        if let Err(panic) = contained_now(|| act(self)) {
            self.fault(&panic);
        }
    }

    /// Begins the work of a task again after a panic of ours, outside of a rollout.
    pub fn fault(&mut self, error: &dyn std::fmt::Display) {
        error!(%error, "belay's own fault: a task panicked");
        self.context.status.trouble(&Obstacle::Belay, Some(format!("belay's own fault: {error}")));
        self.events = EventQueue::default();
        self.on(Event::Panicked);
    }
}
