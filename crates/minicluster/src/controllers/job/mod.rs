//! Runs the pods of Jobs until enough have succeeded, or too many failed, or too much time has passed.
//!
//! Every pod is counted exactly once: it carries a finalizer until its Job's status has it.

mod backoff;
mod indexes;
mod outcome;
mod per_index;
mod plan;
mod policy;
mod sync;
mod template;
mod track;
mod ttl;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::api::Patch;
use serde_json::json;

use super::context::{Context, ControllerStart};
use super::error::Error;
use super::events::Recorder;
use super::expectations::Expectations;
use super::informer::{CacheChange, Informer};
use super::key::{Key, namespace_of, uid_of};
use super::owner::controller_of;
use super::pod::Pod;
use super::requests::Written;
use super::routing::{add_takers, owner_among};
use super::selector::Selector;
use super::work_queue::WorkQueue;
use super::worker;
pub use outcome::finished;
pub use ttl::prepare as time_to_live;

/// The number of Jobs that are handled side by side.
const WORKERS: usize = 5;
/// The first and the longest pause after a Job could not be brought in order.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_mins(10);
/// Keeps a pod until it is counted.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// The controller.
struct Jobs {
    context: Context,
    recorder: Recorder,
    jobs: Informer<Job>,
    expectations: Expectations,
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(Jobs {
        context: context.clone(),
        recorder: context.recorder.speaking_as("job-controller"),
        jobs: context.informers.jobs.clone(),
        expectations: Expectations::default(),
        queue: WorkQueue::with_pauses(FIRST_PAUSE, LAST_PAUSE),
    });
    let this = controller.clone();
    controller.jobs.on_change(move |change| {
        if let CacheChange::Deleted(gone) = change {
            // Its pods are nobody's to count any more.
            for pod in this.context.informers.pods.controlled_by(uid_of(&gone.metadata)) {
                this.queue.add(orphan(&pod));
            }
        }
        this.queue.add(Key::of(&change.object().metadata));
    });
    let this = controller.clone();
    context.informers.pods.on_change(move |change| this.pod_changed(change));
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl Jobs {
    fn pod_changed(&self, change: &CacheChange<Pod>) {
        match change {
            CacheChange::Added(pod) | CacheChange::Deleted(pod) => self.add_owner(pod),
            CacheChange::Modified { old, new } => {
                if controller_of(&old.metadata) != controller_of(&new.metadata) {
                    self.add_owner(old);
                }
                self.add_owner(new);
            }
        }
    }

    fn add_owner(&self, pod: &Pod) {
        match controller_of(&pod.metadata) {
            Some(owner) if owner.kind == "Job" => match owner_among(&self.jobs, namespace_of(&pod.metadata), owner) {
                Some(job) => self.queue.add(Key::of(&job.metadata)),
                None if has_finalizer(pod) => self.queue.add(orphan(pod)),
                None => {}
            },
            Some(_) => {}
            None => {
                add_takers(&pod.metadata, &self.jobs, selector, &self.queue);
                if has_finalizer(pod) {
                    self.queue.add(orphan(pod));
                }
            }
        }
    }

    /// Releases a pod that no Job will count any more.
    async fn let_go(&self, pod: &Key) -> Result<(), Error> {
        let Some(pod) = self.context.informers.pods.get(pod) else { return Ok(()) };
        if !has_finalizer(&pod) {
            return Ok(());
        }
        if let Some(owner) = controller_of(&pod.metadata)
            && (owner.kind != "Job" || owner_among(&self.jobs, namespace_of(&pod.metadata), owner).is_some())
        {
            return Ok(());
        }
        self.remove_finalizer(&pod).await.map(drop)
    }

    /// Takes the finalizer off a pod. Returns the pod's new metadata; `None` if the pod is gone.
    async fn remove_finalizer(&self, pod: &Pod) -> Result<Option<Written>, Error> {
        let metadata = json!({ "$deleteFromPrimitiveList/finalizers": [FINALIZER], "uid": pod.metadata.uid });
        let patch = Patch::Strategic(json!({ "metadata": metadata }));
        match self.context.requests.patch::<Pod, _, Written>(&Key::of(&pod.metadata), &patch).await {
            Ok(written) => Ok(Some(written)),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the key of an orphaned pod, which waits in the same queue as Jobs, under a name that no Job can have.
fn orphan(pod: &Pod) -> Key {
    let key = Key::of(&pod.metadata);
    Key::new(key.namespace, format!("{ORPHAN}{}", key.name))
}

/// The prefix of orphaned pods' names in the queue.
const ORPHAN: &str = "pod/";

fn has_finalizer(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

fn selector(job: &Job) -> Result<Selector, Error> {
    let selector = job.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.map_or(Ok(Selector::nothing()), Selector::read)
}

/// Returns true when each pod has a number of its own.
fn is_indexed(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.completion_mode.as_deref()) == Some("Indexed")
}
