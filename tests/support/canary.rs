//! Canaries: manifests that ask for one, and the pods as they were at any time meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use belay::clock::Clock;
use belay::daemon::UnderWay;
use belay_core::rollout::canary::{CanaryAnswer, CanaryMark, request};
use belay_core::rollout::{Outcome, ReasonCode, StepKind, marks};
use jiff::Timestamp;
use kube::Client;
use minicluster::{MiniCluster, Part};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::daemon::{EPOCH, World, deployment, path_of};
use super::tap::Tap;
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

/// Returns a cluster of four nodes, and the tap before it.
pub async fn on_four_nodes() -> (World, Tap) {
    let clock = Clock::tokio(EPOCH.parse().unwrap());
    let cluster = MiniCluster::builder().clock(clock.clone()).without(Part::Roles).nodes(4).start().await.unwrap();
    let client = cluster.client_as("belay");
    let mut world = World::on(client.clone(), clock, Some(cluster));
    let (tap, client) = Tap::on(client);
    world.give_belay(client);
    (world, tap)
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

/// Returns what the history says of a canary's steps.
pub fn canary_steps(world: &World, commit: &str, object: &str) -> Vec<String> {
    let steps = world.history().steps(world.record(commit, object).id).unwrap();
    steps.into_iter().filter(|step| step.kind == StepKind::Canary).map(|step| step.detail).collect()
}

/// Waits twenty minutes in the step of the second version, which has no time, and promotes it.
pub async fn promote_in_the_end(world: &mut World, sampling: &PodSampling, kind: Kind, manifest: &str) {
    let second = world.push("web.yaml", manifest, "Second version");
    until_step(world, &second, "1 of 1 new pods are ready; waits for belay promote or belay abort").await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 3));
    ask_at(world, &kind.path(), CanaryAnswer::Promote).await;
    world.through(&second).await;
    assert_eq!(world.record(&second, &object_of(kind)).outcome, Outcome::Complete);
}

/// Takes the third version back in its step.
pub async fn abort_the_third(world: &mut World, kind: Kind, manifest: &str) {
    let third = world.push("web.yaml", manifest, "Third version");
    until_step(world, &third, "waits for belay promote").await;
    ask_at(world, &kind.path(), CanaryAnswer::Abort).await;
    world.through(&third).await;
    let record = world.record(&third, &object_of(kind));
    assert_eq!(record.reason.clone().unwrap().code, ReasonCode::UndoneByHand, "{record:#?}");
}

/// Returns the name of the sample workload of a kind in records.
fn object_of(kind: Kind) -> String {
    format!("{} default/web", kind.name)
}

/// Starts belay, and kills it within each of two steps of two minutes, with one new pod and with two: nothing goes further while it
/// is dead. `old` are the fewest old pods of each step.
pub async fn kill_in_each_step(world: &mut World, sampling: &PodSampling, commit: &str, old: [usize; 2]) {
    world.start();
    until_step(world, commit, "canary step 1 of 2: 1 of 1 new pods are ready; watched until").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.kill().await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, old[0]));
    world.start();
    // The time of the step is over, and goes on with the next.
    until_step(world, commit, "canary step 2 of 2: 2 of 2 new pods are ready; watched until").await;
    world.kill().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (2, old[1]));
    world.start();
}

/// Loses the history within the only step, and waits until its time begins again.
pub async fn lose_the_history(world: &mut World, commit: &str) {
    until_step(world, commit, "1 of 1 new pods are ready; watched until").await;
    world.stop().await;
    std::fs::remove_file(world.repository.beside("state/history.db")).unwrap();
    world.start();
    until_step(world, commit, "1 of 1 new pods are ready; watched until").await;
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
