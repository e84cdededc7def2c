//! The scheduler: which pod goes to which node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::pod::SeenPod;

/// What was decided about a pod.
pub enum Decision {
    /// It goes to this node.
    Bind { pod: Arc<SeenPod>, node: String },
}

/// All that is known of nodes and pods.
#[derive(Default)]
pub struct Scheduler {
    nodes: BTreeSet<String>,
    waiting: BTreeMap<String, Arc<SeenPod>>,
    placed: BTreeMap<String, String>,
}

impl Scheduler {
    /// A node came or changed.
    pub fn node_seen(&mut self, name: &str) {
        self.nodes.insert(name.to_owned());
    }

    /// A node went.
    pub fn node_gone(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// A pod came or changed.
    pub fn pod_seen(&mut self, pod: &Arc<SeenPod>) {
        self.pod_gone(&pod.uid);
        if let Some(node) = pod.node() {
            self.placed.insert(pod.uid.clone(), node.to_owned());
        } else if pod.deletion.is_none() {
            self.waiting.insert(pod.uid.clone(), pod.clone());
        }
    }

    /// A pod went.
    pub fn pod_gone(&mut self, uid: &str) {
        self.waiting.remove(uid);
        self.placed.remove(uid);
    }

    /// The next pod that can be placed.
    pub fn next(&mut self) -> Option<Decision> {
        let mut counts: BTreeMap<&String, usize> = self.nodes.iter().map(|node| (node, 0)).collect();
        for node in self.placed.values() {
            if let Some(count) = counts.get_mut(node) {
                *count += 1;
            }
        }
        let (node, _) = counts.into_iter().min_by_key(|(_, count)| *count)?;
        let node = node.clone();
        let (uid, pod) = self.waiting.pop_first()?;
        self.placed.insert(uid, node.clone());
        Some(Decision::Bind { pod, node })
    }
}
