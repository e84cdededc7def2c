//! The parts from which the loop of a source is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::liveness::LoopHeartbeat;
use super::state::{Completion, Fetching, Recorded, Settings, Source, State};
use super::watches::Watches;
use crate::daemon::publish::queued_events::EventQueue;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::source_repository::Repository;
use crate::daemon::shared::context::Context;
use crate::daemon::shared::source_dependency::DependencyRequest;
use crate::daemon::shared::tasks::Tasks;
use crate::git::{Follow, Wake};

/// The parts of a source's loop.
pub struct LoopParts {
    pub context: Arc<Context>,
    pub repository: Repository,
    /// The content of the repository at its head, of which nothing is known yet.
    pub desired: watch::Sender<Arc<DesiredState>>,
    pub follow: Follow,
    pub wake: Option<Arc<Wake>>,
    /// Asked by those who wait for the source.
    pub asked: Arc<DependencyRequest>,
    pub liveness: Arc<LoopHeartbeat>,
    pub stop: CancellationToken,
}

impl LoopParts {
    /// Follows the source until it is cancelled.
    pub fn follow(self) -> impl Future<Output = ()> {
        self.source().follow()
    }

    fn source(self) -> Source {
        let LoopParts { context, repository, desired, follow, wake, asked, liveness, stop } = self;
        let config = &context.config;
        let settings = Settings {
            source: config.name.clone(),
            prune: config.prune,
            drift: config.drift,
            heads_wait: context.heads_wait(),
            interval: config.interval.0,
            folders: repository.paths.written().join(", "),
        };
        let empty = repository.desired();
        Source {
            stop,
            tasks: Tasks::default(),
            fetching: Fetching { repository, follow, desired, wake },
            state: State::new(empty, settings, Instant::now()),
            handles: BTreeMap::new(),
            plan_task: None,
            wait_task: None,
            watches: Watches::new(&context.cluster, &config.name),
            recorded: Recorded::new(context.history.begun()),
            completion: Completion::new(asked),
            liveness,
            slots_freed: context.rollout_slots.freed(),
            events: EventQueue::default(),
            context,
        }
    }
}
