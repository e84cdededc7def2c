//! Keeps one pod of each DaemonSet on every node that it fits on.

mod fit;
mod node_backoff;
mod plan;
mod revisions;
mod status;
mod sync;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;

use super::context::{Context, ControllerStart};
use super::events::Recorder;
use super::expectations::Expectations;
use super::informer::{CacheChange, Informer};
use super::key::{Key, uid_of};
use super::node::Node;
use super::routing::route;
use super::selector::Selector;
use super::work_queue::WorkQueue;
use super::worker;
use node_backoff::NodeBackoff;

/// The number of sets that are handled side by side.
const WORKERS: usize = 2;

/// The controller.
struct DaemonSets {
    context: Context,
    recorder: Recorder,
    sets: Informer<DaemonSet>,
    nodes: Informer<Node>,
    expectations: Expectations,
    /// With nodes on which pods end again and again.
    node_backoff: NodeBackoff,
    queue: WorkQueue<Key>,
}

/// Prepares the controller.
pub fn prepare(context: &Context) -> ControllerStart {
    let controller = Arc::new(DaemonSets {
        context: context.clone(),
        recorder: context.recorder.speaking_as("daemonset-controller"),
        sets: context.informers.daemon_sets.clone(),
        nodes: context.informers.nodes.clone(),
        expectations: Expectations::default(),
        node_backoff: NodeBackoff::default(),
        queue: WorkQueue::default(),
    });
    context.informers.controller_revisions.want();
    let this = controller.clone();
    controller.sets.on_change(move |change| this.queue.add(Key::of(&change.object().metadata)));
    let this = controller.clone();
    controller.nodes.on_change(move |change| this.node_changed(change));
    let this = controller.clone();
    context.informers.pods.on_change(move |change| {
        route(change, &this.sets, |set| Selector::read(&set.spec.selector), &this.queue);
    });
    Box::new(move |tracker, stop| worker::spawn(&controller, WORKERS, tracker, stop))
}

impl DaemonSets {
    /// Nodes report all the time; only changes that create or end a pod there matter. So a taint that keeps new pods
    /// away from a node leaves the counts as they are until something else happens, as on a real cluster.
    fn node_changed(&self, change: &CacheChange<Node>) {
        let node = match change {
            CacheChange::Modified { old, new } if old.takes_the_same_pods(new) => return,
            CacheChange::Modified { new: node, .. } | CacheChange::Added(node) | CacheChange::Deleted(node) => node,
        };
        for set in self.sets.all() {
            let fit = fit::of(&set, node);
            let matters = match change {
                CacheChange::Added(_) => fit == fit::Fit::Runs,
                CacheChange::Deleted(_) => fit != fit::Fit::Not,
                CacheChange::Modified { .. } => match fit {
                    fit::Fit::Runs => !self.has_pod_on(&set, node),
                    fit::Fit::Stays => false,
                    fit::Fit::Not => self.has_pod_on(&set, node),
                },
            };
            if matters {
                self.queue.add(Key::of(&set.metadata));
            }
        }
    }

    fn has_pod_on(&self, set: &DaemonSet, node: &Node) -> bool {
        let pods = self.context.informers.pods.controlled_by(uid_of(&set.metadata));
        pods.iter().any(|pod| fit::node_of(pod).as_deref() == Some(node.name()))
    }
}
