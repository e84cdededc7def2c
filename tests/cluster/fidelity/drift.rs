//! Drift on the real control plane: what its own controllers write, what people change with kubectl, and what another
//! program writes back. Real time: these are real processes.

use std::time::Duration;

use tokio::time::Instant;

use belay::config::Drift;
use belay_core::rollout::{Outcome, SourceState};
use serde_json::{Value, json};

use super::main_job::real_world;
use crate::support::control_plane::ControlPlane;
use crate::support::daemon::{World, deployment, image, path_of};

const ROLE: &str = "apis/rbac.authorization.k8s.io/v1/clusterroles/shop-admin";
const SERVICE: &str = "api/v1/namespaces/default/services/web";
const KEYS: &str = "api/v1/namespaces/default/secrets/keys";
const OLDER: &str = "api/v1/namespaces/default/secrets/older";
const MAP: &str = "api/v1/namespaces/default/configmaps/x";

const ROLES: &str = r#"apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shop-admin}
aggregationRule:
  clusterRoleSelectors:
  - matchLabels: {example.com/part-of-shop-admin: "true"}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: shop-read
  labels: {example.com/part-of-shop-admin: "true"}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list]}
"#;

const PORTS: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  selector: {app: web}\n  ports:\n  \
                     - {port: 80, name: http}\n  - {port: 443, name: https}\n";

fn secret(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\n{data}\n")
}

fn map(value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata: {{a: {value}}}\n")
}

fn web(image: &str) -> String {
    let ports = "        ports: [{containerPort: 80, name: http}]\n        env: [{name: A, value: \"1\"}]\n";
    deployment("web", image, "").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 8") + ports
}

fn kubectl(plane: &ControlPlane, args: &[&str]) {
    let ran = plane.kubectl().args(args).output().unwrap();
    assert!(ran.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

fn patch(plane: &ControlPlane, object: &str, operations: &Value) {
    kubectl(plane, &["patch", object, "--type=json", "-p", &operations.to_string()]);
}

async fn becomes(world: &World, path: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let live = world.get(path).await.unwrap_or_default();
        if is_so(&live) {
            return live;
        }
        assert!(began.elapsed() < Duration::from_secs(40), "{what}: {live:#}\n{:#?}", world.status());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn keys(live: &Value) -> Vec<&str> {
    live["data"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_change_is_put_right_or_left_to_the_cluster() {
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    // As an earlier build has applied it: nobody owns the key that has left.
    let earlier = |data: Value| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "older", "labels": {"belay.dev/source": "shop"}},
            "stringData": data})
    };
    world.apply(OLDER, "belay", &earlier(json!({"old": "a", "new": "b"}))).await;
    world.apply(OLDER, "belay", &earlier(json!({"new": "b"}))).await;
    assert_eq!(keys(&world.get(OLDER).await.unwrap()), ["new", "old"], "that is how it was");
    world.repository.write("roles.yaml", ROLES);
    world.repository.write("service.yaml", PORTS);
    world.repository.write("keys.yaml", secret("keys", "stringData: {old-token: abc, new-token: def}"));
    world.repository.write("older.yaml", secret("older", "stringData: {new: b}"));
    world.repository.write("web.yaml", web("web:1"));
    world.repository.write("x.yaml", map("b"));
    world.with_all_of_them().await;
    assert_eq!(keys(&world.get(OLDER).await.unwrap()), ["new"]);
    stays_the_clusters(&world).await;
    keyed_lists(&world, &plane).await;
    pod_templates(&world, &plane).await;
    string_data(&mut world).await;
    finalizers(&mut world, &plane).await;
    world.stop().await;
    nodes.stop().await;
}

/// The control plane aggregates the rules, and belay does not write them.
async fn stays_the_clusters(world: &World) {
    let is_filled = |live: &Value| live["rules"].as_array().is_some_and(|rules| !rules.is_empty());
    let filled = becomes(world, ROLE, "the rules are aggregated", is_filled).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let later = world.get(ROLE).await.unwrap();
    assert_eq!(later["metadata"]["resourceVersion"], filled["metadata"]["resourceVersion"], "nobody writes it");
}

/// Somebody changes what an item of a list is known by; what else is changed of the object is put right, too.
async fn keyed_lists(world: &World, plane: &ControlPlane) {
    patch(plane, "service/web", &json!([{"op": "replace", "path": "/spec/ports/0/port", "value": 83}]));
    let ports = |live: &Value| {
        live["spec"]["ports"].as_array().into_iter().flatten().map(|port| port["port"].as_u64()).collect::<Vec<_>>()
    };
    becomes(world, SERVICE, "the port is put right", |live| ports(live) == [Some(80), Some(443)]).await;
    patch(
        plane,
        "service/web",
        &json!([{"op": "replace", "path": "/spec/ports/1/port", "value": 84},
        {"op": "remove", "path": "/spec/selector"}]),
    );
    let is_right = |live: &Value| ports(live) == [Some(80), Some(443)] && live["spec"]["selector"]["app"] == "web";
    becomes(world, SERVICE, "port and selector are put right", is_right).await;
}

/// Somebody adds to a pod template, or renames items of its lists.
async fn pod_templates(world: &World, plane: &ControlPlane) {
    let path = path_of("web");
    let good = world.get(&path).await.unwrap()["spec"]["template"].clone();
    let container = "/spec/template/spec/containers/0";
    for change in [
        json!([{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"disk": "none"}}]),
        json!([{"op": "add", "path": format!("{container}/env/-"), "value": {"name": "B", "value": "2"}}]),
        json!([{"op": "replace", "path": format!("{container}/env/0/name"), "value": "C"}]),
        json!([{"op": "replace", "path": format!("{container}/ports/0/containerPort"), "value": 81}]),
        json!([{"op": "replace", "path": format!("{container}/name"), "value": "other"}]),
        json!([{"op": "add", "path": format!("{container}/imagePullPolicy"), "value": "Never"}]),
    ] {
        patch(plane, "deployment/web", &change);
        let changed = world.get(&path).await.unwrap()["metadata"]["generation"].as_u64();
        let is_right = |live: &Value| {
            live["spec"]["template"] == good && (changed.is_none() || live["status"]["availableReplicas"] == 2)
        };
        becomes(world, &path, &change.to_string(), is_right).await;
    }
    // A restart is no drift.
    kubectl(plane, &["rollout", "restart", "deployment/web"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let live = world.get(&path).await.unwrap();
    assert!(live["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].is_string());
}

/// A key that leaves `stringData`, or goes over to `data`, leaves the Secret.
async fn string_data(world: &mut World) {
    let second = world.push("keys.yaml", &secret("keys", "stringData: {new-token: def}"), "Without the old token");
    world.through(&second).await;
    assert_eq!(keys(&world.get(KEYS).await.unwrap()), ["new-token"]);
    let third = world.push("keys.yaml", &secret("keys", "data: {newer: ZGVm}"), "As data");
    world.through(&third).await;
    assert_eq!(keys(&world.get(KEYS).await.unwrap()), ["newer"]);
}

/// An object that a finalizer keeps is reported with it, and comes back when it is gone.
async fn finalizers(world: &mut World, plane: &ControlPlane) {
    kubectl(plane, &["patch", "configmap", "x", "-p", r#"{"metadata":{"finalizers":["example.com/keep"]}}"#]);
    world.repository.remove("x.yaml");
    world.repository.commit("Without x");
    world.repository.push();
    let says = |source: &belay::daemon::SourceStatus| {
        source.obstacles.trouble.values().any(|message| message.contains("example.com/keep"))
    };
    world.until("the finalizer is named", says).await;
    let back = world.push("x.yaml", &map("c"), "x again");
    let waits = |source: &belay::daemon::SourceStatus| {
        source.under_way.values().any(|way| way.outcome == Outcome::Waiting && way.message.contains("example.com/keep"))
    };
    world.until("it waits until it is gone", waits).await;
    assert_ne!(world.status().state(), SourceState::Synced);
    kubectl(plane, &["patch", "configmap", "x", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    world.through(&back).await;
    assert_eq!(world.get(MAP).await.unwrap()["data"]["a"], "c");
    assert_eq!(world.record(&back, "ConfigMap default/x").outcome, Outcome::Complete);
}

/// A program that writes an image back as soon as it sees another one.
#[tokio::test(flavor = "multi_thread")]
async fn two_who_disagree_do_not_fight() {
    let Some((_plane, nodes, mut world)) = real_world().await else { return };
    let first = world.push("web.yaml", &web("web:1"), "First version");
    world.start();
    world.through(&first).await;
    let second = world.push("web.yaml", &web("web:2"), "Second version");
    world.through(&second).await;
    let before = world.get(&path_of("web")).await.unwrap()["metadata"]["generation"].as_u64().unwrap();
    let theirs = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "web:7"}]);
    let (began, mut own) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(30) {
        if image(&world.get(&path_of("web")).await.unwrap()) != "web:7" {
            world.json_patch(&path_of("web"), "updater", &theirs).await;
            own += 1;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let after = world.get(&path_of("web")).await.unwrap()["metadata"]["generation"].as_u64().unwrap();
    let corrections = after - before - own;
    assert!(corrections <= 8, "{corrections} corrections in 30 s");
    let said: Vec<String> = world.status().obstacles.trouble.into_values().collect();
    let expected = "updater and belay disagree about spec.template.spec.containers[name=app].image since ";
    assert!(said.iter().any(|text| text.starts_with(expected)), "{said:?}");
    assert_eq!(world.status().state(), SourceState::Degraded);
    world.stop().await;
    nodes.stop().await;
}

/// If drift is only reported, its manager and field are named, the next commit is not charged with it, and a rollback
/// restores the template of its revision.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_only_reported_is_charged_to_no_commit() {
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    world.config.drift = Drift::Report;
    let first = world.push("web.yaml", &web("web:1"), "First version");
    world.start();
    world.through(&first).await;
    let good = world.get(&path_of("web")).await.unwrap()["spec"]["template"].clone();
    patch(
        &plane,
        "deployment/web",
        &json!([{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"disk": "none"}}]),
    );
    let says = |source: &belay::daemon::SourceStatus| {
        let expected = "kubectl-patch: spec.template.spec.nodeSelector";
        source.obstacles.trouble.values().any(|message| message.contains(expected))
    };
    world.until("it is told", says).await;
    assert_eq!(world.status().state(), SourceState::Degraded);
    let second = world.push("web.yaml", &web("web:2"), "Second version");
    world.through(&second).await;
    assert_eq!(world.record(&second, "Deployment default/web").outcome, Outcome::Complete);
    let bad = world.push("web.yaml", &web("web:404"), "Third version");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    kubectl(&plane, &["rollout", "undo", "deployment/web", "--to-revision=1"]);
    world.through(&bad).await;
    let again = world.push("web.yaml", &web("web:404-again"), "Fourth version");
    world.through(&again).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert!(live["spec"]["template"]["spec"].get("nodeSelector").is_none(), "{live:#}");
    assert_eq!(live["spec"]["template"]["metadata"], good["metadata"]);
    world.stop().await;
    nodes.stop().await;
}
