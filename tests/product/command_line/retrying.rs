//! `retry` of many: `--all`, by label, and in all namespaces.

use belay_core::rollout::{Hold, marks};
use serde_json::{Value, json};

use crate::status_states::{applied, held};
use crate::workstation::{Workstation, path};

/// Returns the names of the Deployments that are still held, in both namespaces.
async fn still_held(desk: &Workstation) -> Vec<String> {
    let mut names = Vec::new();
    for namespace in ["default", "other"] {
        let list = desk.get(&format!("apis/apps/v1/namespaces/{namespace}/deployments")).await.unwrap();
        let held = list["items"].as_array().unwrap().iter().filter(|live| Hold::on(live).is_some());
        names.extend(held.map(|live| format!("{namespace}/{}", live["metadata"]["name"].as_str().unwrap())));
    }
    names
}

/// Applies the held workload `a` again: under a name, in a namespace, with the name as a label.
async fn like_a(desk: &Workstation, namespace: &str, name: &str) {
    let a = desk.get(&path("deployments", "a")).await.unwrap();
    let metadata = json!({"name": name, "labels": {marks::SOURCE: "shop", "app": name},
        "annotations": {marks::HOLD: a["metadata"]["annotations"][marks::HOLD]}});
    let text =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": a["spec"]}).to_string();
    desk.apply(&format!("apis/apps/v1/namespaces/{namespace}/deployments/{name}"), &text).await;
}

/// Two held workloads, one that is not, and a held one in another namespace.
async fn told() -> Workstation {
    let desk = Workstation::embedded().await;
    held(&desk, "a", "ready").await;
    like_a(&desk, "default", "b").await;
    applied(&desk, "c", "ready", 600, json!({})).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    desk.apply("api/v1/namespaces/other", &namespace.to_string()).await;
    like_a(&desk, "other", "a").await;
    assert_eq!(still_held(&desk).await, ["default/a", "default/b", "other/a"]);
    desk
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_is_held_is_retried_at_once() {
    let desk = told().await;
    let asked = desk.belay(&["retry", "--all"]);
    assert_eq!((asked.code, asked.out.as_str()), (1, ""), "{asked:?}");
    assert!(asked.err.contains("these are 2: deployment.apps/a, deployment.apps/b; say --yes"), "{asked:?}");
    let tried = desk.belay(&["retry", "--all", "-A", "--dry-run"]);
    let line = |name: &str, namespace: &str| {
        format!("deployment.apps/{name} -n {namespace} let go of commit 2b3c4d5 (server dry run)\n")
    };
    let lines = [line("a", "default"), line("b", "default"), line("a", "other")];
    assert_eq!((tried.code, tried.out), (0, lines.concat()), "{}", tried.err);
    assert_eq!(still_held(&desk).await.len(), 3, "a try changes nothing");

    let labelled = desk.belay(&["retry", "-l", "app=b", "-o", "json"]);
    assert_eq!(labelled.code, 0, "one is no question: {labelled:?}");
    let object: Value = serde_json::from_str(&labelled.out).unwrap();
    assert_eq!(object["metadata"]["name"], "b", "{object:#}");
    assert_eq!(still_held(&desk).await, ["default/a", "other/a"]);
    let others = desk.belay(&["retry", "statefulset", "-l", "app=a", "-A", "--yes"]);
    assert_eq!((others.code, others.err.as_str()), (0, "Nothing is held.\n"), "{others:?}");

    let all = desk.belay(&["retry", "--all", "-A", "--yes"]);
    assert_eq!(all.code, 0, "{all:?}");
    assert_eq!(still_held(&desk).await, Vec::<String>::new());
    let none = desk.belay(&["retry", "--all"]);
    let told = "Nothing is held, rejected or given up in namespace default (-A: in all).\n";
    assert_eq!((none.code, none.out.as_str(), none.err.as_str()), (0, "", told));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_and_names_contradict_each_other() {
    let home = tempfile::tempdir().unwrap();
    for line in ["retry", "retry web --all", "retry web -A", "retry -A", "retry --all -l app=web"] {
        let ran = crate::program::run(home.path(), &line.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{line}: {ran:?}");
    }
}
