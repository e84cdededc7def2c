//! Canaries: a Deployment is rolled out in steps, and goes no further than its step whatever happens meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use belay_core::rollout::canary::{CanaryAnswer, CanaryMark, request};
use belay_core::rollout::{Outcome, StepKind, marks};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::support::daemon::{World, deployment, image, path_of};

const WEB: &str = "Deployment default/web";

/// Returns the sample Deployment with these steps, and four pods.
fn with_steps(steps: &str, text: &str) -> String {
    let annotated = format!("name: web\n  annotations: {{belay.dev/canary: \"{steps}\"}}\nspec");
    let text = text.replacen("name: web\nspec", &annotated, 1).replace("replicas: 2", "replicas: 4");
    text.replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 30\n  minReadySeconds: 2")
}

fn web(steps: &str, image: &str) -> String {
    with_steps(steps, &deployment("web", image, ""))
}

/// Returns a cluster with the first version live.
async fn world(steps: &str) -> World {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &web(steps, "web:1"), "First version");
    world.start();
    world.through(&first).await;
    assert_eq!(canary_steps(&world, &first), Vec::<String>::new(), "nothing is to be kept when it is new");
    world
}

async fn live(world: &World) -> Value {
    world.get(&path_of("web")).await.unwrap()
}

/// Returns what the history says of a canary's steps.
fn canary_steps(world: &World, commit: &str) -> Vec<String> {
    let steps = world.history().steps(world.record(commit, WEB).id).unwrap();
    steps.into_iter().filter(|step| step.kind == StepKind::Canary).map(|step| step.detail).collect()
}

/// Asserts that the Deployment is as its manifest says, without anything of a canary.
async fn assert_as_the_manifest_says(world: &World) {
    let live = live(world).await;
    let spec = &live["spec"];
    assert_eq!(spec["strategy"]["rollingUpdate"], json!({"maxSurge": "25%", "maxUnavailable": "25%"}), "{spec:#}");
    assert_eq!((&spec["minReadySeconds"], &spec["progressDeadlineSeconds"]), (&json!(2), &json!(30)), "{spec:#}");
    assert_eq!(spec.get("paused"), None, "{spec:#}");
    assert_eq!(CanaryMark::on(&live), None);
    assert_eq!(marks::annotation(&live, marks::CANARY_REQUEST), None);
}

/// The pods of the second version, and the available ones of the first, as they were at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    new: usize,
    old_ready: usize,
}

/// Samples the pods until it is dropped.
struct Sampling {
    seen: Arc<Mutex<Vec<Seen>>>,
    _task: AbortOnDropHandle<()>,
}

impl Sampling {
    fn of(world: &World) -> Sampling {
        let client = world.cluster.as_ref().unwrap().client_as("admin");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(sample(client, Arc::clone(&seen)));
        Sampling { seen, _task: AbortOnDropHandle::new(task) }
    }

    fn most_new(&self) -> usize {
        self.seen.lock().unwrap().iter().map(|seen| seen.new).max().unwrap()
    }

    fn fewest_old(&self) -> usize {
        self.seen.lock().unwrap().iter().map(|seen| seen.old_ready).min().unwrap()
    }

    fn forget(&self) {
        self.seen.lock().unwrap().clear();
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
        let of = |image: &str| {
            let image = image.to_owned();
            pods.iter().filter(move |pod| pod["spec"]["containers"][0]["image"] == image.as_str())
        };
        let now = Seen { new: of("web:2").count(), old_ready: of("web:1").filter(is_ready).count() };
        seen.lock().unwrap().push(now);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until a step is watched, by what is published.
async fn until_step(world: &mut World, words: &str) {
    let words = words.to_owned();
    world.until(&words.clone(), move |source| source.under_way.values().any(|way| way.message.contains(&words))).await;
}

async fn ask(world: &World, answer: CanaryAnswer) {
    let asked =
        request(&live(world).await, answer, ("ada".to_owned(), Some("looks good".to_owned())), Timestamp::UNIX_EPOCH);
    let text = marks::written(&asked.unwrap());
    let patch = json!({"metadata": {"annotations": {marks::CANARY_REQUEST: text}}});
    world.patch(&path_of("web"), "belay-command", &patch).await;
}

#[tokio::test(start_paused = true)]
async fn a_good_version_goes_through_all_steps() {
    let steps = "1 1m, 50% 2m";
    let mut world = world(steps).await;
    let sampling = Sampling::of(&world);
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, "canary step 1 of 2: 1 new pod is ready; watched until").await;
    let locked = live(&world).await;
    assert_eq!(
        (&locked["spec"]["paused"], &locked["spec"]["strategy"]["rollingUpdate"]["maxSurge"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(locked["status"]["availableReplicas"], 4, "the old pods stay available: {:#}", locked["status"]);
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 4));
    until_step(&mut world, "canary step 2 of 2: 2 new pods are ready; watched until").await;
    tokio::time::sleep(Duration::from_secs(110)).await;
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (2, 4));
    world.through(&second).await;
    let record = world.record(&second, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert_eq!(
        canary_steps(&world, &second),
        [
            "canary step 1 of 2: 1 new pod",
            "canary step 2 of 2: 2 new pods",
            "the canary is over: all pods are replaced"
        ]
    );
    assert_eq!(image(&live(&world).await), "web:2");
    assert_as_the_manifest_says(&world).await;
}
