//! The scheduler: which pod goes to which node. Pure: it gets the facts, and returns decisions.

mod affinity;
mod cluster;
mod filters;
mod groups;
mod labels;
mod message;
mod node;
mod preemption;
mod resources;
mod scores;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerPort, Node};

use self::affinity::{Neighbours, minds};
use self::cluster::Cluster;
use self::filters::{Refusal, refuse, reject};
use self::node::{Load, NodeFacts, Placed};
use self::preemption::priority;
use self::resources::Resources;
use super::pod::{PodSpec, ResourceRequirements, RestartPolicy, SeenPod};
use super::pod_name::Uid;
use super::simulated_pod::Rejection;

/// The scheduler that pods name when they name none.
const NAME: &str = "default-scheduler";

/// So many nodes that could take a pod are a choice that is large enough.
const ENOUGH: usize = 100;

/// The decision about a pod.
#[derive(Debug)]
pub enum Decision {
    /// It goes to this node.
    Bind { pod: Arc<SeenPod>, node: String },
    /// No node can take it, for these reasons.
    Wait { pod: Arc<SeenPod>, message: String },
    /// It will go to this node once these pods are gone.
    Preempt { pod: Arc<SeenPod>, node: String, victims: Vec<Arc<SeenPod>>, message: String },
}

/// All that is known of nodes and pods, and who waits.
#[derive(Debug, Default)]
pub struct Scheduler {
    cluster: Cluster,
    /// Pods in the queue, the most important first, then the oldest.
    queue: BTreeMap<Rank, Arc<SeenPod>>,
    ranks: BTreeMap<Uid, Rank>,
    /// Pods that no node could take, until something changes.
    waiting: BTreeMap<Uid, Arc<SeenPod>>,
    /// Those among them for whom something may have changed.
    minding: BTreeSet<Uid>,
    /// Pods that are being bound.
    bound: BTreeMap<Uid, Arc<SeenPod>>,
    /// The node after which nodes are tried, if there are many.
    last: String,
    /// The last pod of each controller for which there was no room, as long as nothing has changed.
    refused: BTreeMap<String, Refused>,
}

/// A pod for which there was no room: there is none for another like it, until something changes.
#[derive(Debug)]
struct Refused {
    pod: Arc<SeenPod>,
    /// The reason of the refusal.
    message: String,
    /// The state of the cluster.
    version: u64,
}

type Rank = (Reverse<i32>, Option<Timestamp>, String, String, Uid);

impl Scheduler {
    /// Notes that a node came or changed.
    pub fn node_seen(&mut self, node: Node) {
        let Some(name) = node.metadata.name.clone() else { return };
        if self.cluster.set_node(&name, NodeFacts::read(node)) {
            self.stir();
        }
    }

    /// Notes that a node is gone.
    pub fn node_gone(&mut self, name: &str) {
        self.cluster.remove_node(name);
    }

    /// Notes that a pod came or changed.
    pub fn pod_seen(&mut self, pod: &Arc<SeenPod>) {
        if let Some(node) = pod.node() {
            self.forget(&pod.uid);
            if pod.finished() {
                self.make_room(&pod.uid);
            } else {
                let before = self.cluster.find(&pod.uid);
                let before = before.filter(|before| before.node == node && before.pod.labels == pod.labels);
                let stays = before.is_some();
                // Its requests only change with its specification.
                let known = before.filter(|before| before.pod.generation == pod.generation);
                let asked = known.map(|before| before.asked.clone());
                let asked = asked.unwrap_or_else(|| Resources::asked_by(&pod.spec));
                self.cluster.place(Placed { pod: pod.clone(), node: node.to_owned(), asked });
                if !stays {
                    self.stir_neighbours(pod);
                }
            }
        } else if let Some(bound) = self.bound.get_mut(&pod.uid) {
            // The watch has not caught up with its binding.
            *bound = pod.clone();
        } else {
            self.forget(&pod.uid);
            let gated = !pod.spec.scheduling_gates.is_empty();
            let ours = pod.spec.scheduler_name.as_deref().is_none_or(|name| name == NAME);
            if ours && !gated && pod.deletion.is_none() && !pod.finished() {
                self.enqueue(pod.clone());
            }
        }
    }

    /// Notes that a pod is gone.
    pub fn pod_gone(&mut self, uid: &str) {
        self.forget(uid);
        self.make_room(uid);
    }

    /// Notes that a pod could not be bound; it is checked again when it is seen again.
    pub fn not_bound(&mut self, uid: &str) {
        self.bound.remove(uid);
        self.make_room(uid);
    }

    /// Returns why a pod's node does not take it, if it does not.
    pub fn reject(&self, pod: &SeenPod) -> Option<Rejection> {
        reject(pod, &Resources::asked_by(&pod.spec), &self.cluster)
    }

    /// Decides about the next pod; `None` when the queue is empty.
    pub fn next(&mut self) -> Option<Decision> {
        if self.queue.is_empty() {
            for uid in std::mem::take(&mut self.minding) {
                if let Some(pod) = self.waiting.remove(&uid) {
                    self.enqueue(pod);
                }
            }
        }
        let (_, pod) = self.queue.pop_first()?;
        self.ranks.remove(&pod.uid);
        if let Some(message) = self.known_refusal(&pod) {
            self.waiting.insert(pod.uid.clone(), pod.clone());
            return Some(Decision::Wait { pod, message });
        }
        let asked = Resources::asked_by(&pod.spec);
        Some(match self.choose(&pod, &asked) {
            Ok(node) => {
                self.bound.insert(pod.uid.clone(), pod.clone());
                self.cluster.place(Placed { pod: pod.clone(), node: node.clone(), asked });
                self.stir_neighbours(&pod);
                Decision::Bind { pod, node }
            }
            Err(refusals) => self.wait(pod, &asked, refusals),
        })
    }

    /// Returns why there is no room for a pod, if that is known from one like it.
    fn known_refusal(&self, pod: &SeenPod) -> Option<String> {
        let known = self.refused.get(pod.owner.as_deref()?)?;
        let same = known.version == self.cluster.version() && are_alike(&known.pod, pod);
        same.then(|| known.message.clone())
    }

    /// Returns the best node for a pod, or why each can't take it.
    fn choose(&mut self, pod: &SeenPod, asked: &Resources) -> Result<String, Vec<(String, Refusal)>> {
        #[cfg(test)]
        crate::work_count::count(crate::work_count::Counted::Placed);
        let neighbours = Neighbours::new(pod, &self.cluster);
        let nothing = Load::default();
        let mut refusals = Vec::new();
        let mut best: Option<(scores::Score, &String)> = None;
        let mut found = 0;
        let mut looked_at: Option<&String> = None;
        // Up to so many nodes the first of equals is taken; beyond, they are tried in turn, so that all are used.
        let start = self.last.clone();
        for (name, facts) in self.cluster.nodes_after(&start) {
            if found == ENOUGH {
                self.last = looked_at.cloned().unwrap_or_default();
                break;
            }
            looked_at = Some(name);
            let load = self.cluster.load(name).unwrap_or(&nothing);
            if let Some(refusal) = refuse(pod, asked, name, facts, load, &neighbours) {
                refusals.push((name.clone(), refusal));
                continue;
            }
            found += 1;
            let score = scores::score(pod, asked, name, facts, load, &neighbours);
            if best.as_ref().is_none_or(|(other, _)| score > *other) {
                best = Some((score, name));
            }
        }
        best.map(|(_, name)| name.clone()).ok_or(refusals)
    }

    fn wait(&mut self, pod: Arc<SeenPod>, asked: &Resources, refusals: Vec<(String, Refusal)>) -> Decision {
        self.waiting.insert(pod.uid.clone(), pod.clone());
        let preempts = pod.spec.preemption_policy.as_deref() != Some("Never");
        let victims = if preempts { preemption::victims(&pod, asked, &refusals, &self.cluster) } else { None };
        let refusals: Vec<Refusal> = refusals.into_iter().map(|(_, refusal)| refusal).collect();
        let message = message::message(&refusals, preempts);
        // If some are being deleted already, it waits for them.
        let going = |(_, victims): &(String, Vec<&Placed>)| victims.iter().any(|placed| placed.pod.deletion.is_some());
        match victims.filter(|victims| !going(victims)) {
            Some((node, victims)) => {
                let victims = victims.into_iter().map(|placed| placed.pod.clone()).collect();
                Decision::Preempt { pod, node, victims, message }
            }
            None => {
                if let Some(owner) = pod.owner.clone() {
                    let (pod, message, version) = (pod.clone(), message.clone(), self.cluster.version());
                    self.refused.retain(|_, known| known.version == version);
                    self.refused.insert(owner, Refused { pod, message, version });
                }
                Decision::Wait { pod, message }
            }
        }
    }

    fn forget(&mut self, uid: &str) {
        self.bound.remove(uid);
        self.waiting.remove(uid);
        if let Some(rank) = self.ranks.remove(uid) {
            self.queue.remove(&rank);
        }
    }

    fn make_room(&mut self, uid: &str) {
        if self.cluster.remove(uid) {
            self.stir();
        }
    }

    /// Notes that something changed for the better: all who wait are tried again.
    fn stir(&mut self) {
        for pod in std::mem::take(&mut self.waiting).into_values() {
            self.enqueue(pod);
        }
    }

    /// Notes that a pod came to a node: those who want to be near it, or far from it, are tried again after all others.
    fn stir_neighbours(&mut self, of: &SeenPod) {
        let minding = self.waiting.values().filter(|pod| minds(pod, of)).map(|pod| pod.uid.clone());
        self.minding.extend(minding);
    }

    fn enqueue(&mut self, pod: Arc<SeenPod>) {
        let rank = rank(&pod);
        self.ranks.insert(pod.uid.clone(), rank.clone());
        self.queue.insert(rank, pod);
    }
}

/// Returns true when two pods of one controller can go to the same nodes.
fn are_alike(one: &SeenPod, other: &SeenPod) -> bool {
    let (left, right) = (&one.spec, &other.spec);
    one.namespace == other.namespace
        && one.labels == other.labels
        && left.priority == right.priority
        && left.preemption_policy == right.preemption_policy
        && left.node_selector == right.node_selector
        && left.affinity == right.affinity
        && left.tolerations == right.tolerations
        && left.topology_spread_constraints == right.topology_spread_constraints
        && left.overhead == right.overhead
        && left.resources == right.resources
        && asks(left).eq(asks(right))
}

/// Returns the amount that each container of a pod asks of its node.
fn asks(
    spec: &PodSpec,
) -> impl Iterator<Item = (Option<&ResourceRequirements>, &[ContainerPort], Option<RestartPolicy>)> {
    let parts = spec.containers.iter().chain(&spec.init_containers);
    parts.map(|part| (part.resources.as_deref(), &*part.ports, part.restart_policy))
}

fn rank(pod: &SeenPod) -> Rank {
    (Reverse(priority(pod)), pod.created, pod.namespace.clone(), pod.name.clone(), pod.uid.clone())
}
