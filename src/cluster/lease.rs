//! Leases, and writing only while one is held.

use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use http::Method;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::call::{Purpose, get, request};
use super::kinds::escape;
use super::watch::Doubling;
use super::watch::impatient;
use super::{Cluster, ClusterError};
use belay_core::rollout::{Lease, marks};

const API_VERSION: &str = "coordination.k8s.io/v1";

/// Until when a daemon may write; `None` while it may not at all.
pub type Entitled = watch::Receiver<Option<Instant>>;

impl Cluster {
    /// The same cluster, to which nothing is written but Leases, and dry runs, unless `entitled` says that it may. A write
    /// that may not be made fails as if the cluster were away.
    #[must_use]
    pub fn writing_while(self, entitled: Entitled) -> Cluster {
        Cluster { entitled: Some(Arc::new(entitled)), ..self }
    }

    /// A Lease; `None` where there is none.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn lease(&self, namespace: &str, name: &str) -> Result<Option<Lease>, ClusterError> {
        let what = format!("read Lease {namespace}/{name}");
        match self.call(purpose(&what), get(&path(namespace, name))).await {
            Ok(answer) => Ok(Some(Lease::of(&answer.value))),
            Err(ClusterError::Refused(refusal)) if refusal.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a Lease as it was seen, or makes it. `None` where somebody else was faster.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them.
    pub async fn write_lease(
        &self,
        namespace: &str,
        name: &str,
        seen: Option<&Lease>,
        spec: &Value,
    ) -> Result<Option<Lease>, ClusterError> {
        let what = format!("write Lease {namespace}/{name}");
        let manager = marks::FIELD_MANAGER;
        let request = match seen {
            Some(seen) => {
                let patch = json!({"metadata": {"uid": seen.uid, "resourceVersion": seen.version}, "spec": spec});
                let path = format!("{}?fieldManager={manager}", path(namespace, name));
                request(Method::PATCH, &path, "application/merge-patch+json", patch.to_string().into_bytes())
            }
            None => {
                let body = json!({"apiVersion": API_VERSION, "kind": "Lease", "spec": spec,
                    "metadata": {"name": name, "namespace": namespace}});
                let path = format!("{}?fieldManager={manager}", path(namespace, ""));
                request(Method::POST, &path, "application/json", body.to_string().into_bytes())
            }
        };
        match self.call(purpose(&what), request).await {
            Ok(answer) => Ok(Some(Lease::of(&answer.value))),
            Err(ClusterError::Refused(refusal)) if refusal.code == 404 || refusal.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells of a Lease whenever it changes: one watch, that begins again by itself. What is in its way is told as an error.
    pub fn watch_lease(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Stream<Item = Result<Option<Lease>, String>> + Send + use<> {
        let resource = ApiResource {
            group: "coordination.k8s.io".to_owned(),
            version: "v1".to_owned(),
            api_version: API_VERSION.to_owned(),
            kind: "Lease".to_owned(),
            plural: "leases".to_owned(),
        };
        let client = impatient(self.client.clone(), self.request_timeout);
        let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
        watcher::watch_object(api, name).backoff(Doubling::default()).map(|seen| {
            let lease = |object: DynamicObject| Lease::of(&serde_json::to_value(object).unwrap_or_default());
            seen.map(|object| object.map(lease)).map_err(|error| error.to_string())
        })
    }

    /// Until when this request may take, where it is a write that somebody must be entitled to.
    pub(super) fn entitled_until(&self, method: &Method, path: &str) -> Result<Option<Instant>, String> {
        let Some(entitled) = &self.entitled else { return Ok(None) };
        if *method == Method::GET || path.contains("dryRun=All") || path.contains("/leases") {
            return Ok(None);
        }
        match *entitled.borrow() {
            Some(until) if Instant::now() < until => Ok(Some(until)),
            _ => Err("this daemon does not hold the Lease of its source now, and does not write".to_owned()),
        }
    }
}

fn purpose(what: &str) -> Purpose<'_> {
    Purpose { what, secret: false }
}

fn path(namespace: &str, name: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!("/{}", escape(name)) };
    format!("/apis/{API_VERSION}/namespaces/{}/leases{name}", escape(namespace))
}
