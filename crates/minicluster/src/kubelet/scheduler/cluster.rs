//! All nodes and all pods that are on them, or are about to be.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::groups::{Groups, traits};
use super::node::{Load, NodeFacts, Placed};
use crate::kubelet::pod_name::Uid;

/// All nodes and all pods that are on them.
#[derive(Debug, Default)]
pub struct Cluster {
    nodes: BTreeMap<String, NodeFacts>,
    /// Also of nodes that are not known yet, or no longer.
    loads: BTreeMap<String, Load>,
    placed: BTreeMap<Uid, Placed>,
    groups: Groups,
    /// Counts changes.
    version: u64,
}

impl Cluster {
    /// Adds or changes a node; returns true if that may matter to pods that wait.
    pub fn set_node(&mut self, name: &str, facts: NodeFacts) -> bool {
        self.version += 1;
        self.nodes.insert(name.to_owned(), facts.clone()) != Some(facts)
    }

    /// Notes that a node is gone. Its pods stay, as long as they are.
    pub fn remove_node(&mut self, name: &str) {
        self.version += 1;
        self.nodes.remove(name);
    }

    /// Notes that a pod is on a node, or will be.
    pub fn place(&mut self, placed: Placed) {
        self.version += 1;
        let uid = placed.pod.uid.clone();
        // If nothing changes that is counted, only the pod's latest state is kept.
        let counted = |placed: &Placed| (placed.node.clone(), placed.pod.generation, placed.pod.owner.clone());
        if let Some(before) = self.placed.get_mut(&uid)
            && counted(before) == counted(&placed)
            && placed.pod.generation.is_some()
        {
            // Labels and deletion change without that.
            if traits(&before.pod) != traits(&placed.pod) {
                self.groups.remove(before);
                self.groups.add(&placed);
            }
            *before = placed;
            return;
        }
        self.remove(&uid);
        self.loads.entry(placed.node.clone()).or_default().add(&placed);
        self.groups.add(&placed);
        self.placed.insert(uid, placed);
    }

    /// Removes a pod from its node; returns true if it was on one.
    pub fn remove(&mut self, uid: &str) -> bool {
        let Some(placed) = self.placed.remove(uid) else { return false };
        self.version += 1;
        self.groups.remove(&placed);
        if let Some(load) = self.loads.get_mut(&placed.node) {
            load.remove(&placed);
            if load.pods.is_empty() {
                self.loads.remove(&placed.node);
            }
        }
        true
    }

    /// Returns all nodes, beginning after one of this name and going round.
    pub fn nodes_after(&self, name: &str) -> impl Iterator<Item = (&String, &NodeFacts)> {
        let later = self.nodes.range::<str, _>((Bound::Excluded(name), Bound::Unbounded));
        later.chain(self.nodes.range::<str, _>((Bound::Unbounded, Bound::Included(name))))
    }

    /// Returns all nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&String, &NodeFacts)> {
        self.nodes.iter()
    }

    /// Returns a node.
    pub fn node(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.get(name)
    }

    /// Returns the load of a node.
    pub fn load(&self, name: &str) -> Option<&Load> {
        self.loads.get(name)
    }

    /// Returns a pod that is on a node.
    pub fn find(&self, uid: &str) -> Option<&Placed> {
        self.placed.get(uid)
    }

    /// Returns all pods that are on nodes, in groups.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Changes whenever anything has changed.
    pub fn version(&self) -> u64 {
        self.version
    }
}
