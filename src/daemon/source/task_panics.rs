//! Handles a panic of a source's task: the loop goes on, and a rollout is continued.

use tokio::time::Instant;
use tracing::error;

use super::state::Source;
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
        self.state.fetch.looking = None;
        self.state.drift.checking = false;
        self.state.drift.comparing.clear();
        self.state.rollouts.ends_read = 0;
        self.state.planning.running = None;
        self.state.planning.is_recording = false;
        self.state.planning.reads_again = false;
        self.events = EventQueue::default();
        self.forget_head();
        self.state.fetch.next_look = Instant::now() + self.context.config.interval.0;
    }
}
