//! Kubernetes Events about belay's writes to a workload, visible in `kubectl describe`.

use http::Method;
use serde_json::{Value, json};

use super::call::{Purpose, request};
use super::served::escape;
use super::{Cluster, ClusterError};
use belay_core::manifest::{ObjectKey, shortened};
use belay_core::rollout::marks;

/// The most characters of an event's message.
const MESSAGE_LIMIT: usize = 1000;

/// The severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// As it should be.
    Normal,
    /// A person should act.
    Warning,
}

/// An Event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The severity.
    pub kind: EventKind,
    /// One word, `RolledBack`.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

impl Cluster {
    /// Tells an event about a live object.
    ///
    /// # Errors
    /// As [`ClusterError`] sorts them; callers that only inform log it and go on.
    pub async fn tell(&self, key: &ObjectKey, live: &Value, event: &Event) -> Result<(), ClusterError> {
        let now = self.clock.now();
        let namespace = key.namespace.as_deref().unwrap_or("default");
        let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let message = shortened(&event.message, MESSAGE_LIMIT);
        let body = json!({
            "apiVersion": "v1", "kind": "Event",
            // Its controller may report it at this very moment, under a name of the same form.
            "metadata": {"name": format!("{}.belay-{:x}", key.name, now.as_nanosecond()), "namespace": namespace},
            "involvedObject": {
                "apiVersion": live["apiVersion"], "kind": key.kind, "namespace": key.namespace, "name": key.name,
                "uid": marks::uid(live), "resourceVersion": live["metadata"]["resourceVersion"],
            },
            "type": match event.kind { EventKind::Normal => "Normal", EventKind::Warning => "Warning" },
            "reason": event.reason, "message": message, "source": {"component": "belay"},
            "firstTimestamp": at, "lastTimestamp": at, "count": 1,
        });
        let what = format!("tell an event about {key}");
        let path = format!("/api/v1/namespaces/{}/events", escape(namespace));
        let request = request(Method::POST, &path, "application/json", body.to_string().into_bytes());
        self.call(Purpose { what: &what, secret: false }, request).await.map(|_| ())
    }
}
