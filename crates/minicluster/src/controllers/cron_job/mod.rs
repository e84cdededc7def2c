//! Makes Jobs when CronJobs are due, and deletes old ones.

mod runs;
mod sync;

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, Job};

use super::context::{Context, ControllerStart};
use super::events::Recorder;
use super::informer::{CacheChange, Informer};
use super::key::{Key, namespace_of};
use super::owner::controller_of;
use super::work_queue::WorkQueue;
use super::worker;

/// The number of CronJobs that are handled side by side.
const WORKERS: usize = 5;

/// The controller.
struct CronJobs {
    context: Context,
    recorder: Recorder,
    cron_jobs: Informer<CronJob>,
    jobs: Informer<Job>,
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(CronJobs {
        context: context.clone(),
        recorder: context.recorder.speaking_as("cronjob-controller"),
        cron_jobs: context.informers.cron_jobs.clone(),
        jobs: context.informers.jobs.clone(),
        queue: WorkQueue::default(),
    });
    let this = controller.clone();
    controller.cron_jobs.on_change(move |change| {
        let key = Key::of(&change.object().metadata);
        match change {
            // A new schedule counts from now on; runs that it would have asked for before are not made up for.
            CacheChange::Modified { old, new } if has_other_times(old, new) => {
                if let Some(wait) = this.until_next(new) {
                    this.queue.add_after(key, wait);
                }
            }
            CacheChange::Added(_) | CacheChange::Modified { .. } => this.queue.add(key),
            CacheChange::Deleted(_) => {}
        }
    });
    let this = controller.clone();
    controller.jobs.on_change(move |change| {
        let job = change.object();
        if let Some(owner) = controller_of(&job.metadata).filter(|owner| owner.kind == "CronJob") {
            this.queue.add(Key::new(namespace_of(&job.metadata), owner.name.clone()));
        }
    });
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

fn has_other_times(old: &CronJob, new: &CronJob) -> bool {
    old.spec.schedule != new.spec.schedule || old.spec.time_zone != new.spec.time_zone
}
