//! Deletes Jobs some time after they have ended.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};

use super::outcome;
use crate::controllers::context::{Context, ControllerStart};
use crate::controllers::error::Error;
use crate::controllers::informer::{CacheChange, Informer};
use crate::controllers::key::{Key, is_terminating};
use crate::controllers::work_queue::WorkQueue;
use crate::controllers::worker::{self, Reconciler};

/// The number of Jobs that are handled side by side.
const WORKERS: usize = 5;

struct TimeToLive {
    context: Context,
    jobs: Informer<Job>,
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(TimeToLive {
        context: context.clone(),
        jobs: context.informers.jobs.clone(),
        queue: WorkQueue::default(),
    });
    let this = controller.clone();
    controller.jobs.on_change(move |change| {
        if !matches!(change, CacheChange::Deleted(_)) && ends(change.object()).is_some() {
            this.queue.add(Key::of(&change.object().metadata));
        }
    });
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

/// Returns when a Job is to go; `None` if it stays or has not ended.
fn ends(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished?;
    let ended = outcome::finished(job)?.last_transition_time.as_ref()?.0;
    ended.checked_add(SignedDuration::from_secs(i64::from(seconds))).ok()
}

impl Reconciler for TimeToLive {
    type Key = Key;

    fn name(&self) -> &'static str {
        "ttl-after-finished-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(job) = self.jobs.get(key).filter(|job| !is_terminating(&job.metadata)) else { return Ok(()) };
        let Some(at) = ends(&job) else { return Ok(()) };
        let left = at.duration_since(self.context.clock.now());
        if left > SignedDuration::ZERO {
            self.queue.add_after(key.clone(), Duration::try_from(left).unwrap_or_default());
            return Ok(());
        }
        // Somebody may have given it more time, or made another of the same name.
        let live: Job = match self.context.requests.get(key).await {
            Err(error) if error.is_not_found() => return Ok(()),
            live => live?,
        };
        if live.metadata.uid != job.metadata.uid || ends(&live) != Some(at) {
            return Ok(());
        }
        let how = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(Preconditions { uid: live.metadata.uid, resource_version: None }),
            ..DeleteParams::default()
        };
        match self.context.requests.delete::<Job>(key, &how).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }
}
