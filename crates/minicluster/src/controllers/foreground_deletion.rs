//! Pods that go together with their owner, reported by their watch before the owner's own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::test_request::request;
use super::{Controller, Options, Which};
use crate::{Clock, Fault, MiniCluster, Part, Random};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// An owner of pods.
struct PodOwner {
    controller: Controller,
    group: &'static str,
    plural: &'static str,
    spec: Value,
}

impl PodOwner {
    fn all() -> [PodOwner; 4] {
        let template = json!({
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "app", "image": "app:1" }] },
        });
        let selected = json!({ "selector": { "matchLabels": { "app": "web" } }, "template": template });
        let mut job = json!({ "template": template });
        job["template"]["spec"]["restartPolicy"] = json!("Never");
        let owner = |controller, group, plural, spec| PodOwner { controller, group, plural, spec };
        [
            owner(Controller::ReplicaSet, "apps", "replicasets", selected.clone()),
            owner(Controller::StatefulSet, "apps", "statefulsets", selected.clone()),
            owner(Controller::DaemonSet, "apps", "daemonsets", selected),
            owner(Controller::Job, "batch", "jobs", job),
        ]
    }

    /// Returns the path of the kind in all namespaces, which its watch has.
    fn watched(&self) -> String {
        format!("/apis/{}/v1/{}", self.group, self.plural)
    }

    fn path(&self) -> String {
        format!("/apis/{}/v1/namespaces/default/{}", self.group, self.plural)
    }

    fn options(&self, clock: &Clock) -> Options {
        let mut options = Options::new(clock.clone(), Random::new(1));
        options.which = Which::only(&[self.controller]);
        options
    }
}

/// The names of the pods that are not asked to go.
async fn pods(cluster: &MiniCluster) -> Vec<String> {
    let pods = request(cluster, "GET", PODS, Value::Null).await;
    let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
    let pods = pods["items"].as_array().unwrap().iter().filter(stays);
    pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns how many pods there are a minute after the owner's one pod went, while the watch of owners sends nothing.
async fn pods_after(owner: &PodOwner, deletes_owner: bool) -> usize {
    let clock = Clock::tokio(Timestamp::UNIX_EPOCH);
    let builder = MiniCluster::builder().clock(clock.clone()).without(Part::ServiceAccounts);
    let cluster = builder.without(Part::Controllers).without(Part::Kubelet).start().await.unwrap();
    request(&cluster, "POST", "/api/v1/nodes", json!({ "metadata": { "name": "one" } })).await;
    // A new node is tainted until it is ready.
    request(&cluster, "PATCH", "/api/v1/nodes/one", json!({ "spec": { "taints": null } })).await;
    request(&cluster, "POST", &owner.path(), json!({ "metadata": { "name": "web" }, "spec": owner.spec })).await;
    let running = super::start(cluster.client(), &owner.options(&clock));
    tokio::time::sleep(Duration::from_secs(60)).await;
    running.stop().await;
    let before = pods(&cluster).await;
    assert_eq!(before.len(), 1, "{}", owner.plural);

    let (watched, asked) = (owner.watched(), AtomicUsize::new(0));
    let client = cluster.client_with_faults(move |_, path| {
        // The first request lists, the others watch.
        let is_watch = path == watched && asked.fetch_add(1, Ordering::Relaxed) > 0;
        is_watch.then_some(Fault::Delay(Duration::from_secs(3600)))
    });
    let running = super::start(client, &owner.options(&clock));
    tokio::time::sleep(Duration::from_secs(60)).await;
    if deletes_owner {
        let foreground = json!({ "propagationPolicy": "Foreground" });
        request(&cluster, "DELETE", &format!("{}/web", owner.path()), foreground).await;
    }
    request(&cluster, "DELETE", &format!("{PODS}/{}", before[0]), json!({ "gracePeriodSeconds": 0 })).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = pods(&cluster).await.len();
    running.stop().await;
    after
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_with_its_owner_is_not_replaced() {
    for owner in PodOwner::all() {
        assert_eq!(pods_after(&owner, true).await, 0, "{}", owner.plural);
        assert_eq!(pods_after(&owner, false).await, 1, "{}: one that goes alone is replaced", owner.plural);
    }
}
