//! Keeps as many pods as ReplicaSets and ReplicationControllers say: one implementation over both.

mod kind;
mod rank;
mod status;
mod sync;

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::context::{Context, ControllerStart};
use super::events::Recorder;
use super::expectations::Expectations;
use super::informer::{CacheChange, Cached, Informer};
use super::key::{Key, namespace_of};
use super::owner::controller_of;
use super::pod::Pod;
use super::routing::{owner_among, route};
use super::templated::{ReplicaSet, ReplicationController};
use super::work_queue::WorkQueue;
use super::worker;
pub use kind::Replicated;
pub use rank::{Candidate, choose};

/// The number of objects that are handled side by side.
const WORKERS: usize = 5;

/// The controller of one of the two kinds.
struct ReplicaSets<K> {
    context: Context,
    recorder: Recorder,
    objects: Informer<K>,
    expectations: Expectations,
    queue: WorkQueue<Key>,
}

/// Prepares the controller of ReplicaSets.
pub fn replica_sets(context: &Context) -> ControllerStart {
    prepare::<ReplicaSet>(context)
}

/// Prepares the controller of ReplicationControllers.
pub fn replication_controllers(context: &Context) -> ControllerStart {
    prepare::<ReplicationController>(context)
}

fn prepare<K: Replicated>(context: &Context) -> ControllerStart {
    let controller = Arc::new(ReplicaSets {
        context: context.clone(),
        recorder: context.recorder.speaking_as(K::COMPONENT),
        objects: K::informer(&context.informers).clone(),
        expectations: Expectations::default(),
        queue: WorkQueue::default(),
    });
    let this = controller.clone();
    controller.objects.on_change(move |change| {
        if let CacheChange::Deleted(gone) = change {
            this.expectations.forget(&Key::of(Cached::metadata(gone.as_ref())));
        }
        this.queue.add(Key::of(Cached::metadata(change.object().as_ref())));
    });
    let this = controller.clone();
    context.informers.pods.on_change(move |change| this.pod_changed(change));
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl<K: Replicated> ReplicaSets<K> {
    fn pod_changed(&self, change: &CacheChange<Pod>) {
        route(change, &self.objects, K::selector, &self.queue);
        if let CacheChange::Modified { old, new } = change {
            self.look_again_when_available(old, new);
        }
    }

    fn look_again_when_available(&self, old: &Pod, new: &Pod) {
        if old.is_ready() || !new.is_ready() {
            return;
        }
        let Some(owner) = controller_of(&new.metadata) else { return };
        let Some(object) = owner_among(&self.objects, namespace_of(&new.metadata), owner) else { return };
        let available_in = new.available_in(object.min_ready_seconds(), self.context.clock.now());
        if let Some(wait) = available_in.filter(|wait| *wait > SignedDuration::ZERO) {
            self.queue
                .add_after(Key::of(Cached::metadata(object.as_ref())), Duration::try_from(wait).unwrap_or_default());
        }
    }
}
