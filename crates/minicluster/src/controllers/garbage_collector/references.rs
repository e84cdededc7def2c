//! The owners of an object that exist, those that do not, and those that wait for it to go.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::graph::{FOREGROUND, GraphNode};
use super::{GarbageCollector, lock};
use crate::controllers::discovery::DiscoveredKind;
use crate::controllers::error::Error;
use crate::controllers::events::EventType;
use crate::controllers::key::{is_terminating, uid_of};

/// The owners of one object.
#[derive(Debug, Default)]
pub struct Owners {
    /// They are there.
    pub solid: Vec<OwnerReference>,
    /// They are not.
    pub dangling: Vec<OwnerReference>,
    /// They are there until their dependents have gone.
    pub waiting: Vec<OwnerReference>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReferenceState {
    Solid,
    Dangling,
    Waiting,
}

impl GarbageCollector {
    /// Sorts an object's owners.
    ///
    /// # Errors
    /// An owner of an unknown kind, or one that can't be asked for now: then nothing may be deleted.
    pub async fn owners_of(&self, node: &GraphNode) -> Result<Owners, Error> {
        let mut owners = Owners::default();
        for owner in &node.owners {
            let state = match self.known_state(node, owner) {
                Some(state) => state,
                None => self.live_state(node, owner).await?,
            };
            match state {
                ReferenceState::Solid => owners.solid.push(owner.clone()),
                ReferenceState::Dangling => owners.dangling.push(owner.clone()),
                ReferenceState::Waiting => owners.waiting.push(owner.clone()),
            }
        }
        Ok(owners)
    }

    /// Returns the graph's state of an owner; `None` if it has none.
    fn known_state(&self, node: &GraphNode, owner: &OwnerReference) -> Option<ReferenceState> {
        let graph = self.graph();
        if graph.is_gone(&owner.uid) {
            return Some(ReferenceState::Dangling);
        }
        let there = graph.get(&owner.uid)?;
        let elsewhere = !there.key.namespace.is_empty() && there.key.namespace != node.key.namespace;
        if elsewhere {
            if node.key.namespace.is_empty() {
                // An object of the whole cluster can't be owned from within a namespace: left alone.
                return Some(ReferenceState::Solid);
            }
            drop(graph);
            self.tell_of_wrong_namespace(node, owner);
            return Some(ReferenceState::Dangling);
        }
        Some(if there.awaits_dependents { ReferenceState::Waiting } else { ReferenceState::Solid })
    }

    async fn live_state(&self, node: &GraphNode, owner: &OwnerReference) -> Result<ReferenceState, Error> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let is_it = |kind: &&DiscoveredKind| kind.group == group && kind.kind == owner.kind;
        let kind = lock(&self.kinds).iter().find(is_it).cloned();
        let Some(kind) = kind else {
            let why = format!("nothing is known of the kind {} of {} of its owner", owner.kind, owner.api_version);
            return Err(Error::NotYet { what: node.key.to_string(), why });
        };
        if kind.namespaced && node.key.namespace.is_empty() {
            return Ok(ReferenceState::Solid);
        }
        let path = format!("{}/{}", kind.path_in(&node.key.namespace), owner.name);
        match self.context.requests.metadata(&path).await {
            Ok(live) if uid_of(&live) == owner.uid => {
                let waits = live.finalizers.iter().flatten().any(|finalizer| finalizer == FOREGROUND);
                Ok(if is_terminating(&live) && waits { ReferenceState::Waiting } else { ReferenceState::Solid })
            }
            Ok(_) => {
                self.graph().note_gone(&owner.uid);
                Ok(ReferenceState::Dangling)
            }
            Err(error) if error.is_not_found() => Ok(ReferenceState::Dangling),
            Err(error) => Err(error),
        }
    }

    fn tell_of_wrong_namespace(&self, node: &GraphNode, owner: &OwnerReference) {
        let kind = lock(&self.kinds).iter().find(|kind| kind.path() == node.path).cloned();
        let Some(kind) = kind else { return };
        let namespace = &node.key.namespace;
        let what = ObjectReference {
            api_version: Some(kind.api_version()),
            kind: Some(kind.kind),
            namespace: Some(namespace.clone()),
            name: Some(node.key.name.clone()),
            uid: Some(node.uid.clone()),
            ..ObjectReference::default()
        };
        let message = format!(
            "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace \"{namespace}\"",
            owner.api_version, owner.kind, owner.name, owner.uid
        );
        self.recorder.say_of(what, EventType::Warning, "OwnerRefInvalidNamespace", message);
    }
}
