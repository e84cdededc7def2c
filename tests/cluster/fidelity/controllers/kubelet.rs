//! A kubelet that does what the script says: it binds pods, and lets them become what their images are fated to become.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::observer::Observer;

/// The fate of pods with an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Running and ready at once.
    Ready,
    /// Running, and ready only when the script says so.
    OnCommand,
    /// Bound to a node, and pending for ever.
    Pending,
    /// Not even bound to a node.
    Unbound,
    /// Ends with this exit code.
    Exits(i32),
}

/// The kubelet. Cheap to clone.
#[derive(Clone)]
pub struct Kubelet {
    client: Client,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// By namespace and image.
    fates: BTreeMap<(String, String), Fate>,
    /// Namespaces in which pods that are to go stay until the script lets them.
    holding: BTreeSet<String>,
    /// The last action on a pod, by uid.
    done: BTreeMap<String, Done>,
    next_node: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Done {
    Bound,
    Started,
    Deleted,
}

impl Kubelet {
    pub fn start(client: Client, observer: &Observer) -> Kubelet {
        let kubelet = Kubelet { client, state: Arc::default() };
        let (this, mut pods) = (kubelet.clone(), observer.pod_events());
        tokio::spawn(async move {
            while let Some(pod) = pods.recv().await {
                this.look_at(&pod);
            }
        });
        kubelet
    }

    /// Makes the nodes that pods are bound to, so that nobody takes the pods for lost.
    pub async fn make_nodes(&self) {
        let names = (0..10).map(|number| format!("node-{number}")).chain(["left".to_owned(), "right".to_owned()]);
        for name in names {
            self.make_node(&name, json!({})).await.unwrap();
        }
    }

    /// Makes one node with these labels, ready for pods.
    pub async fn make_node(&self, name: &str, labels: Value) -> kube::Result<()> {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels } });
        let send = |request: http::request::Builder, body: &Value| {
            let request = request.body(serde_json::to_vec(body).unwrap()).unwrap();
            let client = self.client.clone();
            async move { client.request::<Value>(request).await }
        };
        send(http::Request::post("/api/v1/nodes").header("Content-Type", "application/json"), &node).await?;
        // A new node is tainted until it is ready.
        let patch = http::Request::patch(format!("/api/v1/nodes/{name}"));
        let patch = patch.header("Content-Type", "application/merge-patch+json");
        send(patch, &json!({ "spec": { "taints": null } })).await?;
        let ready = json!({ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "" });
        let status = http::Request::patch(format!("/api/v1/nodes/{name}/status"));
        let status = status.header("Content-Type", "application/strategic-merge-patch+json");
        send(status, &json!({ "status": { "conditions": [ready] } })).await.map(drop)
    }

    /// Decides what becomes of pods with an image, from now on.
    pub fn set_fate(&self, namespace: &str, image: &str, fate: Fate) {
        self.state.lock().unwrap().fates.insert((namespace.to_owned(), image.to_owned()), fate);
    }

    /// Pods that are to go stay until [`Kubelet::release`].
    pub fn hold(&self, namespace: &str) {
        self.state.lock().unwrap().holding.insert(namespace.to_owned());
    }

    /// Pods that are to go may go.
    pub fn release(&self, namespace: &str, observer: &Observer) {
        self.state.lock().unwrap().holding.remove(namespace);
        for pod in observer.look(namespace, |seen| seen.all("Pod")) {
            self.look_at(&pod);
        }
    }

    /// Makes one pod ready or not ready.
    pub async fn set_ready(&self, pod: &Value, ready: bool) {
        self.write_status(pod, "Running", ready, None).await;
    }

    /// Gives one pod a phase.
    pub async fn set_phase(&self, pod: &Value, phase: &str) {
        self.write_status(pod, phase, false, None).await;
    }

    /// Ends one pod's containers.
    pub async fn exit(&self, pod: &Value, code: i32) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        self.write_status(pod, phase, false, Some(code)).await;
    }

    fn look_at(&self, pod: &Arc<Value>) {
        let uid = text(&pod["metadata"]["uid"]);
        let namespace = text(&pod["metadata"]["namespace"]);
        let mut state = self.state.lock().unwrap();
        let done = state.done.get(&uid).copied();
        let image = text(&pod["spec"]["containers"][0]["image"]);
        let fate = state.fates.get(&(namespace.clone(), image)).cloned().unwrap_or(Fate::Ready);
        let bound = pod["spec"]["nodeName"].is_string();
        let next = if pod["metadata"]["deletionTimestamp"].is_string() {
            if state.holding.contains(&namespace) || done == Some(Done::Deleted) {
                return;
            }
            Done::Deleted
        } else if !bound && done.is_none() && fate != Fate::Unbound {
            Done::Bound
        } else if bound && done < Some(Done::Started) && matches!(pod["status"]["phase"].as_str(), Some("Pending")) {
            Done::Started
        } else {
            return;
        };
        state.done.insert(uid, next);
        let node = state.next_node % 10;
        state.next_node += usize::from(next == Done::Bound);
        drop(state);
        let (this, pod) = (self.clone(), pod.clone());
        tokio::spawn(async move {
            match next {
                Done::Bound => this.bind(&pod, node).await,
                Done::Started => this.run(&pod, fate).await,
                Done::Deleted => {
                    let at_once = DeleteParams::default().grace_period(0);
                    drop(this.pods(&pod).delete(&text(&pod["metadata"]["name"]), &at_once).await);
                }
            }
        });
    }

    /// Binds one pod to a node.
    pub async fn bind_to(&self, pod: &Value, node: &str) -> kube::Result<()> {
        let name = text(&pod["metadata"]["name"]);
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        let path = format!("/api/v1/namespaces/{}/pods/{name}/binding", text(&pod["metadata"]["namespace"]));
        let request = http::Request::post(path).header("Content-Type", "application/json");
        let request = request.body(serde_json::to_vec(&binding).unwrap()).unwrap();
        self.client.request::<Value>(request).await.map(drop)
    }

    async fn bind(&self, pod: &Value, node: usize) {
        let affinity = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let pinned = &affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0];
        let node = pinned.as_str().map_or_else(|| format!("node-{node}"), str::to_owned);
        // The pod may be gone by now.
        drop(self.bind_to(pod, &node).await);
    }

    async fn run(&self, pod: &Value, fate: Fate) {
        match fate {
            Fate::Ready => self.write_status(pod, "Running", true, None).await,
            Fate::OnCommand => self.write_status(pod, "Running", false, None).await,
            Fate::Pending | Fate::Unbound => {}
            Fate::Exits(code) => self.exit(pod, code).await,
        }
    }

    async fn write_status(&self, pod: &Value, phase: &str, ready: bool, exit: Option<i32>) {
        let now = jiff_now();
        let condition = |kind: &str, value: bool| {
            let present = pod["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind);
            let status = if value { "True" } else { "False" };
            let since = present.filter(|one| one["status"] == status).map(|one| one["lastTransitionTime"].clone());
            json!({ "type": kind, "status": status, "lastTransitionTime": since.unwrap_or_else(|| json!(now)) })
        };
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let statuses: Vec<Value> = containers
            .map(|container| {
                let state = match exit {
                    Some(code) => json!({ "terminated": { "exitCode": code, "finishedAt": now, "startedAt": now } }),
                    None => json!({ "running": { "startedAt": now } }),
                };
                json!({
                    "name": container["name"], "image": container["image"], "imageID": "image", "ready": ready,
                    "started": exit.is_none(), "restartCount": 0, "state": state,
                })
            })
            .collect();
        let mut status = json!({
            "phase": phase,
            "conditions": [
                condition("PodScheduled", true), condition("Initialized", true), condition("ContainersReady", ready),
                condition("Ready", ready),
            ],
            "containerStatuses": statuses,
        });
        if pod["status"]["startTime"].is_null() {
            status["startTime"] = json!(now);
            status["podIP"] = json!("10.1.0.1");
            status["hostIP"] = json!("10.2.0.1");
        }
        let patch = Patch::Strategic(json!({ "metadata": { "uid": pod["metadata"]["uid"] }, "status": status }));
        let params = PatchParams { field_manager: Some("kubelet".to_owned()), ..PatchParams::default() };
        // The pod may be gone by now.
        drop(self.pods(pod).patch_status(&text(&pod["metadata"]["name"]), &params, &patch).await);
    }

    fn pods(&self, pod: &Value) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &text(&pod["metadata"]["namespace"]))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the present moment as the API writes it.
pub fn jiff_now() -> String {
    belay::clock::Clock::system().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
