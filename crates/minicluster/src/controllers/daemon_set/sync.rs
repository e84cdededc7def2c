//! One reconciliation of one DaemonSet.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};

use super::plan::{ByNode, DaemonSetChanges, DaemonSetView};
use super::revisions::DaemonSetVersions;
use super::{DaemonSets, fit, status};
use crate::controllers::error::Error;
use crate::controllers::events::EventType;
use crate::controllers::key::{Key, is_terminating, name_of, namespace_of, uid_of, version_of};
use crate::controllers::node::Node;
use crate::controllers::owner::controller_reference;
use crate::controllers::ownership::{self, Claimer};
use crate::controllers::pod::Pod;
use crate::controllers::pod_control::{PodControl, metadata_from, slow_start};
use crate::controllers::selector::Selector;
use crate::controllers::work_queue::WorkQueue;
use crate::controllers::worker::Reconciler;

/// At most so many pods are made or deleted in one go.
const BURST: usize = 250;
/// When an expected object does not show, reconcile again after this time, in case it never will.
const EXPECTING: Duration = Duration::from_secs(30);

impl Reconciler for DaemonSets {
    type Key = Key;

    fn name(&self) -> &'static str {
        "daemonset-controller"
    }

    fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    async fn sync(&self, key: &Key) -> Result<(), Error> {
        let Some(set) = self.sets.get(key) else {
            self.expectations.forget(key);
            return Ok(());
        };
        if !self.expectations.is_owner_seen(key, &self.sets) {
            self.queue.add_after(key.clone(), EXPECTING);
            return Ok(());
        }
        let selector = Selector::read(&set.spec.selector)?;
        if selector.is_everything() {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.recorder.say(set.as_ref(), EventType::Warning, "SelectingAll", message);
            return Ok(());
        }
        if is_terminating(&set.metadata) {
            return Ok(());
        }
        let nodes = self.nodes.all();
        let versions = self.versions(&set, &selector).await?;
        if !self.expectations.are_met(key, &self.context.informers.pods) {
            self.queue.add_after(key.clone(), EXPECTING);
            let pods = self.pods(&set, &selector).await?;
            return self.tell(&set, &nodes, &pods, &versions.hash, Observed::Before).await;
        }
        let worked = self.work(key, &set, &selector, &nodes, &versions).await;
        let pods = self.pods(&set, &selector).await?;
        self.tell(&set, &nodes, &pods, &versions.hash, Observed::Now).await?;
        worked
    }
}

/// The choice if the present generation has been acted upon.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Observed {
    Now,
    Before,
}

/// Returns true when pods of a set have gone, or are about to.
fn lost_some(set: &DaemonSet, pods: &ByNode) -> bool {
    let there = set.status.as_ref().map_or(0, |status| status.current_number_scheduled);
    let is_there = |pods: &&Vec<Arc<Pod>>| pods.iter().any(|pod| !is_terminating(&pod.metadata));
    i32::try_from(pods.values().filter(is_there).count()).unwrap_or(i32::MAX) < there
}

impl DaemonSets {
    async fn work(
        &self,
        key: &Key,
        set: &DaemonSet,
        selector: &Selector,
        nodes: &[Arc<Node>],
        versions: &DaemonSetVersions,
    ) -> Result<(), Error> {
        let pods = self.pods(set, selector).await?;
        let view = DaemonSetView { set, nodes, pods: &pods, hash: &versions.hash, now: self.context.clock.now() };
        let mut changes = view.manage();
        if !changes.create_on.is_empty() && lost_some(set, &pods) {
            let is_going = ownership::is_going::<DaemonSet>(&self.context.requests, &set.metadata);
            if is_going.await? {
                return Ok(());
            }
        }
        self.give_up_ended(key, set, &mut changes);
        self.carry_out(key, set, &versions.hash, changes).await?;
        // Recent requests have to show before pods are replaced.
        if self.expectations.are_met(key, &self.context.informers.pods) {
            let strategy = set.spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
            if strategy != Some("OnDelete") {
                self.carry_out(key, set, &versions.hash, view.roll()).await?;
            }
        }
        self.forget_old(set, versions, &pods).await
    }

    /// Returns the set's pods by node; pods that are nobody's and match are adopted.
    async fn pods(&self, set: &DaemonSet, selector: &Selector) -> Result<ByNode, Error> {
        let metadata = &set.metadata;
        let candidates = self.context.informers.pods.candidates(metadata);
        let claimer = Claimer {
            requests: &self.context.requests,
            owner: metadata,
            selector,
            reference: controller_reference::<DaemonSet>(metadata),
            finalizer: None,
        };
        let claimed = claimer.claim::<DaemonSet, Pod, Pod>(candidates).await?.objects;
        let mut by_node = ByNode::new();
        for pod in claimed.into_iter().filter(|pod| !(pod.is_finished() && is_terminating(&pod.metadata))) {
            if let Some(node) = fit::node_of(&pod) {
                by_node.entry(node).or_default().push(pod);
            }
        }
        Ok(by_node)
    }

    /// Deletes pods that have ended, but not too often on the same node.
    fn give_up_ended(&self, key: &Key, set: &DaemonSet, changes: &mut DaemonSetChanges) {
        for (node, pod) in std::mem::take(&mut changes.ended) {
            let (namespace, name) = (namespace_of(&pod.metadata), name_of(&pod.metadata));
            if pod.phase() == "Failed" {
                let generation = set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
                let attempt = format!("{}/{generation}", uid_of(&set.metadata));
                if let Err(wait) = self.node_backoff.may_try(&attempt, &node) {
                    self.queue.add_after(key.clone(), wait);
                    continue;
                }
                let message = format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
                self.recorder.say(set, EventType::Warning, "FailedDaemonPod", message);
            } else {
                let message =
                    format!("Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it");
                self.recorder.say(set, EventType::Normal, "SucceededDaemonPod", message);
            }
            changes.delete.push(pod);
        }
    }

    async fn carry_out(&self, key: &Key, set: &DaemonSet, hash: &str, changes: DaemonSetChanges) -> Result<(), Error> {
        let control = PodControl { requests: &self.context.requests, recorder: &self.recorder, owner: set };
        let nodes: Vec<String> = changes.create_on.into_iter().take(BURST).collect();
        let (_, mut errors) = slow_start(nodes.len(), |index| {
            let template = fit::template_for(set, &nodes[index], hash);
            let metadata = metadata_from(&template, &set.metadata, controller_reference::<DaemonSet>(&set.metadata));
            let control = &control;
            async move {
                match control.create(&metadata, template.spec.as_ref()).await {
                    Ok(pod) => {
                        self.expectations.wrote(key, version_of(&pod.metadata));
                        Ok(())
                    }
                    Err(error) if error.is_namespace_terminating() => Ok(()),
                    Err(error) => Err(error),
                }
            }
        })
        .await;
        let deletions = changes.delete.iter().take(BURST).map(|pod| async {
            let deleted = control.delete(pod).await;
            if deleted.is_ok() {
                self.expectations.deleted(key, Key::of(&pod.metadata), uid_of(&pod.metadata));
            }
            deleted
        });
        errors.extend(join_all(deletions).await.into_iter().filter_map(Result::err));
        Error::first_of(errors).map_or(Ok(()), Err)
    }

    /// Writes the status if it differs, and reconciles again when the next pod becomes available.
    async fn tell(
        &self,
        set: &Arc<DaemonSet>,
        nodes: &[Arc<Node>],
        pods: &ByNode,
        hash: &str,
        observed: Observed,
    ) -> Result<(), Error> {
        let now = self.context.clock.now();
        let mut status = status::compute(set, nodes, pods, hash, now);
        if observed == Observed::Before {
            status.observed_generation = set.status.as_ref().and_then(|status| status.observed_generation);
        }
        self.write_status(set, status).await?;
        let wait = set.spec.min_ready_seconds.unwrap_or(0);
        let waits = pods.values().flatten().filter_map(|pod| pod.available_in(wait, now));
        if let Some(wait) = waits.filter(|wait| *wait > SignedDuration::ZERO).min() {
            self.queue.add_after(Key::of(&set.metadata), Duration::try_from(wait).unwrap_or_default());
        }
        Ok(())
    }

    async fn write_status(&self, set: &DaemonSet, status: DaemonSetStatus) -> Result<(), Error> {
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let written = self.context.requests.write_status(set, |set| {
            let collision_count = set.status.as_ref().and_then(|status| status.collision_count);
            set.status = Some(DaemonSetStatus { collision_count, ..status.clone() });
        });
        if let Some(version) = written.await? {
            self.expectations.wrote_owner(&Key::of(&set.metadata), version);
        }
        Ok(())
    }
}
