//! Keeps claims that are to go until no pod uses them any more.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::Patch;
use serde_json::json;

use super::context::{Context, ControllerStart};
use super::error::Error;
use super::informer::{Cached as _, Informer, Tag};
use super::key::{Key, is_terminating, namespace_of};
use super::pod::Pod;
use super::requests::Written;
use super::work_queue::WorkQueue;
use super::worker::{self, Reconciler};

/// The finalizer that holds a claim.
const FINALIZER: &str = "kubernetes.io/pvc-protection";
/// The number of claims that are handled side by side.
const WORKERS: usize = 2;

struct ClaimProtection {
    context: Context,
    claims: Informer<PersistentVolumeClaim>,
    pods: Informer<Pod>,
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(ClaimProtection {
        context: context.clone(),
        claims: context.informers.persistent_volume_claims.clone(),
        pods: context.informers.pods.clone(),
        queue: WorkQueue::default(),
    });
    let this = controller.clone();
    controller.claims.on_change(move |change| {
        let metadata = change.object().metadata();
        if is_terminating(metadata) {
            this.queue.add(Key::of(metadata));
        }
    });
    let this = controller.clone();
    controller.pods.on_change(move |change| {
        let pod = change.object();
        for claim in pod.claims() {
            let key = Key::new(namespace_of(&pod.metadata), claim);
            if this.claims.get(&key).is_some_and(|claim| is_terminating(&claim.metadata)) {
                this.queue.add(key);
            }
        }
    });
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl Reconciler for ClaimProtection {
    type Key = Key;

    fn name(&self) -> &'static str {
        "persistentvolumeclaim-protection-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(claim) = self.claims.get(key) else { return Ok(()) };
        let finalizers = claim.metadata.finalizers.clone().unwrap_or_default();
        if !is_terminating(&claim.metadata) || !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(());
        }
        // A pod that was never bound to a node uses nothing.
        let users = self.pods.tagged(&Tag::Claim(key.clone()));
        if users.iter().any(|pod| pod.spec.node_name.is_some() && !pod.is_finished()) {
            return Ok(());
        }
        let left: Vec<&String> = finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
        let metadata = json!({ "resourceVersion": claim.metadata.resource_version, "finalizers": left });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match self.context.requests.patch::<PersistentVolumeClaim, _, Written>(key, &patch).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}
