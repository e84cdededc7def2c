//! Rolls Deployments out: makes ReplicaSets, shifts pods from the old ones to the new one, keeps revisions.

mod cleanup;
mod conditions;
mod new_set;
mod replace;
mod revision;
mod rollback;
mod rollout;
mod scale;
mod sets;
mod sizes;
mod status;
mod sync;

use std::sync::Arc;

use super::context::{Context, ControllerStart};
use super::events::Recorder;
use super::expectations::Expectations;
use super::informer::{CacheChange, Informer};
use super::key::{Key, namespace_of, uid_of};
use super::owner::controller_of;
use super::pod::Pod;
use super::routing::{owner_among, route};
use super::selector::Selector;
use super::templated::{Deployment, ReplicaSet};
use super::work_queue::WorkQueue;
use super::worker;
pub use sizes::{Rounding, scaled};

/// The number of Deployments that are handled side by side.
const WORKERS: usize = 5;

/// The controller.
struct Deployments {
    context: Context,
    recorder: Recorder,
    deployments: Informer<Deployment>,
    replica_sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
    expectations: Expectations,
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(Deployments {
        context: context.clone(),
        recorder: context.recorder.speaking_as("deployment-controller"),
        deployments: context.informers.deployments.clone(),
        replica_sets: context.informers.replica_sets.clone(),
        pods: context.informers.pods.clone(),
        expectations: Expectations::default(),
        queue: WorkQueue::default(),
    });
    let this = controller.clone();
    controller.deployments.on_change(move |change| this.queue.add(Key::of(&change.object().metadata)));
    let this = controller.clone();
    controller.replica_sets.on_change(move |change| {
        route(change, &this.deployments, |deployment| Selector::read(&deployment.spec.selector), &this.queue);
    });
    let this = controller.clone();
    controller.pods.on_change(move |change| {
        if let CacheChange::Deleted(pod) = change {
            this.pod_gone(pod);
        }
    });
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl Deployments {
    /// Handles the end of a pod: a Deployment that recreates waits for its last old pod to go.
    fn pod_gone(&self, pod: &Pod) {
        let namespace = namespace_of(&pod.metadata);
        let Some(owner) = controller_of(&pod.metadata) else { return };
        let Some(set) = owner_among(&self.replica_sets, namespace, owner) else { return };
        let resolved = controller_of(&set.metadata).and_then(|owner| owner_among(&self.deployments, namespace, owner));
        let Some(deployment) = resolved else { return };
        let strategy = deployment.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        if strategy != Some("Recreate") {
            return;
        }
        let sets = self.replica_sets.controlled_by(uid_of(&deployment.metadata));
        let has_pods = |set: &Arc<ReplicaSet>| !self.pods.controlled_by(uid_of(&set.metadata)).is_empty();
        if !sets.iter().any(has_pods) {
            self.queue.add(Key::of(&deployment.metadata));
        }
    }
}
