//! All nodes and all pods that are on them, or are about to be.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::node::{Load, NodeFacts, Placed};

/// All nodes and all pods that are on them.
#[derive(Debug, Default)]
pub struct Cluster {
    nodes: BTreeMap<String, NodeFacts>,
    /// Also of nodes that are not known yet, or no longer.
    loads: BTreeMap<String, Load>,
    placed: BTreeMap<String, Placed>,
    /// Pods that do not want others near them.
    shy: BTreeSet<String>,
}

impl Cluster {
    /// A node came or changed; whether that may matter to pods that wait.
    pub fn set_node(&mut self, name: &str, facts: NodeFacts) -> bool {
        self.nodes.insert(name.to_owned(), facts.clone()) != Some(facts)
    }

    /// A node is gone. Its pods stay, as long as they are.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// A pod is on a node, or will be.
    pub fn place(&mut self, placed: Placed) {
        let uid = placed.pod.uid.clone();
        // Where nothing changes that is counted, only the pod's latest state is kept.
        let counted = |placed: &Placed| (placed.node.clone(), placed.pod.generation, placed.pod.owner.clone());
        if let Some(before) = self.placed.get_mut(&uid)
            && counted(before) == counted(&placed)
            && placed.pod.generation.is_some()
        {
            *before = placed;
            return;
        }
        self.remove(&uid);
        self.loads.entry(placed.node.clone()).or_default().add(&placed);
        let far = placed.pod.spec.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        if far.is_some_and(|far| far.required_during_scheduling_ignored_during_execution.is_some()) {
            self.shy.insert(uid.clone());
        }
        self.placed.insert(uid, placed);
    }

    /// A pod is on no node any more; whether it was.
    pub fn remove(&mut self, uid: &str) -> bool {
        self.shy.remove(uid);
        let Some(placed) = self.placed.remove(uid) else { return false };
        if let Some(load) = self.loads.get_mut(&placed.node) {
            load.remove(&placed);
            if load.pods.is_empty() {
                self.loads.remove(&placed.node);
            }
        }
        true
    }

    /// All nodes, beginning after one of this name and going round.
    pub fn nodes_after(&self, name: &str) -> impl Iterator<Item = (&String, &NodeFacts)> {
        let later = self.nodes.range::<str, _>((Bound::Excluded(name), Bound::Unbounded));
        later.chain(self.nodes.range::<str, _>((Bound::Unbounded, Bound::Included(name))))
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&String, &NodeFacts)> {
        self.nodes.iter()
    }

    /// A node.
    pub fn node(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.get(name)
    }

    /// What is taken of a node.
    pub fn load(&self, name: &str) -> Option<&Load> {
        self.loads.get(name)
    }

    /// All pods that are on nodes.
    pub fn placed(&self) -> impl Iterator<Item = &Placed> {
        self.placed.values()
    }

    /// A pod that is on a node.
    pub fn find(&self, uid: &str) -> Option<&Placed> {
        self.placed.get(uid)
    }

    /// The pods that do not want others near them.
    pub fn shy(&self) -> impl Iterator<Item = &Placed> {
        self.shy.iter().filter_map(|uid| self.placed.get(uid))
    }
}
