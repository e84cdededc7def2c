//! `status`: what it says of a workload in each of its states, on a terminal, in a pipe, and while it is watched.

use belay::history::{Drifted, History, HistoryEntry};
use belay_core::rollout::{Hold, marks, template_hash};
use serde_json::{Value, json};

use crate::reading::{narrow, typed_in_a_terminal};
use crate::support::daemon::deployment;
use crate::workstation::{Workstation, path};

const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

/// A Deployment as belay would have applied it: with its marks, and these annotations; its pods have a fate.
pub async fn applied(desk: &Workstation, name: &str, fate: &str, deadline: u32, more: Value) {
    let mut manifest: Value = serde_yaml::from_str(&deployment(name, "web:1", "")).unwrap();
    manifest["metadata"]["labels"] = json!({marks::SOURCE: "shop"});
    manifest["metadata"]["annotations"] = json!({marks::COMMIT: COMMIT});
    for (key, value) in more.as_object().unwrap() {
        manifest["metadata"]["annotations"][key] = value.clone();
    }
    manifest["spec"]["progressDeadlineSeconds"] = json!(deadline);
    manifest["spec"]["template"]["metadata"]["annotations"] = json!({"kubelet.belay.dev/fate": fate});
    desk.apply(&path("deployments", name), &manifest.to_string()).await;
}

/// Returns a hold on the template that is live.
fn hold(live: &Value) -> Value {
    let hold = Hold {
        manifest: "abc".to_owned(),
        config: None,
        template: template_hash(&live["spec"]["template"]),
        ignored_fields: Vec::new(),
        commit: "2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e".parse().unwrap(),
        reason: "no image".to_owned(),
        since: "2026-01-02T12:00:00Z".parse().unwrap(),
        with: Vec::new(),
        by: None,
    };
    json!({marks::HOLD: hold.to_annotation()})
}

/// The same with a hold.
pub async fn held(desk: &Workstation, name: &str, fate: &str) {
    applied(desk, name, fate, 600, json!({})).await;
    let live = desk.get(&path("deployments", name)).await.unwrap();
    applied(desk, name, fate, 600, hold(&live)).await;
}

/// One workload in each state but failed.
async fn told() -> Workstation {
    let desk = Workstation::embedded().await;
    applied(&desk, "a-complete", "ready", 600, json!({})).await;
    applied(&desk, "b-drifted", "ready", 600, json!({})).await;
    held(&desk, "c-held", "ready").await;
    applied(&desk, "d-suspended", "ready", 600, json!({marks::SUSPEND: "we look at it"})).await;
    applied(&desk, "e-under-way", "never-ready", 600, json!({})).await;
    held(&desk, "f-rolling-back", "never-ready").await;
    for name in ["a-complete", "b-drifted", "c-held", "d-suspended"] {
        desk.until(&path("deployments", name), "available", |live| live["status"]["availableReplicas"] == 2).await;
    }
    for name in ["e-under-way", "f-rolling-back"] {
        desk.until(&path("deployments", name), "updated", |live| live["status"]["updatedReplicas"] == 2).await;
    }
    let (history, _) = History::open(&desk.state(), "2026-01-02T00:00:00Z".parse().unwrap()).unwrap();
    let object = belay_core::manifest::ObjectKey {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: Some("default".to_owned()),
        name: "b-drifted".to_owned(),
    };
    let since = "2026-01-02T12:00:00Z".parse().unwrap();
    let drifted = Drifted { object, by: "kubectl-edit".to_owned(), since };
    history.enter(&[HistoryEntry::Drifted("shop".to_owned(), drifted)]).unwrap().remove(0).unwrap();
    desk
}

#[tokio::test(flavor = "multi_thread")]
async fn every_state_has_its_words() {
    let desk = told().await;
    let table = desk.belay(&["status"]);
    assert_eq!(table.code, 0, "{table:?}");
    let line = |name: &str| {
        let found = table.out.lines().find(|line| line.contains(name));
        found.unwrap_or_else(|| panic!("{name} is not in\n{}", table.out)).to_owned()
    };
    for (name, parts) in [
        ("a-complete", &["   1a2b3c4   complete ", "  2/2  ", "2 of 2 pods are available"][..]),
        ("b-drifted", &["   complete ", "changed by kubectl-edit, and left so, as configured"]),
        ("c-held", &["   held ", "commit 2b3c4d5 is held: no image"]),
        ("d-suspended", &["   suspended ", "   we look at it"]),
        (
            "e-under-way",
            &["   progressing ", "  ◐◐ 0/2  ", "new pods are available; fails in ", " unless something moves"],
        ),
        ("f-rolling-back", &["   rolling-back ", "  ◐◐ 0/2  "]),
    ] {
        for part in parts {
            assert!(line(name).contains(part), "{part:?} is not in {}", line(name));
        }
    }
    // The answer has the time since which it is held or has drifted.
    for name in ["b-drifted", "c-held"] {
        assert!(line(name).split("   ").any(|cell| cell.trim().ends_with('d')), "{}", line(name));
    }
    let wide = desk.belay(&["status", "-o", "wide"]);
    let heading = wide.out.lines().find(|line| line.starts_with("SOURCE")).unwrap();
    for column in ["UPDATED", "READY", "AVAILABLE"] {
        assert!(heading.contains(column), "{heading}");
    }
    let value: Value = serde_json::from_str(&desk.belay(&["status", "e-under-way", "-o", "json"]).out).unwrap();
    let one = &value["workloads"][0];
    assert_eq!((&one["updated"], &one["ready"], &one["available"]), (&json!(2), &json!(0), &json!(0)), "{one:#}");
    assert!(one["deadline"].is_string(), "{one:#}");
    let yaml: Value = serde_yaml::from_str(&desk.belay(&["status", "b-drifted", "-o", "yaml"]).out).unwrap();
    assert_eq!(yaml["workloads"][0]["driftedBy"], "kubectl-edit");
    let labelled = desk.belay(&["status", "-l", "app=none"]);
    assert_eq!(labelled.out, "belay has applied no workload in namespace default (-A: in all).\n");
}

/// The most harmful rows come first, and `--state` keeps those of some states.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_filtered_and_sorted_by_state() {
    let desk = told().await;
    let names = |more: &[&str]| -> Vec<String> {
        let ran = desk.belay(&[&["status", "-o", "name"], more].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out.lines().map(|line| line.trim_start_matches("deployment/").to_owned()).collect()
    };
    // Two of them have no available pod.
    let all = ["f-rolling-back", "e-under-way", "c-held", "d-suspended", "a-complete", "b-drifted"];
    assert_eq!(names(&[]), all);
    assert_eq!(names(&["--state", "suspended,held"]), ["c-held", "d-suspended"]);
    assert_eq!(names(&["--state", "complete", "--state", "held"]), ["c-held", "a-complete", "b-drifted"]);
    let json: Value = serde_json::from_str(&desk.belay(&["status", "--state", "held", "-o", "json"]).out).unwrap();
    let workloads = json["workloads"].as_array().unwrap();
    assert!(workloads.len() == 1 && workloads[0]["object"]["name"] == "c-held", "{json:#}");
    let none = desk.belay(&["status", "--state", "failed,rejected"]);
    let told = "No object in namespace default is failed or rejected (-A: in all).\n";
    assert_eq!((none.code, none.out.lines().last()), (0, told.lines().next()), "{none:?}");
    let odd = desk.belay(&["status", "--state", "broken"]);
    assert!(odd.code == 2 && odd.err.contains("rollback-failed"), "{odd:?}");
}

/// Returns one version of a workload with three pods, as belay would have applied it; its pods have a fate.
async fn version(desk: &Workstation, kind: &str, number: usize, fate: &str) -> String {
    let resource = format!("{}s", kind.to_lowercase());
    let mut manifest: Value = serde_yaml::from_str(&deployment("web", &format!("web:{number}"), "")).unwrap();
    manifest["kind"] = json!(kind);
    manifest["metadata"]["labels"] = json!({marks::SOURCE: "shop"});
    let commit = COMMIT.replacen('1', &number.to_string(), 1);
    manifest["metadata"]["annotations"] =
        json!({marks::COMMIT: commit, marks::CHANGE_CAUSE: format!("Version {number}")});
    manifest["spec"]["template"]["metadata"]["annotations"] = json!({"kubelet.belay.dev/fate": fate});
    let spec = manifest["spec"].as_object_mut().unwrap();
    spec.insert("replicas".to_owned(), json!(3));
    match kind {
        "Deployment" => {
            let bounds = json!({"maxSurge": 2, "maxUnavailable": 0});
            spec.insert("strategy".to_owned(), json!({"type": "RollingUpdate", "rollingUpdate": bounds}));
        }
        _ => drop(spec.remove("progressDeadlineSeconds")),
    }
    if kind == "DaemonSet" {
        spec.remove("replicas");
    }
    let at = path(&resource, "web");
    desk.apply(&at, &manifest.to_string()).await;
    at
}

fn revisions(desk: &Workstation, workload: &str) -> Vec<Value> {
    let value: Value = serde_json::from_str(&desk.belay(&["status", workload, "-o", "json"]).out).unwrap();
    value["workloads"][0]["revisions"].as_array().unwrap_or_else(|| panic!("{value:#}")).clone()
}

/// Revision, desired, updated, ready, not ready, available.
fn counts(one: &Value) -> [i64; 6] {
    ["revision", "desired", "updated", "ready", "notReady", "available"].map(|name| one[name].as_i64().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_each_revision_are_told_apart() {
    let desk = Workstation::embedded().await;
    let at = version(&desk, "Deployment", 1, "ready").await;
    desk.until(&at, "available", |live| live["status"]["availableReplicas"] == 3).await;
    version(&desk, "Deployment", 2, "ready-after=5s").await;
    desk.until(&at, "grown", |live| live["status"]["updatedReplicas"] == 2).await;
    assert_eq!(desk.belay(&["pause", "web"]).code, 0);
    desk.until(&at, "well", |live| live["status"]["availableReplicas"] == 5).await;
    version(&desk, "Deployment", 3, "never-ready").await;
    assert_eq!(desk.belay(&["resume", "web"]).code, 0);
    desk.until(&at, "grown again", |live| live["status"]["updatedReplicas"] == 2 && live["status"]["replicas"] == 5)
        .await;
    let told = revisions(&desk, "web");
    let all: Vec<[i64; 6]> = told.iter().map(counts).collect();
    assert_eq!(all, [[3, 2, 2, 0, 2, 0], [2, 2, 0, 2, 0, 2], [1, 1, 0, 1, 0, 1]], "{told:#?}");
    assert_eq!(told[1]["commit"], COMMIT.replacen('1', "2", 1));
    assert_eq!((&told[0]["present"], &told[1]["present"]), (&json!(true), &json!(false)));

    let table = desk.belay(&["status", "web"]).out;
    let heading = table.lines().position(|line| line.starts_with("REVISION")).unwrap_or_else(|| panic!("{table}"));
    let lines: Vec<Vec<&str>> = table.lines().skip(heading + 1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert_eq!(lines[2], ["1", "1a2b3c4", "1", "0", "1", "0", "1"], "{table}");
    let wide = desk.belay(&["status", "web", "-o", "wide"]).out;
    assert!(wide.contains("CHANGE-CAUSE") && wide.contains("Version 2"), "{wide}");
    // Only if one is asked for.
    let all = desk.belay(&["status", "-o", "json"]).out;
    assert!(serde_json::from_str::<Value>(&all).unwrap()["workloads"][0]["revisions"].is_null(), "{all}");
    assert!(!desk.belay(&["status"]).out.contains("REVISION"));
}

/// A person who may not read the pods that are counted is told so, and all the rest.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_may_not_be_read_are_said_not_to_be_known() {
    let desk = Workstation::embedded().await;
    version(&desk, "Deployment", 1, "ready").await;
    let group = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": "looks"}, "rules": [
        {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets", "daemonsets"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["replicationcontrollers"], "verbs": ["get", "list"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]}]});
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "looks"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "looks"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "ada"}]});
    for (resource, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        desk.apply(&format!("apis/{group}/v1/{resource}/looks"), &object.to_string()).await;
    }
    let shown = desk.belay(&["status", "web", "--as", "ada"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    let line = shown.out.lines().last().unwrap();
    assert!(line.starts_with("the pods of each revision of Deployment default/web are not known: "), "{shown:?}");
    assert!(line.contains("replicasets"), "{shown:?}");
    let told = desk.belay(&["status", "web", "--as", "ada", "-o", "json"]);
    let told: Value = serde_json::from_str(&told.out).unwrap();
    let one = &told["workloads"][0];
    assert!(one["revisions"].is_null() && one["revisionsMissing"].is_string(), "{one:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_revisions_that_do_not_count_them_are_counted() {
    let desk = Workstation::embedded().await;
    let set = version(&desk, "StatefulSet", 1, "ready").await;
    desk.until(&set, "available", |live| live["status"]["availableReplicas"] == 3).await;
    version(&desk, "StatefulSet", 2, "never-ready").await;
    desk.until(&set, "one is new", |live| live["status"]["updatedReplicas"] == 1).await;
    let told = revisions(&desk, "statefulset/web");
    assert_eq!(told.iter().map(counts).collect::<Vec<_>>(), [[2, 3, 1, 0, 1, 0], [1, 0, 0, 2, 0, 2]], "{told:#?}");
    assert_eq!(told[0]["commit"], COMMIT.replacen('1', "2", 1));

    let set = version(&desk, "DaemonSet", 1, "ready").await;
    let nodes = desk.until(&set, "available", |live| live["status"]["numberAvailable"].as_i64() > Some(0)).await;
    let nodes = nodes["status"]["desiredNumberScheduled"].as_i64().unwrap();
    desk.until(&set, "all of them", |live| live["status"]["numberAvailable"] == nodes).await;
    version(&desk, "DaemonSet", 2, "never-ready").await;
    desk.until(&set, "one is new", |live| live["status"]["updatedNumberScheduled"] == 1).await;
    let told = revisions(&desk, "daemonset/web");
    assert_eq!(counts(&told[0]), [2, nodes, 1, 0, 1, 0], "{told:#?}");
    let old: Vec<[i64; 6]> = told.iter().skip(1).map(counts).collect();
    assert_eq!(old, if nodes > 1 { vec![[1, 0, 0, nodes - 1, 0, nodes - 1]] } else { Vec::new() }, "{told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_or_is_paused() {
    let desk = Workstation::embedded().await;
    applied(&desk, "broken", "never-ready", 1, json!({})).await;
    applied(&desk, "paused", "ready", 600, json!({})).await;
    desk.until(&path("deployments", "paused"), "available", |live| live["status"]["availableReplicas"] == 2).await;
    assert_eq!(desk.belay(&["pause", "paused"]).code, 0);
    assert_eq!(desk.belay(&["set", "image", "paused", "app=web:2", "--live"]).code, 0);
    desk.synced(&path("deployments", "paused")).await;
    desk.until(&path("deployments", "broken"), "failed", |live| live.to_string().contains("ProgressDeadlineExceeded"))
        .await;
    let table = desk.belay(&["status"]);
    assert_eq!(table.code, 3, "{table:?}");
    let of = |name: &str| table.out.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    assert!(
        of("broken").contains("   failed ") && of("broken").contains("exceeded its progress deadline"),
        "{table:?}"
    );
    assert!(
        of("/paused").contains("   progressing ") && of("/paused").contains("paused at 0 of 2 new pods"),
        "{table:?}"
    );
    assert!(of("/paused").contains("○○ "), "{table:?}");
    assert_eq!(desk.belay(&["status", "paused"]).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_it_is_drawn_in_place() {
    let desk = told().await;
    let command = format!(
        "'{}' --kubeconfig '{}' --state-dir '{}' status",
        env!("CARGO_BIN_EXE_belay"),
        desk.kubeconfig.display(),
        desk.state().display()
    );
    for columns in [80, 200] {
        let shown = typed_in_a_terminal(desk.home.path(), columns, 24, &command);
        assert!(shown.contains("\x1b[3"), "states have colours: {shown:?}");
        let shown = anstream::adapter::strip_str(&shown).to_string();
        narrow(&shown, columns);
        assert!(shown.contains("held") && shown.contains("suspended"), "{shown}");
    }
    // The countdown alone makes it draw again, over what is there; on a screen that is too small no more than fits.
    for (rows, up) in [(24, "\x1b[8A\x1b[J"), (5, "\x1b[4A\x1b[J")] {
        let watch = format!("timeout -s INT 10 {command} --watch");
        let shown = typed_in_a_terminal(desk.home.path(), 120, rows, &watch);
        assert!(shown.contains(up), "{rows} rows: {shown:?}");
        let drawn = shown.split("\x1b[J").last().unwrap();
        assert!(drawn.lines().filter(|line| !line.trim().is_empty()).count() < rows, "{drawn:?}");
        assert_eq!(drawn.contains("… and 5 more lines"), rows == 5, "{drawn:?}");
    }
}
