//! Canaries on the real control plane: its controllers go no further than the step, whatever happens meanwhile.

use std::time::Duration;

use belay_core::rollout::canary::{CanaryAnswer, CanaryMark};
use belay_core::rollout::{Outcome, ReasonCode};
use serde_json::Value;

use super::main_job::{real_world, token_of_belay};
use crate::support::canary::{
    PodSampling, ask, ask_at, assert_as_the_manifest_says, live, of_kind, until_step, web, with_steps,
};
use crate::support::control_plane::ControlPlane;
use crate::support::daemon::{broken, image};
use crate::support::workloads::KINDS;

const WEB: &str = "Deployment default/web";

fn run(plane: &ControlPlane, args: &[&str]) -> (bool, String) {
    let ran = plane.kubectl().args(args).output().unwrap();
    (ran.status.success(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_goes_no_further_than_its_step() {
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    world.start();
    let steps = "1 0, 50% 4s";
    let first = world.push("web.yaml", &web(steps, "web:1"), "First version");
    world.through(&first).await;
    let sampling = PodSampling::of(plane.client());
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "1 of 1 new pods are ready; waits for belay promote").await;
    assert_eq!(live(&world).await["status"]["availableReplicas"], 4);
    // Nobody is there, and people do what they do.
    world.kill().await;
    let (undone, said) = run(&plane, &["rollout", "undo", "deployment/web"]);
    assert!(!undone && said.contains("paused"), "{said}");
    for name in [pod_of(&plane, "web:2"), pod_of(&plane, "web:1")] {
        assert!(run(&plane, &["delete", "pod", &name, "--wait=false"]).0);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(run(&plane, &["rollout", "resume", "deployment/web"]).0);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(sampling.most_new(), 1, "the first lock alone holds");
    world.start();
    until_step(&mut world, &second, "1 of 1 new pods are ready; waits for belay promote").await;
    assert_eq!(live(&world).await["spec"]["paused"], true);
    ask(&world, CanaryAnswer::Promote).await;
    until_step(&mut world, &second, "2 of 2 new pods are ready; watched until").await;
    assert_eq!(sampling.most_new(), 2);
    // One pod was deleted by hand.
    assert!(sampling.fewest_old() >= 3, "{}", sampling.fewest_old());
    world.through(&second).await;
    let record = world.record(&second, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert_eq!(image(&live(&world).await), "web:2");
    assert_as_the_manifest_says(&world).await;
    world.stop().await;
    nodes.stop().await;
}

fn pod_of(plane: &ControlPlane, image: &str) -> String {
    let listed = run(plane, &["get", "pods", "-o", "json"]).1;
    let pods: Value = serde_json::from_str(&listed).unwrap();
    let pods = pods["items"].as_array().unwrap();
    let is_of = |pod: &&Value| pod["spec"]["containers"][0]["image"] == image;
    pods.iter().find(is_of).unwrap()["metadata"]["name"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_fails_goes_back_with_its_locks() {
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    world.start();
    let steps = "1 1m";
    let first = world.push("web.yaml", &web(steps, "web:1"), "First version");
    world.through(&first).await;
    let sampling = PodSampling::of(plane.client());
    let crashes = with_steps(steps, &broken("web", r#"crash-after=12s,code=3,log=\"no database\""#));
    let bad = world.push("web.yaml", &crashes, "Crashes");
    world.through(&bad).await;
    let record = world.record(&bad, WEB);
    let code = record.reason.clone().unwrap().code;
    assert_eq!((record.outcome, code), (Outcome::RolledBack, ReasonCode::CanaryFailed), "{record:#?}");
    assert_eq!((sampling.most_new(), sampling.fewest_old()), (1, 4));
    assert_eq!(live(&world).await["status"]["availableReplicas"], 4);
    assert_as_the_manifest_says(&world).await;
    world.stop().await;
    nodes.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_autoscaler_and_a_quota_do_not_get_past_a_step() {
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    world.start();
    let without_number = |image: &str| web("1 0", image).replace("  replicas: 4\n", "");
    let first = world.push("web.yaml", &without_number("web:1"), "First version");
    world.through(&first).await;
    assert!(run(&plane, &["scale", "deployment/web", "--replicas", "4"]).0);
    assert!(run(&plane, &["rollout", "status", "deployment/web", "--timeout=60s"]).0);
    let quota = run(&plane, &["create", "quota", "pods", "--hard=pods=4"]);
    assert!(quota.0, "{}", quota.1);
    let sampling = PodSampling::of(plane.client());
    let second = world.push("web.yaml", &without_number("web:2"), "Second version");
    world
        .until("it says that there is no room", |source| {
            source.under_way.values().any(|way| way.wrong.as_ref().is_some_and(|wrong| wrong.contains("quota")))
        })
        .await;
    assert!(run(&plane, &["delete", "quota", "pods"]).0);
    // Its controller tries again ever later, unless the ReplicaSet changes.
    assert!(run(&plane, &["annotate", "replicaset", "-l", "app=web", "quota=gone"]).0);
    until_step(&mut world, &second, "1 of 1 new pods are ready; waits for belay promote").await;
    for replicas in ["6", "9", "3"] {
        assert!(run(&plane, &["scale", "deployment/web", "--replicas", replicas]).0);
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(sampling.most_new(), 1, "scaled to {replicas}");
    }
    until_step(&mut world, &second, "1 of 1 new pods are ready; waits for belay promote").await;
    ask(&world, CanaryAnswer::Promote).await;
    world.through(&second).await;
    let record = world.record(&second, WEB);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert_eq!(live(&world).await["spec"]["replicas"], 3);
    assert_as_the_manifest_says(&world).await;
    world.stop().await;
    nodes.stop().await;
}

/// Returns the revisions of the pods, lowest ordinal first, by their images.
fn images(plane: &ControlPlane) -> Vec<String> {
    let (_, said) =
        run(plane, &["get", "pods", "--sort-by=.metadata.name", "-o", "jsonpath={.items[*].spec.containers[0].image}"]);
    said.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_of_a_stateful_set_goes_no_further_than_its_step() {
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    world.start();
    let kind = KINDS[1];
    // Partitions are counted from the first ordinal.
    let of = |image: &str, fate: &str| {
        of_kind(kind, "1 0, 50% 4s", image, fate).replace("  replicas: 4\n", "  ordinals: {start: 3}\n  replicas: 4\n")
    };
    let first = world.push("web.yaml", &of("web:1", "ready"), "First version");
    world.through(&first).await;
    let sampling = PodSampling::of(plane.client());
    let second = world.push("web.yaml", &of("web:2", "ready"), "Second version");
    until_step(&mut world, &second, "1 of 1 new pods are ready; waits for belay promote").await;
    // Nobody is there, and people do what they do.
    world.kill().await;
    for name in ["web-3", "web-6"] {
        assert!(run(&plane, &["delete", "pod", name]).0);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(images(&plane), ["web:1", "web:1", "web:1", "web:2"]);
    world.start();
    until_step(&mut world, &second, "1 of 1 new pods are ready; waits for belay promote").await;
    assert_eq!(sampling.most_new(), 1);
    ask_at(&world, &kind.path(), CanaryAnswer::Promote).await;
    until_step(&mut world, &second, "2 of 2 new pods are ready; watched until").await;
    assert_eq!(
        (sampling.most_new(), images(&plane)),
        (2, ["web:1", "web:1", "web:2", "web:2"].map(str::to_owned).to_vec())
    );
    world.through(&second).await;
    let record = world.record(&second, "StatefulSet default/web");
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    let whole = world.get(&kind.path()).await.unwrap();
    assert_eq!(whole["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 0);
    // A version whose pod the controller would wait for goes back.
    let bad = world.push("web.yaml", &of("web:3", "never-ready"), "Never ready");
    world.through(&bad).await;
    let record = world.record(&bad, "StatefulSet default/web");
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    assert_eq!(images(&plane), ["web:2"; 4]);
    assert_eq!(CanaryMark::on(&world.get(&kind.path()).await.unwrap()), None);
    world.stop().await;
    nodes.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_of_a_daemon_set_goes_no_further_than_its_step() {
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    // With the rights that a belay in the cluster is given, and no others.
    world.give_belay(plane.client_with(&token_of_belay(&plane)));
    world.start();
    let kind = KINDS[2];
    let of = |image: &str, fate: &str| of_kind(kind, "1 0, 2 4s", image, fate);
    let first = world.push("web.yaml", &of("web:1", "ready"), "First version");
    world.through(&first).await;
    let all = images(&plane).len();
    assert!(all >= 3, "{all} nodes");
    let sampling = PodSampling::of(plane.client());
    let second = world.push("web.yaml", &of("web:2", "ready"), "Second version");
    until_step(&mut world, &second, "1 of 1 new pods are ready; waits for belay promote").await;
    world.kill().await;
    assert!(run(&plane, &["delete", "pod", &pod_of(&plane, "web:2")]).0);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(sampling.most_new(), 1, "nobody else replaces pods");
    world.start();
    until_step(&mut world, &second, "1 of 1 new pods are ready; waits for belay promote").await;
    ask_at(&world, &kind.path(), CanaryAnswer::Promote).await;
    until_step(&mut world, &second, "2 of 2 new pods are ready; watched until").await;
    assert_eq!(sampling.most_new(), 2);
    world.through(&second).await;
    let record = world.record(&second, "DaemonSet default/web");
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    assert_eq!(images(&plane), vec!["web:2"; all]);
    let bad = world.push("web.yaml", &of("web:3", "never-ready"), "Never ready");
    world.through(&bad).await;
    let record = world.record(&bad, "DaemonSet default/web");
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    assert_eq!(images(&plane), vec!["web:2"; all]);
    let live = world.get(&kind.path()).await.unwrap();
    assert_eq!((CanaryMark::on(&live), &live["spec"]["updateStrategy"]["type"]), (None, &Value::from("RollingUpdate")));
    world.stop().await;
    nodes.stop().await;
}
