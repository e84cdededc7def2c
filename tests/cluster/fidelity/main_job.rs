//! The main job on the real control plane, its pods driven by the embedded kubelet: a commit becomes a rollout, and a bad
//! one is taken back. Real time: these are real processes.

use std::path::Path;
use std::time::Duration;

use belay::clock::Clock;
use belay_core::rollout::{Hold, Outcome, marks};
use minicluster::{PodLogs, Random, kubelet};

use crate::support::control_plane::{self, ControlPlane, Controllers};
use crate::support::daemon::{WIDGETS, World, broken, deployment, path_of, short};

/// Returns the real control plane with nodes, and belay beside it; nothing if the control plane is not installed.
pub async fn real_world() -> Option<(ControlPlane, kubelet::Running, World)> {
    let assets = control_plane::assets("the main job on the real control plane")?;
    let plane = ControlPlane::start(&assets, Controllers::Real).await;
    let nodes = start_nodes(&plane);
    let mut world = World::on(plane.client(), Clock::system(), None);
    world.repository.author("Ada", "ada@example.com");
    Some((plane, nodes, world))
}

/// Starts the nodes of the real control plane.
pub fn start_nodes(plane: &ControlPlane) -> kubelet::Running {
    let mut options = kubelet::Options::new(Clock::system(), Random::new(1), PodLogs::default());
    // The API server asks the nodes for logs.
    options.ports = kubelet::Ports::Open;
    kubelet::start(plane.client(), options)
}

/// Applies `manifests/belay` as its first line says, and returns the token that its pod would find.
pub fn token_of_belay(plane: &ControlPlane) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/belay");
    let run = |args: &[&str]| {
        let ran = plane.kubectl().args(args).output().unwrap();
        assert!(ran.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    run(&["apply", "-f", folder]);
    run(&["create", "token", "belay", "--namespace", "belay"]).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_commit_is_taken_back_and_held() {
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    // With the rights that a belay in the cluster is given, and no others.
    world.give_belay(plane.client_with(&token_of_belay(&plane)));
    world.start();

    let first = world.push("web.yaml", &with_proxy("web:1"), "First version");
    world.through(&first).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);

    let good = world.push("web.yaml", &with_proxy("web:2"), "Second version");
    world.through(&good).await;
    assert_eq!(world.record(&good, "Deployment default/web").outcome, Outcome::Complete);

    let noted = with_proxy("web:404").replacen("      labels:", "      annotations: {note: third}\n      labels:", 1);
    let bad = world.push("web.yaml", &noted, "Third version");
    world.through(&bad).await;
    let record = world.record(&bad, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    assert_eq!(record.back_to.unwrap().as_str(), good);
    let evidence = record.evidence.unwrap();
    assert!(evidence.pods[0].state.contains("Image"), "{evidence:#?}");
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "web:2");
    assert_eq!(live["status"]["availableReplicas"], 2);
    assert_eq!(Hold::on(&live).unwrap().commit.as_str(), bad);
    assert_eq!(marks::annotation(&live, marks::COMMIT), Some(good.as_str()));

    let history = plane.kubectl().args(["rollout", "history", "deployment/web"]).output().unwrap();
    let history = String::from_utf8_lossy(&history.stdout).into_owned();
    let failed = format!("{} Third version (Ada) — failed: ", short(&bad));
    assert!(history.contains(&failed), "{history}");
    assert!(history.contains(&format!("{} Second version (Ada)\n", short(&good))), "{history}");

    // The evidence holds all that there is: nothing was missing for want of a right.
    assert_eq!(evidence.missing, Vec::<String>::new());
    assert!(!evidence.events.is_empty(), "{evidence:#?}");

    // Somebody brings the failed one back. It fails again, and what is gone back to is not mixed with it.
    let good_template = live["spec"]["template"].clone();
    let undone = plane.kubectl().args(["rollout", "undo", "deployment/web"]).output().unwrap();
    assert!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
    world.until("it is judged again", |source| !source.under_way.is_empty()).await;
    world.through(&bad).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!((&live["spec"]["template"], Hold::on(&live).is_some()), (&good_template, true));

    // Made anew by force, all of it is kubectl's, the hold too.
    let held = plane.kubectl().args(["get", "deployment", "web", "-o", "json"]).output().unwrap();
    let file = world.repository.beside("held.json");
    std::fs::write(&file, &held.stdout).unwrap();
    replace_by_force(&plane, &file);
    let replaced = world.get(&path_of("web")).await.unwrap();
    assert_ne!(replaced["metadata"]["uid"], live["metadata"]["uid"]);
    taken_up_again(&world).await;

    let fix = world.push("web.yaml", &manifest("web:3"), "Fix the image, and do without the proxy");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(Hold::on(&live), None);
    let containers = &live["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        containers.as_array().unwrap().len(),
        1,
        "nothing stays that the repository stops to have: {containers}"
    );
    let whose = live["metadata"]["managedFields"].as_array().unwrap().iter();
    let marked = whose.filter(|entry| entry["fieldsV1"].to_string().contains("f:belay.dev/"));
    assert_eq!(marked.map(|entry| &entry["manager"]).collect::<Vec<_>>(), ["belay"], "its marks are belay's alone");
    world.stop().await;
    nodes.stop().await;
}

/// One push that brings all that can go wrong at first: each has its own record, and none keeps another from its end.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_at_first_keeps_nothing_else_waiting() {
    let Some((_plane, nodes, mut world)) = real_world().await else { return };
    world.repository.write("web.yaml", manifest("web:1"));
    world.repository.write("api.yaml", manifest("web:404").replace("web\n", "api\n").replace("app: web", "app: api"));
    world.repository.write("typo.yaml", manifest("web:1").replace("replicas:", "replica:").replace(": web", ": typo"));
    world.repository.write("all.yaml", format!("{APPLICATION}---\n{WIDGETS}"));
    let first = world.repository.commit("Everything at once");
    world.repository.push();
    world.start();
    world.through(&first).await;
    let outcome = |world: &World, object: &str| world.record(&first, object).outcome;
    assert_eq!(outcome(&world, "Deployment default/web"), Outcome::Complete);
    assert_eq!(outcome(&world, "Deployment default/api"), Outcome::Failed);
    let typo = world.record(&first, "Deployment default/typo");
    assert_eq!(typo.outcome, Outcome::Rejected);
    let complaint = typo.complaints[0].to_string();
    assert!(complaint.starts_with("typo.yaml:6:3: ") && complaint.contains("replicas"), "{complaint}");
    for object in
        ["Namespace shop", "CustomResourceDefinition widgets.example.com", "Widget shop/one", "Secret shop/key"]
    {
        assert_eq!(outcome(&world, object), Outcome::Complete, "{object}");
    }
    // A workload whose first rollout failed stays as it is, with nothing to go back to.
    let api = world.get(&path_of("api")).await.unwrap();
    assert_eq!(api["spec"]["template"]["spec"]["containers"][0]["image"], "web:404");
    assert_eq!(Hold::on(&api), None);

    // More replicas are no new revision, and no new cause.
    let before = world.get(&path_of("web")).await.unwrap();
    let second = world.push("web.yaml", &manifest("web:1").replace("replicas: 2", "replicas: 3"), "One more");
    world.through(&second).await;
    let after = world.get(&path_of("web")).await.unwrap();
    assert_eq!(after["spec"]["replicas"], 3);
    for annotation in [marks::CHANGE_CAUSE, marks::COMMIT, "deployment.kubernetes.io/revision"] {
        assert_eq!(marks::annotation(&after, annotation), marks::annotation(&before, annotation), "{annotation}");
    }
    world.stop().await;
    nodes.stop().await;
}

/// Killed while a rollout is on its way to fail, and again when it is held; then a fix takes over from one that is stuck.
#[tokio::test(flavor = "multi_thread")]
async fn killed_and_overtaken_it_still_ends_well() {
    let Some((_plane, nodes, mut world)) = real_world().await else { return };
    world.start();
    let good = world.push("web.yaml", &manifest("web:1"), "First version");
    world.through(&good).await;
    let crashes = broken("web", "crash-after=1s")
        .replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 5\n  minReadySeconds: 4");
    let bad = world.push("web.yaml", &crashes, "Second version");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    world.kill().await;
    world.start();
    world.through(&bad).await;
    let record = world.record(&bad, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    let pods = record.evidence.unwrap().pods;
    assert!(pods.iter().any(|pod| pod.restarts > 0 && !pod.log.is_empty()), "the last lines are kept: {pods:#?}");
    let held = world.get(&path_of("web")).await.unwrap();
    assert_eq!(Hold::on(&held).unwrap().commit.as_str(), bad);
    world.kill().await;
    world.start();
    let other = world.push("settings.yaml", SETTINGS, "Something else");
    world.through(&other).await;
    let still = world.get(&path_of("web")).await.unwrap();
    assert_eq!(still["metadata"]["generation"], held["metadata"]["generation"], "held, also after a kill");

    // A stuck one, with all the time in the world, is replaced by its fix at once.
    let patient = |image: &str| {
        deployment("web", image, "").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 600")
    };
    let stuck = world.push("web.yaml", &patient("web:404-again").replace("404-again", "non-existent"), "Stuck");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    let fix = world.push("web.yaml", &patient("web:3"), "Fix it");
    world.through(&fix).await;
    assert_eq!(world.record(&stuck, "Deployment default/web").outcome, Outcome::Superseded);
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(Hold::on(&world.get(&path_of("web")).await.unwrap()), None);
    world.stop().await;
    nodes.stop().await;
}

const SETTINGS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {A: \"1\"}\n";

const APPLICATION: &str = r#"
apiVersion: example.com/v1
kind: Widget
metadata: {name: one, namespace: shop}
spec: {size: 3}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: shop}
stringData: {KEY: hunter2}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
"#;

fn manifest(image: &str) -> String {
    deployment("web", image, "").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 4")
}

fn with_proxy(image: &str) -> String {
    format!("{}      - name: proxy\n        image: proxy:1\n", manifest(image))
}

/// Replaces the objects of a file by `kubectl replace --force`, which deletes and creates. belay creates a held object again, and
/// may be faster: then kubectl tries again.
fn replace_by_force(plane: &ControlPlane, file: &Path) {
    for _ in 0..20 {
        let replaced = plane.kubectl().args(["replace", "--force", "-f"]).arg(file).output().unwrap();
        let error = String::from_utf8_lossy(&replaced.stderr);
        if replaced.status.success() {
            return;
        }
        assert!(error.contains("AlreadyExists"), "{error}");
    }
    panic!("belay was faster 20 times");
}

/// Waits until belay has taken up again what somebody made anew.
async fn taken_up_again(world: &World) {
    for _ in 0..300 {
        let live = world.get(&path_of("web")).await.unwrap();
        if live["metadata"]["managedFields"].to_string().contains("\"before-belay\"") {
            return;
        }
        // Real time: this is a real server.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("belay has not taken up what was made anew within 30 s");
}
