//! A cluster with ReplicationControllers on it.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belay::clock::Clock;
use belay::cluster::{Cluster, Pace, RollError};
use belay_core::rollout::rolling_update::{Ask, RollingUpdate};
use minicluster::{MiniCluster, Part};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::daemon::EPOCH;
use crate::support::tap::Tap;

/// A cluster.
pub struct Stage {
    pub client: kube::Client,
    pub clock: Clock,
    pub pace: Pace,
    _embedded: Option<MiniCluster>,
}

/// The observations of one application's pods during an action.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub most: usize,
    pub fewest_ready: Option<usize>,
}

/// A rolling update that has ended.
pub struct Rolled {
    pub ended: Result<String, RollError>,
    pub said: Vec<String>,
    pub seen: Seen,
}

impl Stage {
    pub async fn embedded() -> Stage {
        let clock = Clock::tokio(EPOCH.parse().unwrap());
        let cluster = MiniCluster::builder().clock(clock.clone()).without(Part::Roles).start().await.unwrap();
        Stage { client: cluster.client_as("belay"), clock, pace: Pace::default(), _embedded: Some(cluster) }
    }

    pub fn real(client: kube::Client) -> Stage {
        let pace = Pace {
            update_period: Duration::from_millis(50),
            poll_interval: Duration::from_millis(200),
            timeout: Duration::from_secs(20),
        };
        Stage { client, clock: Clock::system(), pace, _embedded: None }
    }

    /// Makes a controller, and waits until its pods are ready.
    pub async fn make(&self, manifest: &Value) {
        let _: Value = self.send("POST", "replicationcontrollers", Some(manifest)).await.unwrap();
        let (name, size) = (manifest["metadata"]["name"].as_str().unwrap(), &manifest["spec"]["replicas"]);
        self.until(&format!("{name} is ready"), async || {
            let ready = |live: Value| live["status"]["readyReplicas"].as_i64().unwrap_or_default();
            self.controller(name).await.is_some_and(|live| Some(ready(live)) == size.as_i64())
        })
        .await;
    }

    pub async fn roll(&self, ask: &Ask) -> Rolled {
        self.roll_at(ask, self.pace, self.client.clone()).await
    }

    /// Rolls through a tap.
    pub async fn roll_at(&self, ask: &Ask, pace: Pace, client: kube::Client) -> Rolled {
        let app = ask.old.clone();
        let update = match RollingUpdate::new(ask.clone()) {
            Ok(update) => update,
            Err(refused) => return Rolled { ended: Err(refused.into()), said: Vec::new(), seen: Seen::default() },
        };
        let said = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let cluster = Cluster::new(client, self.clock.clone());
        let say = |line: &str, _| said.lock().unwrap().push(line.to_owned());
        // An update with nothing left to do is over before the watcher beside it has had an answer.
        self.look_at_pods(&app, &seen).await;
        let ended = tokio::select! {
            biased;
            ended = cluster.roll("default", update, pace, say) => ended,
            () = self.watch_pods(&app, &seen) => unreachable!(),
        };
        let (said, seen) = (said.lock().unwrap().clone(), seen.lock().unwrap().clone());
        Rolled { ended, said, seen }
    }

    /// Rolls, and dies at that write: before the server sees it, or after.
    pub async fn roll_and_die(&self, ask: &Ask, write: usize, fate: crate::support::tap::Fate) -> Option<Rolled> {
        use crate::support::tap::Fate;

        let (tap, client) = Tap::on(self.client.clone());
        let mut writes = 0;
        tap.rule(move |went, _| {
            if !went.is_write() {
                return Fate::Pass;
            }
            writes += 1;
            if writes - 1 == write { fate } else { Fate::Pass }
        });
        tokio::select! {
            biased;
            () = tap.died() => None,
            rolled = self.roll_at(ask, self.pace, client) => Some(rolled),
        }
    }

    /// Takes an application away, so that the next one does not pay for its pods.
    pub async fn clear(&self, app: &str) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        self.send("DELETE", &format!("replicationcontrollers/{app}"), Some(&options)).await;
        self.until(&format!("{app} is gone"), async || self.pods(app).await.is_empty()).await;
    }

    /// Deletes one controller with its pods.
    pub async fn clear_controller(&self, name: &str) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        self.send("DELETE", &format!("replicationcontrollers/{name}"), Some(&options)).await;
        self.until(&format!("{name} is gone"), async || self.controller(name).await.is_none()).await;
    }

    pub async fn controller(&self, name: &str) -> Option<Value> {
        self.send("GET", &format!("replicationcontrollers/{name}"), None).await
    }

    /// Returns the pods with label `app` that are not on their way out.
    pub async fn pods(&self, app: &str) -> Vec<Value> {
        let list = self.send("GET", &format!("pods?labelSelector=app%3D{app}"), None).await.unwrap();
        let mut pods: Vec<Value> = list["items"].as_array().unwrap().clone();
        pods.retain(|pod| pod["metadata"].get("deletionTimestamp").is_none());
        pods
    }

    /// Returns a request about namespace `default`; `None` for what is not there.
    pub async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
        let uri = format!("/api/v1/namespaces/default/{path}");
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(&uri).header("Content-Type", media);
        let request = request.body(body.map(|body| body.to_string().into_bytes()).unwrap_or_default()).unwrap();
        match self.client.request::<Value>(request).await {
            Ok(value) => Some(value),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{method} {uri}: {error}"),
        }
    }

    pub async fn until<F: Future<Output = bool>>(&self, what: &str, condition: impl Fn() -> F) {
        let started = Instant::now();
        while !condition().await {
            assert!(started.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Asserts that one controller of that name is left of an application, with that image and ready pods of its own.
    pub async fn assert_ended(&self, app: &str, name: &str, image: &str, size: usize) {
        let all = self.send("GET", "replicationcontrollers", None).await.unwrap();
        let named = |one: &&Value| one["metadata"]["name"].as_str().unwrap().starts_with(app);
        let left: Vec<&Value> = all["items"].as_array().unwrap().iter().filter(named).collect();
        let names: Vec<&Value> = left.iter().map(|one| &one["metadata"]["name"]).collect();
        assert_eq!(names, [name], "{left:#?}");
        let live = left[0];
        assert_eq!(live["spec"]["replicas"], size);
        let annotations = live["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        let marks: Vec<&String> = annotations.keys().filter(|name| name.starts_with("kubectl.")).collect();
        assert!(marks.is_empty(), "{marks:?}");
        self.until(&format!("{name} has {size} ready pods"), async || {
            let pods = self.pods(app).await;
            pods.len() == size && pods.iter().all(is_ready)
        })
        .await;
        for pod in self.pods(app).await {
            assert_eq!(pod["spec"]["containers"][0]["image"], image);
            assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], live["metadata"]["uid"], "{pod:#}");
            for (key, value) in live["spec"]["selector"].as_object().unwrap() {
                assert_eq!(&pod["metadata"]["labels"][key], value);
            }
        }
    }

    async fn watch_pods(&self, app: &str, seen: &Mutex<Seen>) {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.look_at_pods(app, seen).await;
        }
    }

    async fn look_at_pods(&self, app: &str, seen: &Mutex<Seen>) {
        let pods = self.pods(app).await;
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let mut seen = seen.lock().unwrap();
        seen.most = seen.most.max(pods.len());
        seen.fewest_ready = Some(seen.fewest_ready.map_or(ready, |fewest| fewest.min(ready)));
    }
}

pub fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Returns a controller whose pods have the label `app: <name>`.
pub fn controller(name: &str, image: &str, size: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": name},
        "spec": {"replicas": size, "selector": {"app": name}, "template": {"metadata": {"labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "app", "image": image}]}}}})
}
