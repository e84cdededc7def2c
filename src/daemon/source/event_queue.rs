//! Events about good ends are sent when nothing else is to be done: they are for people, and nobody waits for them. One
//! request at a time is under way for them, only while none of the source's others is, and if many workloads become
//! complete with one commit, one Event names all of them: so a first apply of thousands holds up no later work.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::state::Source;
use super::task_result::TaskResult;
use crate::cluster::EventKind;
use crate::daemon::publish::queued_events::QueuedEvent;

/// The delay before each Event, so that later ones can join it.
const DEBOUNCE: Duration = Duration::from_secs(1);

/// The most commits whose Events wait; of more, those of the oldest are left out.
const WAITING: usize = 2_000;

impl Source {
    /// Tells of it when there is time for it.
    pub fn queue_event(&mut self, told: QueuedEvent) {
        if self.events.add(told) > WAITING {
            warn!(limit = WAITING, "the events of too many commits wait to be told; those of the oldest are left out");
            self.events.leave_out_oldest();
        }
        self.gather();
    }

    /// Takes the next Event after one was sent.
    pub fn told(&mut self) {
        self.events.busy = false;
        self.gather();
    }

    /// Waits until nothing else is to be done.
    fn gather(&mut self) {
        if self.events.is_empty() || std::mem::replace(&mut self.events.busy, true) {
            return;
        }
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            tokio::time::sleep(DEBOUNCE).await;
            context.requests.idle().await;
            TaskResult::EventsDue
        });
    }

    /// Sends the next one.
    pub fn send_queued_events(&mut self) {
        let Some((QueuedEvent { key, live, commit, .. }, more)) = self.events.take(self.state.rollouts().are_through())
        else {
            return self.told();
        };
        let context = Arc::clone(&self.context);
        let cause = commit.change_cause();
        let message = match more {
            0 => format!("{cause} is complete"),
            _ => format!("{cause} is complete, here and at {more} other workloads of that commit"),
        };
        self.tasks.spawn(async move {
            context.tell_at_once(&key, &live, EventKind::Normal, "RolloutComplete", message).await;
            TaskResult::CompletionsSent
        });
    }
}
