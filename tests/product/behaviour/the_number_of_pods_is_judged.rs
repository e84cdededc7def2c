//! A change of `replicas` is judged like any rollout. There is no template to go back to: it fails, and is reported.

use std::sync::Arc;
use std::time::Duration;

use belay::daemon::plan_once;
use belay_core::manifest::{Scopes, read_file};
use belay_core::rollout::{Commit, Hold, Outcome, Person, PlanStep, Trigger, Wanted};
use serde_json::{Value, json};

use crate::support::daemon::{World, deployment, path_of};

/// Lets the namespace have so many pods at most.
async fn allow(world: &World, pods: u32) {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
        "spec": {"hard": {"pods": pods.to_string()}}});
    world.create("api/v1/namespaces/default/resourcequotas", "kubectl", &quota).await;
}

fn manifest(kind: &str, replicas: u32, more: &str) -> String {
    let (version, kind_only) = match kind {
        "ReplicationController" => ("v1", "  selector: {app: web}\n"),
        "StatefulSet" => ("apps/v1", "  serviceName: web\n  selector: {matchLabels: {app: web}}\n"),
        _ => ("apps/v1", "  progressDeadlineSeconds: 30\n  selector: {matchLabels: {app: web}}\n"),
    };
    format!(
        "apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: web\n  annotations: \
         {{belay.dev/progress-deadline-seconds: \"30\"}}\n{more}spec:\n  replicas: {replicas}\n{kind_only}  template:\n    \
         metadata:\n      labels: {{app: web}}\n    spec:\n      containers:\n      - name: app\n        image: web:1\n"
    )
}

fn path_of_kind(kind: &str) -> String {
    match kind {
        "ReplicationController" => "api/v1/namespaces/default/replicationcontrollers/web".to_owned(),
        "StatefulSet" => "apis/apps/v1/namespaces/default/statefulsets/web".to_owned(),
        _ => path_of("web"),
    }
}

#[tokio::test(start_paused = true)]
async fn more_pods_than_there_may_be_are_a_failure() {
    for kind in ["Deployment", "StatefulSet", "ReplicationController"] {
        let mut world = World::embedded().await;
        allow(&world, 1).await;
        let first = world.push("web.yaml", &manifest(kind, 1, ""), "First version");
        world.start();
        world.through(&first).await;
        let object = format!("{kind} default/web");
        assert_eq!(world.record(&first, &object).outcome, Outcome::Complete, "{kind}");
        let before = world.get(&path_of_kind(kind)).await.unwrap()["spec"]["template"].clone();
        let more = world.push("web.yaml", &manifest(kind, 5, ""), "Five of them");
        world.through(&more).await;
        let record = world.record(&more, &object);
        let reason = record.reason.clone().unwrap_or_else(|| panic!("{kind}: {record:#?}"));
        assert_eq!((record.outcome, record.rolls_out), (Outcome::Failed, false), "{kind}: {reason}");
        assert!(reason.message.contains("exceeded quota"), "{kind}: {reason}");
        assert!(reason.message.ends_with("there is no template to go back to"), "{kind}: {reason}");
        let live = world.get(&path_of_kind(kind)).await.unwrap();
        assert_eq!((&live["spec"]["replicas"], &live["spec"]["template"]), (&json!(5), &before), "{kind}");
        assert_eq!(Hold::on(&live), None, "{kind}");
        // Fewer of them are there at once.
        let fewer = world.push("web.yaml", &manifest(kind, 1, ""), "One again");
        world.through(&fewer).await;
        assert_eq!(world.record(&fewer, &object).outcome, Outcome::Complete, "{kind}");
        assert_eq!(world.records().len(), 3, "{kind}: {:#?}", world.outcomes());
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_judged_on_after_a_restart_and_under_a_newer_commit() {
    let mut world = World::embedded().await;
    allow(&world, 1).await;
    let first = world.push("web.yaml", &manifest("Deployment", 1, ""), "First version");
    world.start();
    world.through(&first).await;
    let more = world.push("web.yaml", &manifest("Deployment", 5, ""), "Five of them");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.kill().await;
    world.start();
    world.until("it is under way again", |source| !source.under_way.is_empty()).await;
    let labelled =
        world.push("web.yaml", &manifest("Deployment", 5, "  labels: {team: a}\n"), "A label, and nothing else");
    world.through(&labelled).await;
    assert_eq!(world.record(&more, "Deployment default/web").outcome, Outcome::Superseded);
    let record = world.record(&labelled, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::Failed, "{record:#?}");
    let again = world.push("web.yaml", &manifest("Deployment", 4, "  labels: {team: a}\n"), "Four of them");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    world.kill().await;
    world.start();
    world.through(&again).await;
    let record = world.record(&again, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::Failed, "{record:#?}");
}

const AUTOSCALERS: &str = "apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

fn autoscaler() -> Value {
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"minReplicas": 1, "maxReplicas": 9,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}})
}

pub fn wanted(text: &str) -> Wanted {
    let file = read_file("web.yaml", text.as_bytes(), &Scopes::new("default"));
    let manifest = file.manifests[0].clone();
    let at = jiff::Timestamp::UNIX_EPOCH;
    let commit = Commit {
        id: "1".repeat(40).parse().unwrap(),
        subject: "Not committed".to_owned(),
        author: Person { name: "Ada".to_owned(), email: String::new() },
        authored: at,
        committed: at,
        parents: Vec::new(),
        trailers: Vec::new(),
    };
    Wanted::of(manifest, Arc::new(commit), Trigger::Commit)
}

/// A new object has its manifest's number, whoever scales it later; and so has one that somebody has deleted.
#[tokio::test(start_paused = true)]
async fn an_autoscaler_says_nothing_of_what_is_new() {
    let mut world = World::embedded().await;
    world.create(AUTOSCALERS, "kubectl-create", &autoscaler()).await;
    let text = deployment("web", "web:1", "").replace("replicas: 2", "replicas: 4");
    let first = world.push("web.yaml", &text, "First version");
    world.start();
    world.through(&first).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 4);
    world.patch(&path_of("web"), "autoscaler", &json!({"spec": {"replicas": 6}})).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 6);
    world.delete(&path_of("web")).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 4);
    // While it rolls out, too.
    world.patch(&path_of("web"), "autoscaler", &json!({"spec": {"replicas": 6}})).await;
    let second = text.replace("web:1", "web:2");
    let second = world.push("web.yaml", &second, "Second version");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    world.delete(&path_of("web")).await;
    world.through(&second).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap()["spec"]["replicas"], 4);
}

#[tokio::test(start_paused = true)]
async fn a_plan_leaves_to_an_autoscaler_what_the_daemon_does() {
    let mut world = World::embedded().await;
    world.create(AUTOSCALERS, "kubectl-create", &autoscaler()).await;
    world.with_first_version().await;
    world.patch(&path_of("web"), "autoscaler", &json!({"spec": {"replicas": 6}})).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let cluster = belay::cluster::Cluster::new(world.client.clone(), world.clock.clone());
    let wanted = wanted(&deployment("web", "web:1", ""));
    let head = wanted.commit.id.clone();
    let plan = plan_once(&cluster, "shop", &head, vec![wanted.clone()]).await.unwrap();
    assert_eq!(plan.planned[0].step, PlanStep::Unchanged, "as the autoscaler has it");
    world.delete(&format!("{AUTOSCALERS}/web")).await;
    world.stop().await;
    let plan = plan_once(&cluster, "shop", &head, vec![wanted]).await.unwrap();
    let PlanStep::Apply(apply) = &plan.planned[0].step else { panic!("{:?}", plan.planned[0].step) };
    assert!(apply.scales && !apply.rolls_out, "without one, the manifest has the word");
}
