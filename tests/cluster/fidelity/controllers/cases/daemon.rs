//! T: DaemonSets.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::observer::Seen;
use super::super::workloads::{count, is_observed, merge, template};
use super::super::world::{Cascade, World, active_pods, is_ready};
use super::super::{Case, Fate, case};

pub fn cases() -> Vec<Case> {
    [updated(), placed(), kept()].concat()
}

fn updated() -> Vec<Case> {
    vec![
        case!("T09", "one node at a time", |w| {
            rolled_out(&w, 3, json!({})).await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("DaemonSet", "web", "v2").await?;
            for ready in 1..=3 {
                w.until("one more", move |seen| active_pods(seen, Some("v2")).len() == ready).await?;
                w.settle().await?;
                w.check(w.pods("v2").len() == ready, "one at a time")?;
                w.ready("v2", ready).await?;
            }
            up_to_date(&w, 3).await?;
        }),
        case!("T10", "back from a broken version, good pods are not touched", |w| {
            rolled_out(&w, 3, json!({})).await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("DaemonSet", "web", "v2").await?;
            w.until("a broken pod", |seen| active_pods(seen, Some("v2")).len() == 1).await?;
            w.settle().await?;
            w.note(w.kubectl(&["rollout", "undo", "daemonset/web"]).await?);
            w.until("no broken pod", |seen| active_pods(seen, Some("v2")).is_empty()).await?;
            up_to_date(&w, 3).await?;
            w.note(w.kubectl(&["rollout", "history", "daemonset/web"]).await?);
        }),
        case!("T10b", "broken old pods are replaced at once", |w| {
            w.fate("v1", Fate::OnCommand);
            make(&w, 4, json!({})).await?;
            w.ready("v1", 2).await?;
            w.until_object("DaemonSet", "web", "two ready", |set| count(set, "numberReady") == 2).await?;
            w.settle().await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("DaemonSet", "web", "v2").await?;
            w.until("two new", |seen| active_pods(seen, Some("v2")).len() == 2).await?;
            w.settle().await?;
            w.check(w.pods("v1").len() == 2, "those that are ready stay")?;
        }),
        case!("T11", "on delete, only deleted pods change", |w| {
            rolled_out(&w, 2, json!({ "updateStrategy": { "type": "OnDelete" } })).await?;
            w.set_image("DaemonSet", "web", "v2").await?;
            w.settle().await?;
            let pod = w.pods("v1")[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            w.delete("Pod", &pod, Cascade::Default).await?;
            w.until("a new pod", |seen| active_pods(seen, Some("v2")).len() == 1).await?;
        }),
        case!("T12", "a name that is taken is avoided", |w| {
            rolled_out(&w, 1, json!({})).await?;
            w.settle().await?;
            let name = w.look(|seen| seen.names_ever("ControllerRevision"))[0].clone();
            w.delete("DaemonSet", "web", Cascade::Background).await?;
            w.until("nothing left", |seen| seen.all("ControllerRevision").is_empty() && seen.all("Pod").is_empty())
                .await?;
            w.create(json!({
                "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": { "name": name },
                "revision": 1, "data": { "other": true },
            }))
            .await?;
            w.create(set(&w, json!({}))).await?;
            up_to_date(&w, 1).await?;
            let there = w.look(|seen| seen.get("DaemonSet", "web")).unwrap_or_default();
            w.check(there["status"]["collisionCount"] == 1, "collisionCount 1")?;
        }),
        case!("T13", "a quarter of ten is three", |w| {
            rolled_out(&w, 10, rolling(json!({ "maxUnavailable": "25%" }))).await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("DaemonSet", "web", "v2").await?;
            w.until("three new", |seen| active_pods(seen, Some("v2")).len() == 3).await?;
            w.settle().await?;
            w.check(w.pods("v2").len() == 3, "three at a time")?;
        }),
        case!("T30", "surge: the new pod comes beside the old one", |w| {
            rolled_out(&w, 3, rolling(json!({ "maxSurge": 1, "maxUnavailable": 0 }))).await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("DaemonSet", "web", "v2").await?;
            for ready in 1..=3 {
                w.until("one more", move |seen| active_pods(seen, Some("v2")).len() == ready).await?;
                w.settle().await?;
                let (old, new) = (w.pods("v1").len(), w.pods("v2").len());
                w.note(format!("{old} old, {new} new"));
                w.ready("v2", ready).await?;
            }
            w.until("no old ones", |seen| active_pods(seen, Some("v1")).is_empty()).await?;
            up_to_date(&w, 3).await?;
        }),
        case!("T31", "surge: an old pod that is not ready gives way", |w| {
            w.fate("v1", Fate::OnCommand);
            make(&w, 2, rolling(json!({ "maxSurge": "50%", "maxUnavailable": 0 }))).await?;
            w.ready("v1", 1).await?;
            w.until_object("DaemonSet", "web", "one ready", |set| count(set, "numberReady") == 1).await?;
            w.settle().await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("DaemonSet", "web", "v2").await?;
            w.until("a new one", |seen| !active_pods(seen, Some("v2")).is_empty()).await?;
            w.settle().await?;
            w.note(format!("{} old, {} new", w.pods("v1").len(), w.pods("v2").len()));
        }),
        case!("T32", "old revisions are forgotten", |w| {
            rolled_out(&w, 1, json!({ "revisionHistoryLimit": 1 })).await?;
            for image in ["v2", "v3", "v4"] {
                w.set_image("DaemonSet", "web", image).await?;
                w.until("the new pod", |seen| active_pods(seen, Some(image)).len() == 1).await?;
                up_to_date(&w, 1).await?;
            }
            w.until("two revisions", |seen| seen.all("ControllerRevision").len() == 2).await?;
        }),
    ]
}

fn placed() -> Vec<Case> {
    vec![
        case!("T33", "nodes come, change and go", |w| {
            rolled_out(&w, 1, json!({})).await?;
            node(&w, 2).await?;
            up_to_date(&w, 2).await?;
            let path = format!("/api/v1/nodes/{}-2", w.namespace);
            let away = json!({ "metadata": { "labels": { "case": "other" } } });
            w.send("PATCH", &path, "application/merge-patch+json", &away).await?;
            w.until("one pod", |seen| active_pods(seen, None).len() == 1).await?;
            up_to_date(&w, 1).await?;
            let back = json!({ "metadata": { "labels": { "case": w.namespace } } });
            w.send("PATCH", &path, "application/merge-patch+json", &back).await?;
            up_to_date(&w, 2).await?;
        }),
        case!("T34", "a taint keeps new pods away, and drives old ones out", |w| {
            rolled_out(&w, 2, json!({})).await?;
            let path = format!("/api/v1/nodes/{}-2", w.namespace);
            let taint = |effect: &str| json!({ "spec": { "taints": [{ "key": "mine", "effect": effect }] } });
            w.send("PATCH", &path, "application/merge-patch+json", &taint("NoSchedule")).await?;
            w.settle().await?;
            // The counts may or may not show it: nothing looks at the set until something else happens.
            w.note(format!("{} pods", w.look(|seen| active_pods(seen, None).len())));
            w.send("PATCH", &path, "application/merge-patch+json", &taint("NoExecute")).await?;
            w.until("one pod", |seen| active_pods(seen, None).len() == 1).await?;
            w.until_object("DaemonSet", "web", "one wanted", |set| {
                count(set, "desiredNumberScheduled") == 1 && count(set, "numberMisscheduled") == 0
            })
            .await?;
        }),
        case!("T35", "pods bear what every DaemonSet's pods bear", |w| {
            let spec = json!({ "template": { "spec": { "hostNetwork": true, "tolerations": [
                { "key": "mine", "operator": "Exists" },
                { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5 },
            ] } } });
            rolled_out(&w, 1, spec).await?;
            let pod = w.pods("v1")[0].clone();
            w.note(pod["spec"]["tolerations"].to_string());
            w.note(pod["metadata"]["labels"].as_object().map_or(0, |labels| labels.len()).to_string());
        }),
        case!("T36", "affinity is kept beside the pin", |w| {
            let preferred =
                json!([{ "weight": 1, "preference": { "matchExpressions": [{ "key": "x", "operator": "Exists" }] } }]);
            let required = json!({ "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": "case", "operator": "In", "values": [w.namespace] },
            ] }] });
            let affinity = json!({ "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
                "requiredDuringSchedulingIgnoredDuringExecution": required,
            } });
            rolled_out(&w, 1, json!({ "template": { "spec": { "affinity": affinity } } })).await?;
            w.note(w.pods("v1")[0]["spec"]["affinity"].to_string());
        }),
    ]
}

fn kept() -> Vec<Case> {
    vec![
        case!("T37", "failed pods are replaced, and told of", |w| {
            rolled_out(&w, 1, json!({})).await?;
            let pod = w.pods("v1")[0].clone();
            w.cluster.kubelet.exit(&pod, 1).await;
            w.until("another pod", |seen| seen.names_ever("Pod").len() == 2).await?;
            up_to_date(&w, 1).await?;
            let pod = w.pods("v1")[0].clone();
            w.cluster.kubelet.exit(&pod, 0).await;
            w.until("another pod", |seen| seen.names_ever("Pod").len() == 3).await?;
            up_to_date(&w, 1).await?;
        }),
        case!("T38", "available a while after ready", |w| {
            rolled_out(&w, 1, json!({ "minReadySeconds": 2 })).await?;
        }),
        case!("T39", "orphans are adopted", |w| {
            rolled_out(&w, 2, json!({})).await?;
            w.delete("DaemonSet", "web", Cascade::Orphan).await?;
            w.until("no set", |seen| seen.get("DaemonSet", "web").is_none()).await?;
            w.settle().await?;
            w.create(set(&w, json!({}))).await?;
            up_to_date(&w, 2).await?;
            w.check(w.look(|seen| seen.names_ever("Pod").len()) == 2, "the same pods")?;
        }),
        case!("T40", "deleted with its pods", |w| {
            rolled_out(&w, 1, json!({})).await?;
            w.delete("DaemonSet", "web", Cascade::Background).await?;
            w.until("nothing left", |seen| seen.all("Pod").is_empty() && seen.all("ControllerRevision").is_empty())
                .await?;
        }),
        case!("T41", "a pod whose label changes is released and replaced", |w| {
            rolled_out(&w, 1, json!({})).await?;
            let pod = w.pods("v1")[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            w.merge("Pod", &pod, json!({ "metadata": { "labels": { "app": "free" } } })).await?;
            w.until("a replacement", |seen| seen.all("Pod").len() == 2).await?;
            up_to_date(&w, 1).await?;
        }),
    ]
}

/// Returns a DaemonSet `web` for the nodes of this case.
fn set(w: &World, more: Value) -> Value {
    let mut spec = json!({ "selector": { "matchLabels": { "app": "web" } }, "template": template("web", "v1") });
    spec["template"]["spec"]["nodeSelector"] = json!({ "case": w.namespace });
    merge(&mut spec, more);
    json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "web" }, "spec": spec })
}

fn rolling(block: Value) -> Value {
    json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": block } })
}

async fn node(w: &World, number: i64) -> Result<()> {
    let name = format!("{}-{number}", w.namespace);
    Ok(w.cluster.kubelet.make_node(&name, json!({ "case": w.namespace })).await?)
}

async fn make(w: &World, nodes: i64, more: Value) -> Result<()> {
    for number in 1..=nodes {
        node(w, number).await?;
    }
    w.create(set(w, more)).await.map(drop)
}

async fn rolled_out(w: &World, nodes: i64, more: Value) -> Result<()> {
    make(w, nodes, more).await?;
    up_to_date(w, nodes).await
}

/// Waits until there is an up-to-date, available pod on every node.
async fn up_to_date(w: &World, nodes: i64) -> Result<()> {
    w.until_object("DaemonSet", "web", "a pod on every node", move |set| {
        let all = ["desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable"];
        is_observed(set)
            && all.iter().all(|field| count(set, field) == nodes)
            && count(set, "updatedNumberScheduled") == nodes
    })
    .await?;
    w.until("one ready pod a node", one_each).await
}

fn one_each(seen: &Seen) -> bool {
    let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
    let of_set = |pod: &&std::sync::Arc<Value>| pod["metadata"]["labels"]["app"] == "web";
    for pod in active_pods(seen, None).iter().filter(of_set) {
        *by_node.entry(pod["spec"]["nodeName"].to_string()).or_default() += usize::from(is_ready(pod));
    }
    by_node.values().all(|count| *count == 1)
}
