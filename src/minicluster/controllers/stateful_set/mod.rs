//! Keeps the pods of StatefulSets: numbered, with claims of their own, made and replaced in order.

mod act;
mod claims;
mod ordinal;
mod plan;
mod revisions;
mod status;
mod sync;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::events::Recorder;
use super::expectations::Expectations;
use super::informer::{Change, Informer};
use super::key::{Key, is_terminating, namespace_of, uid_of};
use super::ownership::controller_of;
use super::pod::Pod;
use super::selector::Selector;
use super::work_queue::WorkQueue;
use super::{Context, Start, worker};

/// How many sets are looked at side by side.
const WORKERS: usize = 5;

/// The controller.
struct StatefulSets {
    context: Context,
    recorder: Recorder,
    sets: Informer<StatefulSet>,
    expectations: Expectations,
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> Start {
    let controller = Arc::new(StatefulSets {
        context: context.clone(),
        recorder: context.recorder.speaking_as("statefulset-controller"),
        sets: context.informers.stateful_sets.clone(),
        expectations: Expectations::default(),
        queue: WorkQueue::default(),
    });
    context.informers.controller_revisions.want();
    context.informers.persistent_volume_claims.want();
    let this = controller.clone();
    controller.sets.on_change(move |change| this.queue.add(Key::of(&change.object().metadata)));
    let this = controller.clone();
    context.informers.pods.on_change(move |change| this.pod_changed(change));
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl StatefulSets {
    fn pod_changed(&self, change: &Change<Pod>) {
        match change {
            Change::Added(pod) if controller_of(&pod.metadata).is_none() => self.add_matching(pod),
            Change::Added(pod) | Change::Deleted(pod) => self.add_owner(pod),
            Change::Modified { old, new } => {
                let moved = controller_of(&old.metadata) != controller_of(&new.metadata);
                if moved {
                    self.add_owner(old);
                }
                if controller_of(&new.metadata).is_some() {
                    self.add_owner(new);
                } else if moved || old.metadata.labels != new.metadata.labels {
                    self.add_matching(new);
                }
            }
        }
    }

    fn add_owner(&self, pod: &Pod) {
        let owner = controller_of(&pod.metadata).and_then(|owner| self.resolve(namespace_of(&pod.metadata), owner));
        if let Some(key) = owner {
            self.queue.add(key);
        }
    }

    fn resolve(&self, namespace: &str, owner: &OwnerReference) -> Option<Key> {
        if owner.kind != "StatefulSet" {
            return None;
        }
        let key = Key::new(namespace, owner.name.clone());
        let set = self.sets.get(&key)?;
        (uid_of(&set.metadata) == owner.uid).then_some(key)
    }

    /// A set may want to adopt the pod.
    fn add_matching(&self, pod: &Pod) {
        if is_terminating(&pod.metadata) {
            return;
        }
        for set in self.sets.in_namespace(namespace_of(&pod.metadata)) {
            let selector = Selector::read(&set.spec.selector);
            if selector.is_ok_and(|selector| selector.matches(pod.metadata.labels.as_ref())) {
                self.queue.add(Key::of(&set.metadata));
            }
        }
    }
}
