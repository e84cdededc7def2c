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

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::events::Recorder;
use super::expectations::Expectations;
use super::informer::{Change, Informer, Tag};
use super::key::{Key, is_terminating, namespace_of, uid_of};
use super::ownership::controller_of;
use super::pod::Pod;
use super::selector::Selector;
use super::work_queue::WorkQueue;
use super::{Context, Start, worker};
pub use sizes::{Rounding, scaled};

/// How many Deployments are looked at side by side.
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
pub fn prepare(context: &Context) -> Start {
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
    controller.replica_sets.on_change(move |change| this.set_changed(change));
    let this = controller.clone();
    controller.pods.on_change(move |change| {
        if let Change::Deleted(pod) = change {
            this.pod_gone(pod);
        }
    });
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl Deployments {
    fn set_changed(&self, change: &Change<ReplicaSet>) {
        match change {
            Change::Added(set) if is_terminating(&set.metadata) => self.add_owner(&set.metadata),
            Change::Added(set) => {
                if controller_of(&set.metadata).is_some() {
                    self.add_owner(&set.metadata);
                } else {
                    self.add_matching(&set.metadata);
                }
            }
            Change::Deleted(set) => self.add_owner(&set.metadata),
            Change::Modified { old, new } => {
                let moved = controller_of(&old.metadata) != controller_of(&new.metadata);
                if moved {
                    self.add_owner(&old.metadata);
                }
                if controller_of(&new.metadata).is_some() {
                    self.add_owner(&new.metadata);
                } else if moved || old.metadata.labels != new.metadata.labels {
                    self.add_matching(&new.metadata);
                }
            }
        }
    }

    fn add_owner(&self, set: &ObjectMeta) {
        let owner = controller_of(set).and_then(|owner| self.resolve(namespace_of(set), owner));
        if let Some(deployment) = owner {
            self.queue.add(Key::of(&deployment.metadata));
        }
    }

    fn resolve(&self, namespace: &str, owner: &OwnerReference) -> Option<Arc<Deployment>> {
        if owner.kind != "Deployment" {
            return None;
        }
        let deployment = self.deployments.get(&Key::new(namespace, owner.name.clone()))?;
        (uid_of(&deployment.metadata) == owner.uid).then_some(deployment)
    }

    fn add_matching(&self, set: &ObjectMeta) {
        for deployment in self.deployments.in_namespace(namespace_of(set)) {
            let selector = Selector::read(&deployment.spec.selector);
            let matches =
                selector.is_ok_and(|selector| !selector.is_everything() && selector.matches(set.labels.as_ref()));
            if matches {
                self.queue.add(Key::of(&deployment.metadata));
            }
        }
    }

    /// A Deployment that recreates waits for its last old pod to go.
    fn pod_gone(&self, pod: &Pod) {
        let namespace = namespace_of(&pod.metadata);
        let Some(owner) = controller_of(&pod.metadata).filter(|owner| owner.kind == "ReplicaSet") else { return };
        let Some(set) = self.replica_sets.get(&Key::new(namespace, owner.name.clone())) else { return };
        let resolved = controller_of(&set.metadata).and_then(|owner| self.resolve(namespace, owner));
        let Some(deployment) = resolved.filter(|_| uid_of(&set.metadata) == owner.uid) else { return };
        let strategy = deployment.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        if strategy != Some("Recreate") {
            return;
        }
        let sets = self.replica_sets.tagged(&Tag::Controller(uid_of(&deployment.metadata).to_owned()));
        let has_pods =
            |set: &Arc<ReplicaSet>| !self.pods.tagged(&Tag::Controller(uid_of(&set.metadata).to_owned())).is_empty();
        if !sets.iter().any(has_pods) {
            self.queue.add(Key::of(&deployment.metadata));
        }
    }
}
