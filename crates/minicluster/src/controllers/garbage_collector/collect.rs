//! Deleting, letting go, and taking finalizers off.

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::GarbageCollector;
use super::graph::{FOREGROUND, GraphNode, ORPHAN, Task};
use crate::controllers::error::Error;
use crate::controllers::key::Key;

/// The number of tries to take a finalizer off an object that others write at the same time.
const TRIES: usize = 5;

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

impl GarbageCollector {
    /// Looks whether an object has to go, or to wait no longer.
    pub async fn check(&self, uid: &str) -> Result<(), Error> {
        let Some(node) = self.graph().get(uid).cloned() else { return Ok(()) };
        if node.awaits_dependents {
            return self.wait_or_go(&node).await;
        }
        if node.going || node.owners.is_empty() {
            return Ok(());
        }
        let owners = self.owners_of(&node).await?;
        if owners.dangling.is_empty() && owners.waiting.is_empty() {
            return Ok(());
        }
        if !owners.solid.is_empty() {
            let lost = owners.dangling.iter().chain(&owners.waiting);
            return self.drop_owners(&node, &lost.map(|owner| owner.uid.clone()).collect::<Vec<_>>()).await;
        }
        let policy = if owners.waiting.is_empty() || !self.graph().has_dependents(uid) {
            "Background"
        } else {
            if self.graph().dependents(uid).iter().any(|dependent| dependent.awaits_dependents) {
                // A circle of owners that wait for each other: this one blocks its owner no more.
                self.unblock_owners(&node).await?;
            }
            "Foreground"
        };
        self.delete(&node, policy).await
    }

    /// Lets the dependents of an object go that is to leave them behind.
    pub async fn orphan(&self, uid: &str) -> Result<(), Error> {
        let Some(node) = self.graph().get(uid).cloned().filter(|node| node.orphans_dependents) else { return Ok(()) };
        let dependents = self.graph().dependents(uid);
        let owner = [uid.to_owned()];
        let freed = join_all(dependents.iter().map(|dependent| self.drop_owners(dependent, &owner))).await;
        if let Some(error) = Error::first_of(freed.into_iter().filter_map(Result::err).collect()) {
            return Err(error);
        }
        self.drop_finalizer(&node, ORPHAN).await
    }

    async fn wait_or_go(&self, node: &GraphNode) -> Result<(), Error> {
        let blocking = self.graph().blocking(&node.uid);
        if blocking.is_empty() {
            return self.drop_finalizer(node, FOREGROUND).await;
        }
        for dependent in blocking.into_iter().filter(|dependent| !dependent.awaits_dependents) {
            self.queue.add(Task::Check(dependent.uid));
        }
        Ok(())
    }

    async fn delete(&self, node: &GraphNode, policy: &str) -> Result<(), Error> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy,
            "preconditions": { "uid": node.uid, "resourceVersion": node.version },
        });
        match self.send("delete", "DELETE", node, "application/json", &options).await {
            Ok(()) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) if error.is_conflict() => {
                // It has changed since it was seen: read its present state, and decide again.
                self.see_again(node).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    async fn see_again(&self, node: &GraphNode) -> Result<(), Error> {
        match self.context.requests.metadata(&place_of(node)).await {
            Ok(live) if live.uid.as_deref() == Some(&node.uid) => {
                let tasks = self.graph().put(GraphNode::of(&node.path, &live));
                tasks.into_iter().for_each(|task| self.queue.add(task));
                Ok(())
            }
            // Another object of the same name: the watch will report it.
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes owners off an object.
    async fn drop_owners(&self, node: &GraphNode, uids: &[String]) -> Result<(), Error> {
        let off = |uid: &String| json!({ "$patch": "delete", "uid": uid });
        let references: Vec<Value> = uids.iter().map(off).collect();
        self.change_owners(node, &references, |owners| owners.retain(|owner| !uids.contains(&owner.uid))).await
    }

    /// Lets an object's owners go without waiting for it.
    async fn unblock_owners(&self, node: &GraphNode) -> Result<(), Error> {
        let free = |uid: &String| json!({ "uid": uid, "blockOwnerDeletion": false });
        let references: Vec<Value> = node.owners.iter().map(|owner| free(&owner.uid)).collect();
        let unblock = |owners: &mut Vec<OwnerReference>| {
            owners.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
        };
        self.change_owners(node, &references, unblock).await
    }

    /// Changes an object's owners: by a patch that names only those, or, for custom kinds, which do not take such
    /// patches, by the whole list.
    async fn change_owners(
        &self,
        node: &GraphNode,
        strategic: &[Value],
        change: impl Fn(&mut Vec<OwnerReference>),
    ) -> Result<(), Error> {
        let patch = json!({ "metadata": { "uid": node.uid, "ownerReferences": strategic } });
        match self.send("patch", "PATCH", node, STRATEGIC, &patch).await {
            Err(error) if error.status().is_some_and(|status| status.code == 415) => {}
            Err(error) if error.is_not_found() => return Ok(()),
            answer => return answer,
        }
        let live = match self.context.requests.metadata(&place_of(node)).await {
            Ok(live) if live.uid.as_deref() == Some(&node.uid) => live,
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut owners = live.owner_references.unwrap_or_default();
        change(&mut owners);
        let metadata = json!({ "resourceVersion": live.resource_version, "ownerReferences": owners });
        self.send("patch", "PATCH", node, MERGE, &json!({ "metadata": metadata })).await
    }

    async fn drop_finalizer(&self, node: &GraphNode, finalizer: &str) -> Result<(), Error> {
        let mut last = None;
        for _ in 0..TRIES {
            let live = match self.context.requests.metadata(&place_of(node)).await {
                Ok(live) if live.uid.as_deref() == Some(&node.uid) => live,
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error),
            };
            let mut finalizers = live.finalizers.unwrap_or_default();
            if !finalizers.iter().any(|present| present == finalizer) {
                return Ok(());
            }
            finalizers.retain(|present| present != finalizer);
            let metadata = json!({ "resourceVersion": live.resource_version, "finalizers": finalizers });
            match self.send("patch", "PATCH", node, MERGE, &json!({ "metadata": metadata })).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) if error.is_conflict() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        last.map_or(Ok(()), Err)
    }

    async fn send(
        &self,
        action: &'static str,
        method: &str,
        node: &GraphNode,
        media_type: &str,
        body: &Value,
    ) -> Result<(), Error> {
        self.context.requests.raw(action, method, &place_of(node), media_type, body).await
    }
}

/// Returns the place of an object: the path of its kind with its namespace and name.
fn place_of(node: &GraphNode) -> String {
    let Key { namespace, name } = &node.key;
    match node.path.rsplit_once('/') {
        Some((root, plural)) if !namespace.is_empty() => format!("{root}/namespaces/{namespace}/{plural}/{name}"),
        _ => format!("{}/{name}", node.path),
    }
}
