//! Pods on nodes, counted by their properties for others: those of one template are one group, however many they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodAffinityTerm;

use super::labels::Labels;
use super::node::Placed;
use crate::kubelet::pod::SeenPod;

/// The traits of a pod that terms and constraints of other pods refer to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Traits {
    /// The namespace.
    pub namespace: String,
    /// True when it is being deleted.
    pub leaving: bool,
    /// The labels.
    pub labels: Labels,
}

/// The number of pods of a group on each node.
pub type Nodes = BTreeMap<String, i64>;

/// Pods that do not want certain others near them.
#[derive(Debug)]
pub struct Shy {
    /// One of them: all are of one namespace and say the same.
    pub pod: Arc<SeenPod>,
    /// The nodes.
    pub nodes: Nodes,
}

/// All pods on nodes, in groups.
#[derive(Debug, Default)]
pub struct Groups {
    alike: BTreeMap<Traits, Nodes>,
    /// By namespace and the text of their anti-affinity.
    shy: BTreeMap<(String, String), Shy>,
}

impl Groups {
    /// Notes that a pod is on a node.
    pub fn add(&mut self, placed: &Placed) {
        *self.alike.entry(traits(&placed.pod)).or_default().entry(placed.node.clone()).or_default() += 1;
        if let Some(key) = aversion(&placed.pod) {
            let shy = self.shy.entry(key).or_insert_with(|| Shy { pod: placed.pod.clone(), nodes: Nodes::new() });
            *shy.nodes.entry(placed.node.clone()).or_default() += 1;
        }
    }

    /// Notes that a pod is on its node no more.
    pub fn remove(&mut self, placed: &Placed) {
        let traits = traits(&placed.pod);
        if let Some(nodes) = self.alike.get_mut(&traits) {
            decrease(nodes, &placed.node);
            if nodes.is_empty() {
                self.alike.remove(&traits);
            }
        }
        if let Some(key) = aversion(&placed.pod)
            && let Some(shy) = self.shy.get_mut(&key)
        {
            decrease(&mut shy.nodes, &placed.node);
            if shy.nodes.is_empty() {
                self.shy.remove(&key);
            }
        }
    }

    /// Returns all groups.
    pub fn alike(&self) -> impl Iterator<Item = (&Traits, &Nodes)> {
        self.alike.iter()
    }

    /// Returns the groups of pods that do not want others near them.
    pub fn shy(&self) -> impl Iterator<Item = &Shy> {
        self.shy.values()
    }
}

/// Returns the traits of a pod.
pub fn traits(pod: &SeenPod) -> Traits {
    Traits { namespace: pod.namespace.clone(), leaving: pod.deletion.is_some(), labels: pod.labels.clone() }
}

/// Returns the terms by which a pod keeps others away.
pub fn keeps_away(pod: &SeenPod) -> Option<&Vec<PodAffinityTerm>> {
    let far = pod.spec.affinity.as_ref()?.pod_anti_affinity.as_ref()?;
    far.required_during_scheduling_ignored_during_execution.as_ref()
}

/// Returns the terms by which a pod keeps others away, as a key; `None` if it keeps nobody away.
fn aversion(pod: &SeenPod) -> Option<(String, String)> {
    let terms = serde_json::to_string(keeps_away(pod)?).ok()?;
    Some((pod.namespace.clone(), terms))
}

fn decrease(nodes: &mut Nodes, node: &str) {
    if let Some(count) = nodes.get_mut(node) {
        *count -= 1;
        if *count == 0 {
            nodes.remove(node);
        }
    }
}
