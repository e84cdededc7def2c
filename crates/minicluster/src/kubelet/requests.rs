//! The requests that the kubelet and the scheduler make.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::pod_name::PodName;

/// A request that takes longer has failed.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The reason for which a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused it, or could not be reached.
    #[error(transparent)]
    Refused(#[from] kube::Error),
    /// No answer came.
    #[error("failed to get an answer within {} s", TIME_LIMIT.as_secs())]
    TimedOut,
}

impl Error {
    /// Returns the HTTP status, if there was an answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Refused(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }
}

/// The field manager of a write.
pub const KUBELET: &str = "kubelet";
/// The scheduler's field manager.
pub const SCHEDULER: &str = "kube-scheduler";

/// A client that makes these requests.
#[derive(Clone)]
pub struct Requests(Client);

impl Requests {
    /// Makes its requests through `client`.
    pub fn new(client: Client) -> Requests {
        Requests(client)
    }

    /// Patches a pod's status, if the pod is still the one with `uid`.
    pub async fn patch_pod_status(&self, pod: &PodName, status: Value, manager: &str) -> Result<(), Error> {
        let body = json!({"metadata": {"uid": &*pod.uid}, "status": status});
        let request =
            pods(&pod.namespace).patch_subresource("status", &pod.name, &patch(manager), &Patch::Strategic(body));
        self.send(request).await
    }

    /// Deletes a pod, if it is still the one with `uid`, with its own grace or another in seconds.
    pub async fn delete_pod(&self, pod: &PodName, grace: Option<u32>) -> Result<(), Error> {
        let options = DeleteParams {
            grace_period_seconds: grace,
            preconditions: Some(Preconditions { uid: Some(pod.uid.to_string()), resource_version: None }),
            ..DeleteParams::default()
        };
        self.send(pods(&pod.namespace).delete(&pod.name, &options)).await
    }

    /// Binds a pod to a node.
    pub async fn bind(&self, pod: &PodName, node: &str) -> Result<(), Error> {
        let body = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": &*pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        self.send(pods(&pod.namespace).create_subresource("binding", &pod.name, &post(SCHEDULER), encode(&body)?)).await
    }

    /// Creates an event.
    pub async fn create_event(&self, event: &Event, manager: &str) -> Result<(), Error> {
        let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
        let events = Request::new(format!("/api/v1/namespaces/{namespace}/events"));
        self.send(events.create(&post(manager), encode(event)?)).await
    }

    /// Patches an event.
    pub async fn patch_event(&self, namespace: &str, name: &str, body: Value, manager: &str) -> Result<(), Error> {
        let events = Request::new(format!("/api/v1/namespaces/{namespace}/events"));
        self.send(events.patch(name, &patch(manager), &Patch::Strategic(body))).await
    }

    /// Returns the keys of a ConfigMap's or Secret's data; `None` if there is no such object. Values are not kept.
    pub async fn keys(&self, resource: &str, namespace: &str, name: &str) -> Result<Option<BTreeSet<String>>, Error> {
        let all = Request::new(format!("/api/v1/namespaces/{namespace}/{resource}"));
        match self.receive::<Keys>(all.get(name, &GetParams::default())).await {
            Ok(Keys { data, binary_data }) => Ok(Some(data.into_keys().chain(binary_data.into_keys()).collect())),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates a node and returns the stored one.
    pub async fn create_node(&self, node: &Node) -> Result<Node, Error> {
        self.receive(Request::new("/api/v1/nodes").create(&post(KUBELET), encode(node)?)).await
    }

    /// Patches a node and returns the stored one.
    pub async fn patch_node(&self, name: &str, body: &Value) -> Result<Node, Error> {
        self.receive(Request::new("/api/v1/nodes").patch(name, &patch(KUBELET), &Patch::Strategic(body))).await
    }

    /// Patches a node's status.
    pub async fn patch_node_status(&self, name: &str, status: &Value) -> Result<(), Error> {
        let body = json!({"status": status});
        let nodes = Request::new("/api/v1/nodes");
        self.send(nodes.patch_subresource("status", name, &patch(KUBELET), &Patch::Strategic(body))).await
    }

    /// Creates a node's lease.
    pub async fn create_lease(&self, lease: &Lease) -> Result<(), Error> {
        self.send(leases().create(&post(KUBELET), encode(lease)?)).await
    }

    /// Patches a node's lease.
    pub async fn patch_lease(&self, name: &str, body: &Value) -> Result<(), Error> {
        self.send(leases().patch(name, &patch(KUBELET), &Patch::Merge(body))).await
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, name: &str) -> Result<(), Error> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.send(Request::new("/api/v1/namespaces").create(&post(KUBELET), encode(&body)?)).await
    }

    async fn send(&self, request: Built) -> Result<(), Error> {
        self.text(request).await.map(drop)
    }

    async fn receive<T: serde::de::DeserializeOwned>(&self, request: Built) -> Result<T, Error> {
        let text = self.text(request).await?;
        serde_json::from_str(&text).map_err(|error| Error::Refused(kube::Error::SerdeError(error)))
    }

    async fn text(&self, request: Built) -> Result<String, Error> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        match tokio::time::timeout(TIME_LIMIT, self.0.request_text(request)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Error::TimedOut),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Keys {
    #[serde(default)]
    data: BTreeMap<String, IgnoredAny>,
    #[serde(default)]
    binary_data: BTreeMap<String, IgnoredAny>,
}

type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

fn pods(namespace: &str) -> Request {
    Request::new(format!("/api/v1/namespaces/{namespace}/pods"))
}

fn leases() -> Request {
    Request::new("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")
}

fn patch(manager: &str) -> PatchParams {
    PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() }
}

fn post(manager: &str) -> PostParams {
    PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() }
}

fn encode(body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(|error| Error::Refused(kube::Error::SerdeError(error)))
}
