//! Jobs and hooks that are gone: whether they have run, and how that ended. What has run for its manifest is not made again.

use std::time::Duration;

use belay_core::manifest::ObjectKey;
use belay_core::rollout::health::{Standing, health};
use belay_core::rollout::{
    Outcome, RunFacts, StepKind, Trigger, Wanted, goes_by_itself, is_job, is_over, marks, runs_once,
};
use serde_json::Value;
use tracing::info;

use crate::cluster::Backoff;
use crate::daemon::rollout::prune;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use crate::daemon::shared::context::Context;

/// The number of a chart's objects whose records are read to find out if it was rolled out before.
const OBJECTS_OF_CHART: usize = 20;
/// The number of attempts to find the Events of a deleted Job. They are written beside the controller's other work.
const LOOKS_FOR_EVENTS: u32 = 3;
/// The wait between two such reads.
const WAIT_FOR_EVENTS: Duration = Duration::from_secs(1);

/// Returns true when a live Job, or a Pod that is a hook, has ended.
pub fn has_ended(key: &ObjectKey, live: &Value) -> bool {
    let standing = health(key, live).filter(|_| runs_once(key, live)).map(|health| health.standing);
    matches!(standing, Some(Standing::Complete | Standing::Failed))
}

impl Context {
    /// Returns whether an object that is not live has run for its manifest, or is not to run. It blocks.
    pub fn is_over(&self, wanted: &Wanted) -> bool {
        let manifest = wanted.manifest.value();
        let is_hook = marks::annotation(&manifest, marks::HOOK_RUN).is_some();
        if !is_hook && !is_job(&wanted.key) {
            return false;
        }
        let records = self.newest_records(&wanted.key);
        let remembered = self.finished_jobs.recalled(&wanted.key);
        let facts = RunFacts {
            records: &records,
            remembered: remembered.as_deref(),
            installed: is_hook && self.was_installed(wanted),
            needed_by_none: is_hook && self.is_needed_by_none(&wanted.key),
        };
        is_over(wanted, &facts)
    }

    /// Returns true when the chart of a hook was rolled out before, by another commit than the hook's own.
    fn was_installed(&self, hook: &Wanted) -> bool {
        let desired = self.repository.desired();
        let others = desired.objects_in(hook.manifest.file()).filter(|key| **key != hook.key);
        others.take(OBJECTS_OF_CHART).any(|key| {
            self.newest_records(key).iter().any(|record| {
                let applied = matches!(
                    record.outcome,
                    Outcome::Complete | Outcome::Unchanged | Outcome::UnderWay | Outcome::Baking
                );
                applied && record.commit != hook.commit.id && record.trigger != Trigger::Rebuilt
            })
        })
    }
}

impl RolloutTask {
    /// Does the rest of the work when a Job has come to its end, and is recorded.
    pub async fn end_job(&self, outcome: Outcome) {
        let wanted = &self.planned.wanted;
        if !runs_once(&wanted.key, &wanted.manifest.value()) {
            return;
        }
        if outcome == Outcome::Complete {
            self.context.remember_finished(&wanted.key, &wanted.hash).await;
        }
        prune::delete_finished_hook(self, outcome).await;
    }

    /// Ends the rollout of a Job that is gone, if it has run: its controller's events say how that ended. `None` if it
    /// is to be made again. One that goes by itself, and that nobody saw while it ran, has run; it is not run twice to
    /// find out more.
    pub async fn end_of_job_that_went(&mut self, was_seen: bool) -> Result<Option<Outcome>, Cancelled> {
        let key = &self.planned.wanted.key;
        if !is_job(key) {
            return Ok(None);
        }
        let began = self.context.history.record(self.record).ok().flatten().map(|record| record.started);
        for look in 0..LOOKS_FOR_EVENTS {
            if look > 0 {
                self.unless_cancelled(tokio::time::sleep(WAIT_FOR_EVENTS)).await?;
            }
            let read = || self.context.cluster.job_end(key, began);
            match self.unless_cancelled(Backoff::until_answered(self.context.in_the_way(key), read)).await? {
                Ok(Some(Ok(()))) => {
                    self.step(StepKind::Progress, "it is gone; its events say that it was complete").await?;
                    return self.end(Outcome::Complete, None).await.map(Some);
                }
                Ok(Some(Err(reason))) => return self.end(Outcome::Failed, Some(reason)).await.map(Some),
                Ok(None) => {}
                Err(error) => info!(object = %key, %error, "the events of the job can't be read"),
            }
        }
        if was_seen || !goes_by_itself(&self.planned.wanted.manifest.value()) {
            return Ok(None);
        }
        self.step(StepKind::Progress, "it is gone, as it goes by itself after its end").await?;
        self.end(Outcome::Complete, None).await.map(Some)
    }
}
