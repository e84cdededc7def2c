//! ReplicationControllers and their pods, for the rolling update: reading both, and one write at a time.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use super::call::{Purpose, request};
use super::{Cluster, ClusterError, Served};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::marks;
use belay_core::rollout::rolling_update::{Left, Live, RollingUpdate, Write};

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is done.
    Done,
    /// The object has changed since it was read: read it again.
    Outdated,
}

/// The place of a write, and its name.
#[derive(Clone, Copy)]
struct FoundBy<'a> {
    namespace: &'a str,
    manager: &'a str,
}

impl Cluster {
    /// Returns the live objects of a rolling update: the controllers of a namespace, and those pods that it needs.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn look_at_controllers(&self, update: &RollingUpdate, namespace: &str) -> Result<Live, ClusterError> {
        let (controller, pod) = (self.served("v1", "ReplicationController").await?, self.served("v1", "Pod").await?);
        let controllers = self.list(&controller, Some(namespace), "").await?;
        let mut pods: BTreeMap<String, Value> = BTreeMap::new();
        for selector in update.selectors(&controllers) {
            for pod in self.list(&pod, Some(namespace), &selector).await? {
                pods.insert(marks::uid(&pod).to_owned(), pod);
            }
        }
        Ok(Live { controllers, pods: pods.into_values().collect() })
    }

    /// Does one write of a rolling update, under the name of that manager.
    ///
    /// # Errors
    /// [`ClusterError`] sorts them; a conflict with a faster writer is [`Sent::Outdated`].
    pub async fn write_controller(&self, namespace: &str, write: &Write, manager: &str) -> Result<Sent, ClusterError> {
        let by = FoundBy { namespace, manager };
        let controller = self.served("v1", "ReplicationController").await?;
        let pod = self.served("v1", "Pod").await?;
        let answer = match write {
            Write::Create(body) => self.create(&controller, by, body).await,
            Write::Change { name, patch, .. } => self.merge(&controller, by, name, patch).await,
            Write::ChangePod { name, patch } => self.merge(&pod, by, name, patch).await,
            Write::Delete { name, uid, pods } => self.remove(&controller, namespace, name, uid, *pods).await,
            Write::DeletePod { name, uid } => self.remove(&pod, namespace, name, uid, Left::Deleted).await,
        };
        match answer {
            Ok(_) => Ok(Sent::Done),
            Err(ClusterError::Refused(refusal)) if refusal.code == 404 || refusal.code == 409 => Ok(Sent::Outdated),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, served: &Served, by: FoundBy<'_>, body: &Value) -> Result<Value, ClusterError> {
        let FoundBy { namespace, manager } = by;
        let what = format!("create {}", key(served, namespace, body["metadata"]["name"].as_str().unwrap_or_default()));
        let path = format!("{}?fieldManager={manager}&fieldValidation=Strict", served.path(Some(namespace), ""));
        let request = request(Method::POST, &path, "application/json", body.to_string().into_bytes());
        Ok(self.call(Purpose { what: &what, secret: false }, request).await?.value)
    }

    async fn merge(&self, served: &Served, by: FoundBy<'_>, name: &str, patch: &Value) -> Result<Value, ClusterError> {
        let key = key(served, by.namespace, name);
        let what = format!("change {key}");
        let path = format!("{}?fieldManager={}", served.path_of(&key), by.manager);
        let request = request(Method::PATCH, &path, "application/merge-patch+json", patch.to_string().into_bytes());
        Ok(self.call(Purpose { what: &what, secret: false }, request).await?.value)
    }

    async fn remove(
        &self,
        served: &Served,
        namespace: &str,
        name: &str,
        uid: &str,
        pods: Left,
    ) -> Result<Value, ClusterError> {
        let key = key(served, namespace, name);
        let what = format!("delete {key}");
        let policy = match pods {
            Left::Orphaned => "Orphan",
            Left::Deleted => "Background",
        };
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy,
            "preconditions": {"uid": uid}});
        let request =
            request(Method::DELETE, &served.path_of(&key), "application/json", options.to_string().into_bytes());
        Ok(self.call(Purpose { what: &what, secret: false }, request).await?.value)
    }
}

fn key(served: &Served, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey {
        group: served.group.clone(),
        kind: served.kind.clone(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    }
}
