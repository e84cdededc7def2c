//! Canaries: manifests that ask for one, and the pods as they were at any time meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use belay::daemon::UnderWay;
use belay_core::rollout::canary::{CanaryAnswer, CanaryMark, request};
use belay_core::rollout::marks;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::daemon::{World, deployment, path_of};
use super::workloads::Kind;

/// The period between two samples.
const PERIOD: Duration = Duration::from_millis(250);

/// Returns the sample Deployment with these steps, and four pods.
pub fn with_steps(steps: &str, text: &str) -> String {
    let annotated = format!("name: web\n  annotations: {{belay.dev/canary: \"{steps}\"}}\nspec");
    let text = text.replacen("name: web\nspec", &annotated, 1).replace("replicas: 2", "replicas: 4");
    text.replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 30\n  minReadySeconds: 2")
}

/// Returns the sample Deployment with these steps, and this image.
pub fn web(steps: &str, image: &str) -> String {
    with_steps(steps, &deployment("web", image, ""))
}

/// Returns the sample workload of another kind with these steps, and this image, whose pods have a fate. A set has four pods.
pub fn of_kind(kind: Kind, steps: &str, image: &str, fate: &str) -> String {
    let text = kind.manifest(image, fate).replace("replicas: 2", "replicas: 4");
    text.replacen("annotations: {", &format!("annotations: {{belay.dev/canary: \"{steps}\", "), 1)
}

/// Returns the Deployment as it is.
pub async fn live(world: &World) -> Value {
    world.get(&path_of("web")).await.unwrap()
}

/// Asserts that the Deployment is as its manifest says, without anything of a canary.
pub async fn assert_as_the_manifest_says(world: &World) {
    let live = live(world).await;
    let spec = &live["spec"];
    assert_eq!(spec["strategy"]["rollingUpdate"], json!({"maxSurge": "25%", "maxUnavailable": "25%"}), "{spec:#}");
    assert_eq!((&spec["minReadySeconds"], &spec["progressDeadlineSeconds"]), (&json!(2), &json!(30)), "{spec:#}");
    assert_eq!(spec.get("paused"), None, "{spec:#}");
    assert_eq!(CanaryMark::on(&live), None);
    assert_eq!(marks::annotation(&live, marks::CANARY_REQUEST), None);
}

/// Asks for the next step, or for the way back, as `belay promote` and `belay abort` do.
pub async fn ask(world: &World, answer: CanaryAnswer) {
    ask_at(world, &path_of("web"), answer).await;
}

/// Asks for the same of the workload at a path.
pub async fn ask_at(world: &World, path: &str, answer: CanaryAnswer) {
    let live = world.get(path).await.unwrap();
    let asked = request(&live, answer, ("ada".to_owned(), Some("looks good".to_owned())), Timestamp::UNIX_EPOCH);
    let text = marks::written(&asked.unwrap());
    let patch = json!({"metadata": {"annotations": {marks::CANARY_REQUEST: text}}});
    world.patch(path, "belay-command", &patch).await;
}

/// Waits until a step is watched, by what is published.
pub async fn until_step(world: &mut World, commit: &str, words: &str) {
    let (commit, words) = (commit.to_owned(), words.to_owned());
    let is_there = move |way: &UnderWay| way.commit.as_str() == commit && way.message.contains(&words);
    world.until("the step", move |source| source.under_way.values().any(&is_there)).await;
}

/// The pods of the second version, and the available ones of the first, as they were at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    new: usize,
    new_ready: usize,
    old_ready: usize,
}

/// Samples the pods until it is dropped.
pub struct PodSampling {
    seen: Arc<Mutex<Vec<Seen>>>,
    _task: AbortOnDropHandle<()>,
}

impl PodSampling {
    /// Samples the pods of the default namespace.
    pub fn of(client: Client) -> PodSampling {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(sample(client, Arc::clone(&seen)));
        PodSampling { seen, _task: AbortOnDropHandle::new(task) }
    }

    /// Returns the most pods of the second version at any time.
    pub fn most_new(&self) -> usize {
        self.seen.lock().unwrap().iter().map(|seen| seen.new).max().unwrap()
    }

    /// Returns the fewest ready pods of the first and the second version at any time.
    pub fn fewest_ready(&self) -> usize {
        self.seen.lock().unwrap().iter().map(|seen| seen.old_ready + seen.new_ready).min().unwrap()
    }

    /// Returns the fewest ready pods of the first version at any time.
    pub fn fewest_old(&self) -> usize {
        self.seen.lock().unwrap().iter().map(|seen| seen.old_ready).min().unwrap()
    }
}

async fn sample(client: Client, seen: Arc<Mutex<Vec<Seen>>>) {
    loop {
        let request = http::Request::get("/api/v1/namespaces/default/pods").body(Vec::new()).unwrap();
        let pods: Value = client.request(request).await.unwrap();
        let pods = pods["items"].as_array().unwrap();
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
        };
        let stays = |pod: &&Value| pod["metadata"].get("deletionTimestamp").is_none();
        let of = |image: &str| {
            let image = image.to_owned();
            pods.iter().filter(stays).filter(move |pod| pod["spec"]["containers"][0]["image"] == image.as_str())
        };
        let [old_ready, new_ready] = ["web:1", "web:2"].map(|image| of(image).filter(is_ready).count());
        let now = Seen { new: of("web:2").count(), new_ready, old_ready };
        seen.lock().unwrap().push(now);
        tokio::time::sleep(PERIOD).await;
    }
}
