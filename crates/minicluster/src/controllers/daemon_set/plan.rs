//! The pods that a DaemonSet makes and deletes next. Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;

use super::fit::{self, Fit, REVISION_LABEL};
use crate::controllers::deployment::{Rounding, scaled};
use crate::controllers::key::{is_terminating, label};
use crate::controllers::node::Node;
use crate::controllers::pod::Pod;

/// A set's pods, by node.
pub type ByNode = BTreeMap<String, Vec<Arc<Pod>>>;

/// The changes.
#[derive(Debug, Default)]
pub struct DaemonSetChanges {
    /// Nodes that get a pod.
    pub create_on: Vec<String>,
    /// Pods that go.
    pub delete: Vec<Arc<Pod>>,
    /// Pods that have ended, by node: they go as well, if not too often.
    pub ended: Vec<(String, Arc<Pod>)>,
}

/// All that counts.
pub struct DaemonSetView<'a> {
    /// The set.
    pub set: &'a DaemonSet,
    /// All nodes.
    pub nodes: &'a [Arc<Node>],
    /// The set's pods.
    pub pods: &'a ByNode,
    /// The hash of the revision that pods shall have.
    pub hash: &'a str,
    /// The present moment.
    pub now: Timestamp,
}

/// The pods on one node: at most one of the new revision and one of an old one.
struct Pair<'a> {
    new: Option<&'a Arc<Pod>>,
    old: Option<&'a Arc<Pod>>,
}

impl DaemonSetView<'_> {
    /// Returns one pod on every node that it fits on; none elsewhere.
    pub fn manage(&self) -> DaemonSetChanges {
        let mut changes = DaemonSetChanges::default();
        for node in self.nodes {
            self.manage_node(node, &mut changes);
        }
        let is_there = |name: &String| self.nodes.iter().any(|node| node.name() == name);
        // Pods that wait for a node that is not there any more would wait for ever.
        let waiting = self.pods.iter().filter(|(name, _)| !is_there(name)).flat_map(|(_, pods)| pods);
        changes
            .delete
            .extend(waiting.filter(|pod| pod.spec.node_name.is_none() && !is_terminating(&pod.metadata)).cloned());
        changes
    }

    fn manage_node(&self, node: &Arc<Node>, changes: &mut DaemonSetChanges) {
        let fit = fit::of(self.set, node);
        let Some(pods) = self.pods.get(node.name()) else {
            if fit == Fit::Runs {
                changes.create_on.push(node.name().to_owned());
            }
            return;
        };
        let present = pods.iter().filter(|pod| !is_terminating(&pod.metadata));
        if fit == Fit::Not {
            changes.delete.extend(present.cloned());
            return;
        }
        let (ended, mut running): (Vec<_>, Vec<_>) = present.cloned().partition(|pod| pod.is_finished());
        changes.ended.extend(ended.into_iter().map(|pod| (node.name().to_owned(), pod)));
        running.sort_by(|one, other| by_age(one, other));
        if self.surge() == 0 {
            changes.delete.extend(running.into_iter().skip(1));
        } else if running.is_empty() && fit == Fit::Runs {
            changes.create_on.push(node.name().to_owned());
        } else if running.len() > 1 {
            self.prune(running, changes);
        }
    }

    /// Prunes pods while surging: two may be on a node, an old one that is ready and a new one that is not available
    /// yet.
    fn prune(&self, running: Vec<Arc<Pod>>, changes: &mut DaemonSetChanges) {
        let (mut new, mut old) = (None, None);
        for pod in running {
            let place = if self.is_new(&pod) { &mut new } else { &mut old };
            match place {
                None => *place = Some(pod),
                Some(_) => changes.delete.push(pod),
            }
        }
        if let (Some(new), Some(old)) = (new, old)
            && (!old.is_ready() || self.is_available(&new))
        {
            changes.delete.push(old);
        }
    }

    /// Replaces pods of old revisions, as many at a time as the strategy allows.
    pub fn roll(&self) -> DaemonSetChanges {
        let mut by_node = self.pods.clone();
        let mut desired = 0;
        for node in self.nodes.iter().filter(|node| fit::of(self.set, node) == Fit::Runs) {
            by_node.entry(node.name().to_owned()).or_default();
            desired += 1;
        }
        let surge = self.resolved_surge(desired);
        let block = self.set.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let unavailable = block.and_then(|block| block.max_unavailable.as_ref());
        let unavailable = unavailable.map_or(1, |value| scaled(Some(value), desired, Rounding::Up));
        if surge == 0 {
            let bound = if desired > 0 { unavailable.max(1) } else { unavailable };
            self.replace(&by_node, bound)
        } else {
            self.surge_over(&by_node, surge)
        }
    }

    fn replace(&self, by_node: &ByNode, bound: i32) -> DaemonSetChanges {
        let mut unavailable = 0;
        let (mut broken, mut candidates) = (Vec::new(), Vec::new());
        for pods in by_node.values() {
            match self.pair(pods) {
                Some(Pair { new: Some(new), old: None }) => unavailable += i32::from(!self.is_available(new)),
                Some(Pair { new: None, old: Some(old) }) if !self.is_available(old) => {
                    unavailable += 1;
                    broken.push(old.clone());
                }
                Some(Pair { new: None, old: Some(old) }) => candidates.push(old.clone()),
                // Something else is to be done on this node first.
                _ => unavailable += 1,
            }
        }
        let room = usize::try_from(bound - unavailable).unwrap_or(0);
        broken.extend(candidates.into_iter().take(room));
        DaemonSetChanges { delete: broken, ..DaemonSetChanges::default() }
    }

    fn surge_over(&self, by_node: &ByNode, bound: i32) -> DaemonSetChanges {
        let mut surging = 0;
        let (mut create_on, mut candidates, mut delete) = (Vec::new(), Vec::new(), Vec::new());
        for (node, pods) in by_node {
            match self.pair(pods) {
                None => surging += 1,
                Some(Pair { old: None, .. }) => {}
                Some(Pair { new: None, old: Some(old) }) if !self.is_available(old) => create_on.push(node.clone()),
                Some(Pair { new: None, old: Some(_) }) => candidates.push(node.clone()),
                Some(Pair { new: Some(new), old: Some(old) }) => {
                    if self.is_available(new) {
                        delete.push(old.clone());
                    } else {
                        surging += 1;
                    }
                }
            }
        }
        let room = usize::try_from(bound - surging).unwrap_or(0);
        create_on.extend(candidates.into_iter().take(room));
        DaemonSetChanges { create_on, delete, ended: Vec::new() }
    }

    /// Returns the pods on a node, if there is at most one of each sort.
    fn pair<'p>(&self, pods: &'p [Arc<Pod>]) -> Option<Pair<'p>> {
        let mut pair = Pair { new: None, old: None };
        for pod in pods.iter().filter(|pod| !is_terminating(&pod.metadata)) {
            let place = if self.is_new(pod) { &mut pair.new } else { &mut pair.old };
            if place.replace(pod).is_some() {
                return None;
            }
        }
        Some(pair)
    }

    fn surge(&self) -> i32 {
        // The existence of a surge does not depend on the number of nodes.
        self.resolved_surge(100)
    }

    fn resolved_surge(&self, desired: i32) -> i32 {
        let strategy = self.set.spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return 0;
        }
        let block = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        scaled(block.and_then(|block| block.max_surge.as_ref()), desired, Rounding::Up)
    }

    fn is_new(&self, pod: &Pod) -> bool {
        label(&pod.metadata, REVISION_LABEL) == Some(self.hash)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.set.spec.min_ready_seconds.unwrap_or(0), self.now)
    }
}

/// Orders pods that are bound first, then the oldest.
pub fn by_age(one: &Pod, other: &Pod) -> Ordering {
    let is_unbound = |pod: &Pod| pod.spec.node_name.as_ref().is_none_or(String::is_empty);
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    is_unbound(one)
        .cmp(&is_unbound(other))
        .then_with(|| created(one).cmp(&created(other)))
        .then_with(|| one.metadata.name.cmp(&other.metadata.name))
}

#[cfg(test)]
mod tests {
    use super::{Arc, ByNode, DaemonSetChanges, DaemonSetView};
    use crate::controllers::node::Node;
    use crate::controllers::pod::Pod;
    use jiff::Timestamp;
    use k8s_openapi::api::apps::v1::DaemonSet;
    use serde_json::{Value, json};

    /// Returns a pod by a short word: its node, then `r` for ready, `u` for not, `t` for going, then its revision.
    fn pod(word: &str) -> (String, Arc<Pod>) {
        let (node, state, revision) = (&word[..1], &word[1..2], &word[2..]);
        let status = if state == "r" { "True" } else { "False" };
        let mut pod = json!({
            "metadata": { "name": word, "uid": word, "labels": { "controller-revision-hash": revision } },
            "spec": { "nodeName": node },
            "status": { "phase": "Running", "conditions": [
                { "type": "Ready", "status": status, "lastTransitionTime": "1970-01-01T00:00:00Z" },
            ] },
        });
        if state == "t" {
            pod["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        }
        (node.to_owned(), Arc::new(serde_json::from_value(pod).unwrap()))
    }

    fn change(
        strategy: Value,
        nodes: &[&str],
        pods: &[&str],
        plan: impl Fn(&DaemonSetView<'_>) -> DaemonSetChanges,
    ) -> (String, String) {
        let set = json!({
            "metadata": { "name": "agent" },
            "spec": { "selector": {}, "template": {}, "updateStrategy": { "rollingUpdate": strategy } },
        });
        let set: DaemonSet = serde_json::from_value(set).unwrap();
        let node =
            |name: &&str| Arc::new(serde_json::from_value::<Node>(json!({ "metadata": { "name": name } })).unwrap());
        let nodes: Vec<Arc<Node>> = nodes.iter().map(node).collect();
        let mut by_node = ByNode::new();
        for (node, pod) in pods.iter().map(|word| pod(word)) {
            by_node.entry(node).or_default().push(pod);
        }
        let now = Timestamp::from_second(100).unwrap();
        let changes = plan(&DaemonSetView { set: &set, nodes: &nodes, pods: &by_node, hash: "new", now });
        let deleted: Vec<&str> = changes.delete.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
        (changes.create_on.join(" "), deleted.join(" "))
    }

    fn pair(create: &str, delete: &str) -> (String, String) {
        (create.to_owned(), delete.to_owned())
    }

    #[test]
    fn one_pod_a_node() {
        let manage = |nodes: &[&str], pods: &[&str]| change(json!({}), nodes, pods, |view| view.manage());
        assert_eq!(manage(&["a", "b"], &["arnew"]), pair("b", ""));
        assert_eq!(manage(&["a"], &["arnew", "arold"]), pair("", "arold"));
        assert_eq!(manage(&["a"], &["atnew"]), pair("", ""), "the one that goes is waited for");
        let surge =
            |pods: &[&str]| change(json!({ "maxSurge": 1, "maxUnavailable": 0 }), &["a"], pods, |view| view.manage());
        assert_eq!(surge(&["aunew", "arold"]), pair("", ""));
        assert_eq!(surge(&["arnew", "arold"]), pair("", "arold"));
        assert_eq!(surge(&["aunew", "auold"]), pair("", "auold"));
        assert_eq!(surge(&["atold"]), pair("a", ""));
    }

    #[test]
    fn as_many_as_may_be_unavailable() {
        let roll = |bound: Value, pods: &[&str]| {
            change(json!({ "maxUnavailable": bound }), &["a", "b", "c", "d"], pods, |view| view.roll())
        };
        let old = ["arold", "brold", "crold", "drold"];
        assert_eq!(roll(json!(1), &old), pair("", "arold"));
        assert_eq!(roll(json!("30%"), &old), pair("", "arold brold"));
        assert_eq!(roll(json!(1), &["aunew", "brold", "crold", "drold"]), pair("", ""));
        assert_eq!(roll(json!(1), &["aunew", "buold", "crold", "drold"]), pair("", "buold"));
        assert_eq!(roll(json!(1), &["arold", "buold", "crold", "drold"]), pair("", "buold"));
        assert_eq!(roll(json!(1), &["atold", "brold", "crold", "drold"]), pair("", ""));
        assert_eq!(roll(json!(1), &["arnew", "brold", "crold", "drold"]), pair("", "brold"));
    }

    #[test]
    fn as_many_as_may_be_too_many() {
        let roll = |pods: &[&str]| {
            change(json!({ "maxSurge": 1, "maxUnavailable": 0 }), &["a", "b"], pods, |view| view.roll())
        };
        assert_eq!(roll(&["arold", "brold"]), pair("a", ""));
        assert_eq!(roll(&["aunew", "arold", "brold"]), pair("", ""));
        assert_eq!(roll(&["arnew", "arold", "brold"]), pair("b", "arold"));
        assert_eq!(roll(&["auold", "brold"]), pair("a b", ""));
    }
}
