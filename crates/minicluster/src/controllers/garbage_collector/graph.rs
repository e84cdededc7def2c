//! The graph of ownership: every object of every kind, and the edges between them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::controllers::key::{Key, is_terminating, uid_of};

/// The finalizer that keeps an owner until those are gone who block its deletion.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an owner until its dependents have been released.
pub const ORPHAN: &str = "orphan";
/// Owners that are known to be gone are remembered up to this number; the oldest are forgotten first.
const GONE_REMEMBERED: usize = 2000;

/// One object.
#[derive(Clone, Debug)]
pub struct GraphNode {
    /// The path of its kind, `/apis/apps/v1/deployments`.
    pub path: String,
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: String,
    /// The `resourceVersion` last seen.
    pub version: String,
    /// The owners.
    pub owners: Vec<OwnerReference>,
    /// True when it has been asked to go.
    pub going: bool,
    /// True when it waits for its dependents to go first.
    pub awaits_dependents: bool,
    /// True when its dependents are to be released.
    pub orphans_dependents: bool,
}

impl GraphNode {
    /// Returns the node of an object with this metadata.
    pub fn of(path: &str, metadata: &ObjectMeta) -> GraphNode {
        let has = |name: &str| metadata.finalizers.iter().flatten().any(|finalizer| finalizer == name);
        let going = is_terminating(metadata);
        GraphNode {
            path: path.to_owned(),
            key: Key::of(metadata),
            uid: uid_of(metadata).to_owned(),
            version: metadata.resource_version.clone().unwrap_or_default(),
            owners: metadata.owner_references.clone().unwrap_or_default(),
            going,
            awaits_dependents: going && has(FOREGROUND),
            orphans_dependents: going && has(ORPHAN),
        }
    }
}

/// Work on an object, by uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// The check if the object should go, or its owner wait no longer.
    Check(String),
    /// The object's dependents are to be released.
    Orphan(String),
}

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Task::Check(uid) => write!(f, "check {uid}"),
            Task::Orphan(uid) => write!(f, "orphan the dependents of {uid}"),
        }
    }
}

/// All objects.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: BTreeMap<String, GraphNode>,
    /// By the owner's uid; the owner need not be known.
    dependents: BTreeMap<String, BTreeSet<String>>,
    gone: BTreeSet<String>,
    gone_in_order: std::collections::VecDeque<String>,
}

impl Graph {
    /// Returns the object with this uid.
    pub fn get(&self, uid: &str) -> Option<&GraphNode> {
        self.nodes.get(uid)
    }

    /// Returns true when an owner is known to have gone: uids do not come back.
    pub fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    /// Notes that an owner turned out not to be there.
    pub fn note_gone(&mut self, uid: &str) {
        if self.gone.insert(uid.to_owned()) {
            self.gone_in_order.push_back(uid.to_owned());
            if self.gone_in_order.len() > GONE_REMEMBERED
                && let Some(oldest) = self.gone_in_order.pop_front()
            {
                self.gone.remove(&oldest);
            }
        }
    }

    /// Returns the objects that name an owner.
    pub fn dependents(&self, owner: &str) -> Vec<GraphNode> {
        let uids = self.dependents.get(owner).into_iter().flatten();
        uids.filter_map(|uid| self.nodes.get(uid)).cloned().collect()
    }

    /// Returns the dependents that keep an owner from going.
    pub fn blocking(&self, owner: &str) -> Vec<GraphNode> {
        let blocks = |node: &GraphNode| {
            node.owners.iter().any(|reference| reference.uid == owner && reference.block_owner_deletion == Some(true))
        };
        self.dependents(owner).into_iter().filter(blocks).collect()
    }

    /// Returns true when an object has any dependents.
    pub fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.contains_key(uid)
    }

    /// Notes that nothing of interest changed but the version.
    pub fn set_version(&mut self, uid: &str, version: String) {
        if let Some(node) = self.nodes.get_mut(uid) {
            node.version = version;
        }
    }

    /// Adds or changes an object; returns the objects to check.
    pub fn put(&mut self, node: GraphNode) -> Vec<Task> {
        let before = self.nodes.get(&node.uid).cloned();
        let mut tasks = Vec::new();
        let old_owners = before.as_ref().map(|before| before.owners.clone()).unwrap_or_default();
        if old_owners != node.owners {
            for owner in &old_owners {
                self.unlink(&owner.uid, &node.uid);
            }
            for owner in &node.owners {
                self.dependents.entry(owner.uid.clone()).or_default().insert(node.uid.clone());
            }
            tasks.extend(self.unblocked(&old_owners, &node.owners));
            // An owner that is not known may not be there, or not be seen yet.
            if node.owners.iter().any(|owner| !self.nodes.contains_key(&owner.uid)) {
                tasks.push(Task::Check(node.uid.clone()));
            }
        }
        // An owner that waits for dependents takes those with it that come later.
        if node.owners.iter().any(|owner| self.nodes.get(&owner.uid).is_some_and(|owner| owner.awaits_dependents)) {
            tasks.push(Task::Check(node.uid.clone()));
        }
        if node.orphans_dependents && !before.as_ref().is_some_and(|before| before.orphans_dependents) {
            tasks.push(Task::Orphan(node.uid.clone()));
        }
        if node.awaits_dependents && !before.as_ref().is_some_and(|before| before.awaits_dependents) {
            let dependents = self.dependents.get(&node.uid).into_iter().flatten();
            tasks.extend(dependents.map(|uid| Task::Check(uid.clone())));
            tasks.push(Task::Check(node.uid.clone()));
        }
        self.nodes.insert(node.uid.clone(), node);
        tasks
    }

    /// Removes an object; returns the objects to check.
    pub fn remove(&mut self, uid: &str) -> Vec<Task> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        for owner in &node.owners {
            self.unlink(&owner.uid, uid);
        }
        let mut tasks = Vec::new();
        if let Some(dependents) = self.dependents.get(uid) {
            tasks.extend(dependents.iter().map(|uid| Task::Check(uid.clone())));
            self.note_gone(uid);
        }
        tasks.extend(self.waiting(&node.owners));
        tasks
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    /// Owners that wait, and are no longer blocked by a reference that was taken away or stopped blocking.
    fn unblocked(&self, before: &[OwnerReference], after: &[OwnerReference]) -> Vec<Task> {
        let still_blocks = |owner: &OwnerReference| {
            after.iter().any(|other| other.uid == owner.uid && other.block_owner_deletion == Some(true))
        };
        let freed: Vec<OwnerReference> = before.iter().filter(|owner| !still_blocks(owner)).cloned().collect();
        self.waiting(&freed)
    }

    fn waiting(&self, owners: &[OwnerReference]) -> Vec<Task> {
        let waits = |owner: &&OwnerReference| self.nodes.get(&owner.uid).is_some_and(|owner| owner.awaits_dependents);
        owners.iter().filter(waits).map(|owner| Task::Check(owner.uid.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{FOREGROUND, Graph, GraphNode, ORPHAN, Task};
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};

    fn object(uid: &str, owners: &[(&str, bool)], finalizer: Option<&str>) -> GraphNode {
        let reference = |&(uid, blocks): &(&str, bool)| OwnerReference {
            uid: uid.to_owned(),
            block_owner_deletion: Some(blocks),
            ..OwnerReference::default()
        };
        let metadata = ObjectMeta {
            name: Some(uid.to_owned()),
            uid: Some(uid.to_owned()),
            owner_references: Some(owners.iter().map(reference).collect()),
            finalizers: finalizer.map(|finalizer| vec![finalizer.to_owned()]),
            deletion_timestamp: finalizer.map(|_| Time(Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        };
        GraphNode::of("/api/v1/things", &metadata)
    }

    fn check(uid: &str) -> Task {
        Task::Check(uid.to_owned())
    }

    #[test]
    fn dependents_are_looked_at_when_their_owner_goes() {
        let mut graph = Graph::default();
        assert_eq!(graph.put(object("owner", &[], None)), []);
        assert_eq!(graph.put(object("child", &[("owner", true)], None)), []);
        assert_eq!(graph.put(object("stray", &[("nobody", true)], None)), [check("stray")]);
        assert_eq!(graph.remove("owner"), [check("child")]);
        assert!(graph.is_gone("owner") && !graph.is_gone("nobody"));
        assert_eq!(graph.remove("child"), []);
        assert!(!graph.has_dependents("owner"));
    }

    #[test]
    fn an_owner_that_waits_is_looked_at_when_nobody_blocks_it_any_more() {
        let mut graph = Graph::default();
        graph.put(object("owner", &[], None));
        graph.put(object("child", &[("owner", true)], None));
        graph.put(object("other", &[("owner", false)], None));
        let waiting = graph.put(object("owner", &[], Some(FOREGROUND)));
        assert_eq!(waiting, [check("child"), check("other"), check("owner")]);
        assert_eq!(graph.blocking("owner").len(), 1);
        assert_eq!(graph.put(object("late", &[("owner", true)], None)), [check("late")]);
        assert_eq!(graph.put(object("late", &[], None)), [check("owner")]);
        assert_eq!(graph.remove("child"), [check("owner")]);
        assert!(graph.blocking("owner").is_empty());
    }

    #[test]
    fn dependents_are_let_go_once() {
        let mut graph = Graph::default();
        graph.put(object("owner", &[], None));
        let orphan = || object("owner", &[], Some(ORPHAN));
        assert_eq!(graph.put(orphan()), [Task::Orphan("owner".to_owned())]);
        assert_eq!(graph.put(orphan()), []);
    }
}
