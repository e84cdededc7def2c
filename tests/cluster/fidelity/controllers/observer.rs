//! Sees everything that happens on an API server, namespace by namespace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::{DynamicObject, Request, WatchEvent};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// The watched kinds: the path, and the name here.
const WATCHED: &[(&str, &str)] = &[
    ("/apis/apps/v1/deployments", "Deployment"),
    ("/apis/apps/v1/replicasets", "ReplicaSet"),
    ("/apis/apps/v1/statefulsets", "StatefulSet"),
    ("/apis/apps/v1/daemonsets", "DaemonSet"),
    ("/apis/apps/v1/controllerrevisions", "ControllerRevision"),
    ("/apis/batch/v1/jobs", "Job"),
    ("/apis/batch/v1/cronjobs", "CronJob"),
    ("/apis/policy/v1/poddisruptionbudgets", "PodDisruptionBudget"),
    ("/apis/discovery.k8s.io/v1/endpointslices", "EndpointSlice"),
    ("/api/v1/endpoints", "Endpoints"),
    ("/api/v1/replicationcontrollers", "ReplicationController"),
    ("/api/v1/pods", "Pod"),
    ("/api/v1/configmaps", "ConfigMap"),
    ("/api/v1/serviceaccounts", "ServiceAccount"),
    ("/api/v1/persistentvolumeclaims", "PersistentVolumeClaim"),
    ("/api/v1/resourcequotas", "ResourceQuota"),
    ("/api/v1/events", "Event"),
];

/// The change of one object.
#[derive(Clone, Debug)]
pub struct Step {
    pub kind: &'static str,
    pub name: String,
    pub gone: bool,
    pub object: Arc<Value>,
}

/// Everything that was seen of one namespace.
#[derive(Clone, Debug)]
pub struct Seen {
    pub live: BTreeMap<(&'static str, String), Arc<Value>>,
    pub history: Vec<Step>,
    pub last_change: Instant,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen { live: BTreeMap::new(), history: Vec::new(), last_change: Instant::now() }
    }
}

impl Seen {
    /// Returns the objects of a kind, by name.
    pub fn all(&self, kind: &str) -> Vec<Arc<Value>> {
        self.live.iter().filter(|((of, _), _)| *of == kind).map(|(_, object)| object.clone()).collect()
    }

    pub fn get(&self, kind: &'static str, name: &str) -> Option<Arc<Value>> {
        self.live.get(&(kind, name.to_owned())).cloned()
    }

    /// The names of all objects of a kind that there ever were, in the order in which they came.
    pub fn names_ever(&self, kind: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for step in self.history.iter().filter(|step| step.kind == kind) {
            if !names.contains(&step.name) {
                names.push(step.name.clone());
            }
        }
        names
    }
}

/// Sees everything. Cheap to clone.
#[derive(Clone)]
pub struct Observer {
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
    changed: watch::Sender<u64>,
    pod_listeners: Arc<Mutex<Vec<mpsc::UnboundedSender<Arc<Value>>>>>,
}

impl Observer {
    /// Watches until the runtime ends.
    pub async fn start(client: Client) -> Observer {
        let observer = Observer { seen: Arc::default(), changed: watch::Sender::new(0), pod_listeners: Arc::default() };
        for (path, kind) in WATCHED {
            let list: Value = client.request(Request::new(*path).list(&ListParams::default()).unwrap()).await.unwrap();
            let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            tokio::spawn(observer.clone().follow(client.clone(), path, kind, version));
        }
        observer
    }

    /// Looks at a namespace without copying it.
    pub fn look<T>(&self, namespace: &str, look: impl FnOnce(&Seen) -> T) -> T {
        look(self.lock().entry(namespace.to_owned()).or_default())
    }

    /// Waits until `wanted` says so of a namespace; `false` if it does not within `limit`.
    pub async fn wait(&self, namespace: &str, limit: Duration, wanted: impl Fn(&Seen) -> bool) -> bool {
        let mut changes = self.changed.subscribe();
        let end = Instant::now() + limit;
        loop {
            changes.borrow_and_update();
            if self.look(namespace, &wanted) {
                return true;
            }
            if tokio::time::timeout_at(end, changes.changed()).await.is_err() {
                return self.look(namespace, &wanted);
            }
        }
    }

    /// Waits until nothing of a kind has happened anywhere for `rest`; at most `limit`.
    pub async fn rest(&self, kind: &str, rest: Duration, limit: Duration) {
        let end = Instant::now() + limit;
        let count = || {
            let all = self.lock();
            let of_kind = |seen: &Seen| seen.history.iter().filter(|step| step.kind == kind).count();
            all.values().map(of_kind).sum::<usize>()
        };
        loop {
            let before = count();
            tokio::time::sleep(rest).await;
            if count() == before || Instant::now() > end {
                return;
            }
        }
    }

    /// Returns every state of every pod from now on.
    pub fn pod_events(&self) -> mpsc::UnboundedReceiver<Arc<Value>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.pod_listeners.lock().unwrap().push(sender);
        receiver
    }

    async fn follow(self, client: Client, path: &'static str, kind: &'static str, mut version: String) {
        loop {
            let request = Request::new(path).watch(&WatchParams::default(), &version).unwrap();
            let Ok(events) = client.request_events::<DynamicObject>(request).await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let mut events = std::pin::pin!(events);
            while let Ok(Some(event)) = events.try_next().await {
                let (object, gone) = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                    WatchEvent::Deleted(object) => (object, true),
                    WatchEvent::Bookmark(bookmark) => {
                        version = bookmark.metadata.resource_version;
                        continue;
                    }
                    WatchEvent::Error(status) => panic!("the observer missed something on {path}: {status}"),
                };
                version = object.metadata.resource_version.clone().unwrap_or_default();
                self.take(kind, object, gone);
            }
        }
    }

    fn take(&self, kind: &'static str, mut object: DynamicObject, gone: bool) {
        object.metadata.managed_fields = None;
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let name = object.metadata.name.clone().unwrap_or_default();
        let object = Arc::new(serde_json::to_value(&object).unwrap());
        let mut all = self.lock();
        let seen = all.entry(namespace).or_default();
        if gone {
            seen.live.remove(&(kind, name.clone()));
        } else {
            seen.live.insert((kind, name.clone()), object.clone());
        }
        if kind == "Pod" && !gone {
            for listener in self.pod_listeners.lock().unwrap().iter() {
                drop(listener.send(object.clone()));
            }
        }
        seen.history.push(Step { kind, name, gone, object });
        seen.last_change = Instant::now();
        drop(all);
        self.changed.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        self.seen.lock().unwrap()
    }
}
