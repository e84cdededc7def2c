//! Keeps as many pods as ReplicaSets and ReplicationControllers say: one implementation over both.

mod kind;
mod rank;
mod status;
mod sync;

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::events::Recorder;
use super::expectations::Expectations;
use super::informer::{Cached, Change, Informer};
use super::key::{Key, is_terminating, namespace_of};
use super::ownership::controller_of;
use super::pod::Pod;
use super::work_queue::WorkQueue;
use super::{Context, Start, worker};
pub use kind::Replicated;
pub use rank::{Candidate, choose};
pub use status::FAILURE;

/// How many objects are looked at side by side.
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
pub fn replica_sets(context: &Context) -> Start {
    prepare::<ReplicaSet>(context)
}

/// Prepares the controller of ReplicationControllers.
pub fn replication_controllers(context: &Context) -> Start {
    prepare::<ReplicationController>(context)
}

fn prepare<K: Replicated>(context: &Context) -> Start {
    let controller = Arc::new(ReplicaSets {
        context: context.clone(),
        recorder: context.recorder.speaking_as(K::COMPONENT),
        objects: K::informer(&context.informers).clone(),
        expectations: Expectations::default(),
        queue: WorkQueue::default(),
    });
    let this = controller.clone();
    controller.objects.on_change(move |change| {
        if let Change::Deleted(gone) = change {
            this.expectations.forget(&Key::of(Cached::metadata(gone.as_ref())));
        }
        this.queue.add(Key::of(Cached::metadata(change.object().as_ref())));
    });
    let this = controller.clone();
    context.informers.pods.on_change(move |change| this.pod_changed(change));
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl<K: Replicated> ReplicaSets<K> {
    fn pod_changed(&self, change: &Change<Pod>) {
        match change {
            Change::Added(pod) => self.pod_appeared(pod),
            Change::Deleted(pod) => self.add_owner(pod, controller_of(&pod.metadata)),
            Change::Modified { old, new } => {
                let (before, after) = (controller_of(&old.metadata), controller_of(&new.metadata));
                let moved = before != after;
                if moved {
                    self.add_owner(old, before);
                }
                if after.is_some() {
                    self.add_owner(new, after);
                    self.look_again_when_available(old, new);
                } else if moved || old.metadata.labels != new.metadata.labels {
                    self.add_matching(new);
                }
            }
        }
    }

    fn pod_appeared(&self, pod: &Pod) {
        match controller_of(&pod.metadata) {
            Some(owner) => self.add_owner(pod, Some(owner)),
            None if is_terminating(&pod.metadata) => {}
            None => self.add_matching(pod),
        }
    }

    fn add_owner(&self, pod: &Pod, owner: Option<&OwnerReference>) {
        if let Some(key) = owner.and_then(|owner| self.resolve(namespace_of(&pod.metadata), owner)) {
            self.queue.add(key);
        }
    }

    /// The key of the owner, if it is of this kind and there.
    fn resolve(&self, namespace: &str, owner: &OwnerReference) -> Option<Key> {
        if owner.kind != K::kind(&()) {
            return None;
        }
        let key = Key::new(namespace, owner.name.clone());
        let object = self.objects.get(&key)?;
        (Cached::metadata(object.as_ref()).uid.as_ref() == Some(&owner.uid)).then_some(key)
    }

    /// Somebody may want to adopt the pod.
    fn add_matching(&self, pod: &Pod) {
        for object in self.objects.in_namespace(namespace_of(&pod.metadata)) {
            let matches = object
                .selector()
                .is_ok_and(|selector| !selector.is_everything() && selector.matches(pod.metadata.labels.as_ref()));
            if matches {
                self.queue.add(Key::of(Cached::metadata(object.as_ref())));
            }
        }
    }

    fn look_again_when_available(&self, old: &Pod, new: &Pod) {
        if old.is_ready() || !new.is_ready() {
            return;
        }
        let Some(owner) = controller_of(&new.metadata) else { return };
        let Some(key) = self.resolve(namespace_of(&new.metadata), owner) else { return };
        let wait = self.objects.get(&key).map_or(0, |object| object.min_ready_seconds());
        let available_in = new.available_in(wait, self.context.clock.now());
        if let Some(wait) = available_in.filter(|wait| *wait > SignedDuration::ZERO) {
            self.queue.add_after(key, Duration::try_from(wait).unwrap_or_default());
        }
    }
}
