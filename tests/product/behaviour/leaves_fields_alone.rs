//! Fields that somebody else decides on are written when an object is created, and left alone afterwards.

use std::time::Duration;

use belay::cluster::Cluster;
use belay::config::IgnoreConfig;
use belay::daemon::plan_once;
use belay_core::rollout::{LiveWorkload, Outcome, PlanStep};
use serde_json::{Value, json};

use crate::support::daemon::{World, broken, config_map, deployment, image, path_of};
use crate::the_number_of_pods_is_judged::wanted;

const CPU: &str = "/spec/template/spec/containers/[name=app]/resources/limits/cpu";
const MAP: &str = "api/v1/namespaces/default/configmaps/colours";

fn ignore(kind: Option<&str>, name: Option<&str>, fields: &[&str]) -> IgnoreConfig {
    IgnoreConfig {
        kind: kind.map(str::to_owned),
        name: name.map(str::to_owned),
        namespace: None,
        fields: fields.iter().map(|field| field.parse().unwrap()).collect(),
    }
}

/// Returns a followed repository with this Deployment, of which these fields are left alone.
async fn leaving(fields: &[&str], text: &str) -> World {
    let mut world = World::embedded().await;
    world.config.ignore = vec![ignore(Some("Deployment"), None, fields)];
    push(&mut world, text, "First version").await;
    world
}

/// Starts the daemon where it does not run yet.
async fn push(world: &mut World, text: &str, message: &str) -> String {
    let first = world.repository.tip().is_none();
    let commit = world.push("web.yaml", text, message);
    if first {
        world.start();
    }
    world.through(&commit).await;
    commit
}

async fn web(world: &World) -> Value {
    world.get(&path_of("web")).await.unwrap()
}

async fn decide(world: &World, spec: Value) {
    world.patch(&path_of("web"), "somebody", &json!({"spec": spec})).await;
}

fn with_cpu(text: &str, cpu: &str) -> String {
    format!("{text}        resources: {{limits: {{cpu: \"{cpu}\"}}}}\n")
}

fn cpu(live: &Value) -> &Value {
    &live["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"]
}

async fn decide_cpu(world: &World, cpu: &str) {
    let place = "/spec/template/spec/containers/0/resources/limits/cpu";
    world.json_patch(&path_of("web"), "somebody", &json!([{"op": "replace", "path": place, "value": cpu}])).await;
}

#[tokio::test(start_paused = true)]
async fn they_are_written_when_it_is_created_and_are_no_drift_afterwards() {
    let mut world = leaving(&["/spec/replicas"], &deployment("web", "web:1", "")).await;
    assert_eq!(web(&world).await["spec"]["replicas"], 2);
    decide(&world, json!({"replicas": 5})).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(web(&world).await["spec"]["replicas"], 5);
    assert_eq!(world.records().len(), 1, "nothing was put right");
    // A commit that changes it does nothing, and one that changes more leaves it as it is.
    let three = deployment("web", "web:1", "").replace("replicas: 2", "replicas: 3");
    push(&mut world, &three, "Three of them").await;
    assert_eq!(web(&world).await["spec"]["replicas"], 5);
    push(&mut world, &three.replace("web:1", "web:2"), "Second version").await;
    let live = web(&world).await;
    assert_eq!((image(&live), &live["spec"]["replicas"]), ("web:2", &json!(5)));
    // Other fields are no less belay's.
    decide(&world, json!({"minReadySeconds": 7, "progressDeadlineSeconds": 99})).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(web(&world).await["spec"]["progressDeadlineSeconds"], 30);
    // An object that is created anew is as the manifest says.
    world.delete(&path_of("web")).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(web(&world).await["spec"]["replicas"], 3);
}

#[tokio::test(start_paused = true)]
async fn they_stay_when_the_manifest_has_them_no_longer() {
    let mut world = leaving(&["/spec/replicas"], &deployment("web", "web:1", "")).await;
    push(&mut world, &deployment("web", "web:1", "").replace("  replicas: 2\n", ""), "An autoscaler is to come").await;
    assert_eq!(web(&world).await["spec"]["replicas"], 2, "and not the server's default");
}

#[tokio::test(start_paused = true)]
async fn fields_of_any_kind_are_chosen_by_kind_name_and_namespace() {
    let mut world = World::embedded().await;
    world.config.ignore = vec![
        ignore(Some("ConfigMap"), Some("colours"), &["/data/A"]),
        ignore(Some("Secret"), None, &["/data/B"]),
        IgnoreConfig { namespace: Some("elsewhere".to_owned()), ..ignore(None, None, &["/data/C"]) },
    ];
    let text = config_map("colours", "red") + "  B: red\n  C: red\n";
    world.repository.write("colours.yaml", &text).write("sizes.yaml", config_map("sizes", "red"));
    world.with_all_of_them().await;
    let sizes = MAP.replace("colours", "sizes");
    for path in [MAP, &sizes] {
        world.patch(path, "somebody", &json!({"data": {"A": "blue", "B": "blue", "C": "blue"}})).await;
    }
    tokio::time::sleep(Duration::from_mins(5)).await;
    let live = world.get(MAP).await.unwrap();
    assert_eq!(live["data"], json!({"A": "blue", "B": "red", "C": "red"}));
    assert_eq!(world.get(&sizes).await.unwrap()["data"]["A"], "red");
}

#[tokio::test(start_paused = true)]
async fn a_field_of_the_pod_template_rolls_nothing_out_by_itself() {
    let text = with_cpu(&deployment("web", "web:1", ""), "1");
    let mut world = leaving(&[CPU], &text).await;
    let before = web(&world).await["metadata"]["generation"].clone();
    push(&mut world, &text.replace("cpu: \"1\"", "cpu: \"2\""), "More of it").await;
    let live = web(&world).await;
    assert_eq!((cpu(&live), &live["metadata"]["generation"]), (&json!("1"), &before));
    decide_cpu(&world, "3").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(cpu(&web(&world).await), "3");
    let outcomes = world.outcomes();
    assert!(
        outcomes.iter().all(|(_, outcome)| matches!(outcome, Outcome::Complete | Outcome::Unchanged)),
        "{outcomes:?}"
    );
    // An item that is new is whole.
    let more = format!("{text}      - name: more\n        image: more:1\n");
    push(&mut world, &more, "Another container").await;
    let live = web(&world).await;
    assert_eq!(
        (cpu(&live), &live["spec"]["template"]["spec"]["containers"][1]["image"]),
        (&json!("3"), &json!("more:1"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_rollback_leaves_them_as_they_are() {
    let mut world = leaving(&[CPU, "/spec/replicas"], &with_cpu(&deployment("web", "web:1", ""), "1")).await;
    decide(&world, json!({"replicas": 3})).await;
    decide_cpu(&world, "3").await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let text = with_cpu(&broken("web", "crash"), "2").replace("replicas: 2", "replicas: 1");
    let second = push(&mut world, &text, "Second version").await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::RolledBack);
    let live = web(&world).await;
    assert_eq!((image(&live), cpu(&live), &live["spec"]["replicas"]), ("web:1", &json!("3"), &json!(3)));
    // While it is held, too; and what else somebody changes meanwhile is put right.
    decide(&world, json!({"replicas": 4, "progressDeadlineSeconds": 99})).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    decide_cpu(&world, "4").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    let live = web(&world).await;
    assert_eq!((image(&live), cpu(&live), &live["spec"]["replicas"]), ("web:1", &json!("4"), &json!(4)));
    assert_eq!(live["spec"]["progressDeadlineSeconds"], 30);
}

/// The last good template differs from the present one in what is left alone: a way back that does not write that either.
#[tokio::test(start_paused = true)]
async fn nor_does_it_undo_what_was_decided_since_the_last_good_one() {
    let mut world = leaving(&[CPU], &with_cpu(&deployment("web", "web:1", ""), "1")).await;
    let second = world.push("web.yaml", &with_cpu(&broken("web", "crash"), "1"), "Second version");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    decide_cpu(&world, "3").await;
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::RolledBack);
    let live = web(&world).await;
    assert_eq!((image(&live), cpu(&live)), ("web:1", &json!("3")));
    // Nor does what is decided later hide the hold.
    decide_cpu(&world, "5").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let live = web(&world).await;
    let told = LiveWorkload::of(&world.record(&second, "Deployment default/web").object, &live);
    assert!(told.hold.is_some() && world.status().held.len() == 1, "{told:#?}");
    assert_eq!(cpu(&web(&world).await), &json!("5"));
    assert_eq!(image(&web(&world).await), "web:1");
}

/// A decision during a rollout is neither an undo by hand nor written over.
#[tokio::test(start_paused = true)]
async fn what_is_decided_during_a_rollout_stays() {
    let mut world = leaving(&[CPU], &with_cpu(&deployment("web", "web:1", ""), "1")).await;
    let second = world.push("web.yaml", &with_cpu(&deployment("web", "web:2", ""), "1"), "Second version");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    decide_cpu(&world, "3").await;
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
    let live = web(&world).await;
    assert_eq!((image(&live), cpu(&live)), ("web:2", &json!("3")));
}

#[tokio::test(start_paused = true)]
async fn what_kubectl_applied_before_keeps_them() {
    let mut world = World::embedded().await;
    world.config.ignore = vec![ignore(None, None, &["/spec/replicas", CPU])];
    let text = with_cpu(&deployment("web", "web:1", ""), "1");
    let mut object: Value = serde_yaml::from_str(&text).unwrap();
    object["spec"]["replicas"] = json!(4);
    object["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
    world.create("apis/apps/v1/namespaces/default/deployments", "kubectl-client-side-apply", &object).await;
    push(&mut world, &text.replace("  replicas: 2\n", "").replace("cpu: \"1\"", "cpu: \"2\""), "First version").await;
    let live = web(&world).await;
    assert_eq!((cpu(&live), &live["spec"]["replicas"]), (&json!("1"), &json!(4)));
}

#[tokio::test(start_paused = true)]
async fn a_plan_says_what_the_daemon_does() {
    let text = deployment("web", "web:1", "");
    let mut world = leaving(&["/spec/replicas"], &text).await;
    decide(&world, json!({"replicas": 5})).await;
    world.stop().await;
    let cluster = Cluster::new(world.client.clone(), world.clock.clone());
    let mut wanted = wanted(&text);
    let head = wanted.commit.id.clone();
    wanted.ignored_fields = world.config.ignored_fields(&wanted.key);
    let plan = plan_once(&cluster, "shop", &head, vec![wanted]).await.unwrap();
    assert_eq!(plan.planned[0].step, PlanStep::Unchanged);
}
