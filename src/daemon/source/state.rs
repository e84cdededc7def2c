//! The state of the loop of one source, by subject. Only the loop changes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::liveness::LoopHeartbeat;
use super::task_result::TaskResult;
use super::watches::Watches;
use crate::daemon::publish::queued_events::EventQueue;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::source_repository::Repository;
use crate::daemon::shared::context::Context;
use crate::daemon::shared::source_dependency::DependencyRequest;
use crate::daemon::shared::tasks::Tasks;
use crate::git::{Follow, Wake};
use crate::history::SourceStanding;
use belay_core::manifest::{Compact, ObjectKey};
use belay_core::rollout::Reason;

mod continued_rollout;
mod corrections;
mod disputes;
mod drift;
mod drift_events;
mod event;
mod fetch_events;
mod fetching;
mod known;
mod live_events;
mod live_objects;
mod manual_changes;
mod on;
mod plan_events;
mod planning;
mod prune_search;
mod pruning;
mod reset_events;
mod retries;
mod retry_events;
mod rollout_events;
mod rollouts;
mod startup;
#[cfg(test)]
mod tests;
mod unhealthy_workloads;
mod waiting;

pub use event::{Effect, Event, HeadSeen, Start, WorkBeforeRestart};
pub use known::{Settings, State};
pub use on::on;
pub use pruning::NoPruning;
pub use retry_events::{cause_of, is_definition_of};
pub use rollouts::Rollout;
pub use waiting::{end_of_wait, is_too_long};

/// One followed source.
pub struct Source {
    pub context: Arc<Context>,
    pub stop: CancellationToken,
    /// The tasks beside the loop.
    pub tasks: Tasks<TaskResult>,
    /// The known state.
    pub state: State,
    pub fetching: Fetching,
    pub watches: Watches,
    /// The handles of the rollouts under way.
    pub handles: BTreeMap<ObjectKey, RolloutHandle>,
    /// The task that makes a plan.
    pub plan_task: Option<AbortHandle>,
    /// The task that waits for another source before a head is planned.
    pub wait_task: Option<AbortHandle>,
    pub recorded: Recorded,
    pub completion: Completion,
    pub liveness: Arc<LoopHeartbeat>,
    /// Changes when a slot of `max_rollouts` becomes free.
    pub slots_freed: watch::Receiver<u64>,
    /// The Events to send as soon as nothing else is to be done.
    pub events: EventQueue,
}

/// The parts that read the repository.
pub struct Fetching {
    pub repository: Repository,
    pub follow: Follow,
    /// The content of the repository at its head. The loop alone puts another in its place.
    pub desired: watch::Sender<Arc<DesiredState>>,
    /// Notices a push to a repository on this machine; only a hint to fetch.
    pub wake: Option<Arc<Wake>>,
}

/// The loop's facts about the history.
pub struct Recorded {
    /// The standing of the source, as it was written to the history last.
    pub standing: Option<SourceStanding>,
    /// When that may be noted again, after it could not be.
    pub note_after: Instant,
    /// The reason for which it could not be recorded.
    pub note_trouble: Option<String>,
    /// The history into which the source was planned, by [`crate::history::History::begun`].
    pub history: u32,
    /// When old records are forgotten next.
    pub next_tidy: Instant,
    /// True once that was done since the start.
    pub tidied: bool,
    /// True when the failed commits that an earlier daemon left behind, of those that go back as a whole, have been
    /// read.
    pub failed_commits_read: bool,
}

impl Recorded {
    pub fn new(history: u32) -> Recorded {
        let now = Instant::now();
        Recorded {
            standing: None,
            note_after: now,
            note_trouble: None,
            history,
            next_tidy: now,
            tidied: false,
            failed_commits_read: false,
        }
    }
}

/// The completion of the whole source, for those who wait for it.
pub struct Completion {
    /// Asked by who waits for this source.
    pub asked: Arc<DependencyRequest>,
    /// The last judgement if everything was complete, with the time of its fetch.
    pub judged: Option<(Timestamp, bool)>,
    /// The number of rollouts that ended since memory was given back to the system, or is to be.
    pub ended: usize,
    /// The time at which freed memory is given back to the system.
    pub give_back_at: Option<Instant>,
}

impl Completion {
    pub fn new(asked: Arc<DependencyRequest>) -> Completion {
        Completion { asked, judged: None, ended: 0, give_back_at: None }
    }
}

/// The handle of a rollout's task.
pub struct RolloutHandle {
    pub cancel: CancellationToken,
    /// Cancelled when the rollout's task has ended.
    pub ended: CancellationToken,
    pub live: watch::Sender<Option<Compact>>,
    /// Told when it is to be given up, and why.
    pub give_up: watch::Sender<Option<Reason>>,
}
