//! Completion of a source: all rollouts have ended, and all objects are healthy. Other sources wait for it.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tracing::warn;

use super::state::{Completion, Recorded, Source};
use super::task_result::TaskResult;
use crate::allocator;
use crate::daemon::publish::obstacle::Obstacle;
use crate::daemon::publish::status::{SourceStatus, set};
use crate::daemon::shared::context::Context;
use crate::history::Query;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, is_well};

/// The number of ended rollouts that take so much memory that it is given back to the system: some 20 KiB each.
const MANY_ROLLOUTS: usize = 100;
/// The time from the end of the last rollout until memory is given back: its Events and records are written by then.
const GIVE_BACK_AFTER: Duration = Duration::from_secs(30);

impl Source {
    /// Publishes whether everything that the head says is through.
    pub fn publish_settled(&mut self) {
        let is_looking = self.state.fetch().is_looking();
        let idle = self.state.drift().is_idle()
            && !self.state.planning().is_running()
            && self.state.rollouts().are_idle()
            && !self.state.retries().waits_briefly(Instant::now())
            && !self.state.awaits_search(Instant::now());
        let through = self.state.planning().planned().is_some()
            && self.state.planning().planned() == self.state.desired().at.as_ref()
            && self.state.planning().awaiting().is_none()
            && !self.state.planning().reads_again()
            && !self.state.drift().has_rechecks()
            && !self.fetching.repository.units.are_late()
            // Changes made while no daemon ran are in the first list of each kind.
            && self.watches.are_listed();
        let quiet = idle && through && self.state.rollouts().all_resumed().is_empty() && !self.state.fetch().is_away();
        let settled = quiet && !is_looking;
        if !settled && !is_looking {
            // Work has begun: the earlier finding does not count any more.
            self.completion.judged = None;
        }
        if self.state.rollouts().are_through() {
            self.completion.give_back_later(Instant::now());
        }
        let complete = self.complete(settled);
        let unhealthy = self.state.unhealthy_at_rest();
        let open = self.state.rollouts().open();
        self.context.status.change(|source| {
            // A look at the repository changes nothing before it finds something.
            let settled = settled || quiet && source.settled;
            let news = set(&mut source.settled, settled) | set(&mut source.open, open);
            let news = set(&mut source.unhealthy, unhealthy) | news;
            set(&mut source.complete, complete) || news
        });
        self.recorded.note_source(&self.context);
    }

    /// Gives the memory that many rollouts took side by side back to the system: the C library keeps it otherwise.
    pub fn give_memory_back(&mut self) {
        self.completion.give_back_at = None;
        let (pool, history) = (self.context.repository.blocking_pool.clone(), self.context.history.clone());
        let give_back = move || {
            if let Err(error) = history.release_memory() {
                warn!(%error, "failed to give memory back");
            }
            allocator::give_back();
        };
        self.tasks.spawn(async move {
            pool.run(give_back).await;
            TaskResult::Told
        });
    }

    /// Returns the time of the fetch whose head is live and complete, if anybody waits for that.
    fn complete(&mut self, settled: bool) -> Option<Timestamp> {
        let looked = self.state.fetch().looked().filter(|_| settled && self.completion.asked.is_awaited())?;
        if self.completion.judged.is_none_or(|(at, _)| at != looked) {
            self.completion.judged = Some((looked, self.is_well()));
        }
        self.completion.judged.and_then(|(_, well)| well.then_some(looked))
    }

    /// Returns true when everything in the head is live, and complete if it rolls out.
    fn is_well(&self) -> bool {
        let source = Some(self.context.config.name.clone());
        let outcomes = Outcome::ALL.into_iter().filter(|outcome| outcome.is_final() && !is_well(*outcome)).collect();
        let query = Query { source, outcomes, ..Query::default() };
        let ill = self.context.history.records(&query).unwrap_or_else(|error| {
            warn!(%error, "failed to ask the history what has failed");
            Vec::new()
        });
        let objects: BTreeSet<ObjectKey> = ill.into_iter().map(|record| record.object).collect();
        let still = |key: &ObjectKey| {
            self.desired().has(key) && self.context.newest_record(key).is_some_and(|record| !is_well(record.outcome))
        };
        let desired = self.desired();
        let holds = |source: &SourceStatus| source.held.keys().any(|key| desired.has(key));
        // The newest record of a held object may be a correction.
        let is_held = self.context.status.read(holds).unwrap_or_default();
        self.state.fetch().refused().is_none() && !desired.has_complaints() && !is_held && !objects.iter().any(still)
    }
}

impl Completion {
    /// Notes when memory is given back, after many rollouts have ended.
    fn give_back_later(&mut self, now: Instant) {
        if self.ended > MANY_ROLLOUTS {
            self.ended = 0;
            self.give_back_at = Some(now + GIVE_BACK_AFTER);
        }
    }
}

impl Recorded {
    /// Notes the published state of the source, if that is news. A history that can't be written is said to be in the
    /// way.
    pub fn note_source(&mut self, context: &Context) {
        const AGAIN: Duration = Duration::from_secs(1);
        let Some(standing) = context.status.read(SourceStatus::standing) else { return };
        let is_known = self.standing.as_ref().is_some_and(|noted| !standing.is_news_after(noted));
        if is_known || Instant::now() < self.note_after {
            return;
        }
        match context.history.stands(&context.config.name, &standing) {
            Ok(()) => {
                self.standing = Some(standing);
                if let Some(said) = self.note_trouble.take() {
                    context.status.change(|source| source.take_back(&Obstacle::History, &said));
                }
            }
            Err(error) => {
                warn!(%error, "failed to note where the source stands, trying again");
                self.note_after = Instant::now() + AGAIN;
                self.note_trouble = Some(error.to_string());
                context.status.trouble(&Obstacle::History, Some(error.to_string()));
                context.mend(&error);
            }
        }
    }
}
