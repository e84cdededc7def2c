//! T: StatefulSets.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::observer::Seen;
use super::super::workloads::{count, is_observed, merge, template};
use super::super::world::{Cascade, World, is_ready};
use super::super::{Case, Fate, case};

pub fn cases() -> Vec<Case> {
    [updated(), scaled(), claimed(), mended()].concat()
}

fn updated() -> Vec<Case> {
    vec![
        case!("T01", "pods are replaced from the last to the first", |w| {
            rolled_out(&w, 3, json!({})).await?;
            w.set_image("StatefulSet", "web", "v2").await?;
            until_updated(&w, 3).await?;
            w.note(order(&w, "v2"));
        }),
        case!("T02", "a partition keeps pods back", |w| {
            partitioned(&w).await?;
            w.merge("StatefulSet", "web", rolling(json!({ "partition": 0 }))).await?;
            until_updated(&w, 3).await?;
            w.note(order(&w, "v2"));
        }),
        case!("T03", "a pod that is kept back comes back as it was", |w| {
            partitioned(&w).await?;
            w.delete("Pod", "web-0", Cascade::Default).await?;
            w.until("another web-0", |seen| pods_ever(seen, "web-0") == 2 && is_up(seen, "web-0")).await?;
            w.settle().await?;
            w.check(image(&w, "web-0") == "v1", "the old revision")?;
        }),
        case!("T04", "on delete, only deleted pods change", |w| {
            rolled_out(&w, 3, json!({ "updateStrategy": { "type": "OnDelete" } })).await?;
            w.set_image("StatefulSet", "web", "v2").await?;
            w.settle().await?;
            w.delete("Pod", "web-1", Cascade::Default).await?;
            w.until("another web-1", |seen| pods_ever(seen, "web-1") == 2 && is_up(seen, "web-1")).await?;
            w.settle().await?;
            w.note(["web-0", "web-1", "web-2"].map(|pod| image(&w, pod)).join(" "));
            w.note(w.kubectl(&["rollout", "status", "statefulset/web", "--timeout=5s"]).await?);
        }),
        case!("T05", "undo raises the number of an older revision", |w| {
            rolled_out(&w, 2, json!({})).await?;
            w.set_image("StatefulSet", "web", "v2").await?;
            until_updated(&w, 2).await?;
            w.settle().await?;
            w.note(w.kubectl(&["rollout", "undo", "statefulset/web"]).await?);
            w.until("v1 again", |seen| {
                ["web-0", "web-1"].iter().all(|pod| {
                    let there = seen.get("Pod", pod);
                    there.is_some_and(|pod| pod["spec"]["containers"][0]["image"] == "v1" && is_ready(&pod))
                })
            })
            .await?;
            until_updated(&w, 2).await?;
            w.note(w.kubectl(&["rollout", "history", "statefulset/web"]).await?);
        }),
        case!("T09b", "several unavailable are asked for", |w| {
            let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 2 } });
            rolled_out(&w, 3, json!({ "updateStrategy": strategy })).await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("StatefulSet", "web", "v2").await?;
            w.until("a new pod", |seen| !of_image(seen, "v2").is_empty()).await?;
            w.settle().await?;
            w.note(of_sorted(&w, "v2"));
        }),
        case!("T14", "broken, then mended: in order it stays stuck", |w| {
            broken(&w, "OrderedReady").await?;
            w.settle().await?;
            w.note(format!("web-2 is {}", image(&w, "web-2")));
            w.delete("Pod", "web-2", Cascade::Default).await?;
            until_updated(&w, 3).await?;
        }),
        case!("T15", "broken, then mended: in parallel", |w| {
            broken(&w, "Parallel").await?;
            w.settle().await?;
            w.note(format!("web-2 is {}", image(&w, "web-2")));
        }),
        case!("T08", "no strategy given: kubectl's last words", |w| {
            rolled_out(&w, 2, json!({})).await?;
            w.set_image("StatefulSet", "web", "v2").await?;
            until_updated(&w, 2).await?;
            w.note(w.kubectl(&["rollout", "status", "statefulset/web", "--timeout=5s"]).await?);
        }),
        case!("T08b", "a strategy without its block: kubectl's last words", |w| {
            rolled_out(&w, 2, json!({ "updateStrategy": { "type": "RollingUpdate" } })).await?;
            w.set_image("StatefulSet", "web", "v2").await?;
            until_updated(&w, 2).await?;
            w.note(w.kubectl(&["rollout", "status", "statefulset/web", "--timeout=5s"]).await?);
        }),
        case!("T16", "old revisions are forgotten", |w| {
            rolled_out(&w, 1, json!({ "revisionHistoryLimit": 1 })).await?;
            for image in ["v2", "v3", "v4"] {
                w.set_image("StatefulSet", "web", image).await?;
                w.until("the new pod", |seen| {
                    seen.get("Pod", "web-0")
                        .is_some_and(|pod| pod["spec"]["containers"][0]["image"] == image && is_ready(&pod))
                })
                .await?;
                until_updated(&w, 1).await?;
            }
            w.until("two revisions", |seen| seen.all("ControllerRevision").len() == 2).await?;
        }),
    ]
}

fn scaled() -> Vec<Case> {
    vec![
        case!("T06", "a pod that is not ready halts scaling", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(set(3, json!({}))).await?;
            w.until("web-0", |seen| seen.get("Pod", "web-0").is_some()).await?;
            w.settle().await?;
            w.check(w.look(|seen| seen.all("Pod").len()) == 1, "only one pod")?;
            w.ready("v1", 1).await?;
            w.until("web-1", |seen| seen.get("Pod", "web-1").is_some()).await?;
            w.ready("v1", 2).await?;
            w.until("web-2", |seen| seen.get("Pod", "web-2").is_some()).await?;
            w.ready("v1", 3).await?;
            until_updated(&w, 3).await?;
            let pod = w.look(|seen| seen.get("Pod", "web-0")).unwrap_or_default();
            w.cluster.kubelet.set_ready(&pod, false).await;
            w.until_object("StatefulSet", "web", "two ready", |set| count(set, "readyReplicas") == 2).await?;
            w.scale("StatefulSet", "web", 1).await?;
            w.settle().await?;
            w.note(format!("{} pods while web-0 is not ready", w.look(|seen| seen.all("Pod").len())));
            let pod = w.look(|seen| seen.get("Pod", "web-0")).unwrap_or_default();
            w.cluster.kubelet.set_ready(&pod, true).await;
            until_updated(&w, 1).await?;
        }),
        case!("T07", "in parallel, all at once", |w| {
            rolled_out(&w, 1, json!({ "podManagementPolicy": "Parallel" })).await?;
            w.fate("v1", Fate::OnCommand);
            w.scale("StatefulSet", "web", 3).await?;
            w.until("three pods", |seen| seen.all("Pod").len() == 3).await?;
            w.ready("v1", 3).await?;
            until_updated(&w, 3).await?;
            w.scale("StatefulSet", "web", 0).await?;
            until_updated(&w, 0).await?;
        }),
        case!("T17", "in order, down one after the other", |w| {
            rolled_out(&w, 3, json!({})).await?;
            w.cluster.kubelet.hold(&w.namespace);
            w.scale("StatefulSet", "web", 1).await?;
            w.until("web-2 going", |seen| is_going(seen, "web-2")).await?;
            w.settle().await?;
            w.check(!w.look(|seen| is_going(seen, "web-1")), "web-1 waits")?;
            w.cluster.kubelet.release(&w.namespace, &w.cluster.observer);
            until_updated(&w, 1).await?;
        }),
        case!("T18", "numbers may begin elsewhere", |w| {
            rolled_out(&w, 2, json!({ "ordinals": { "start": 5 } })).await?;
            w.note(w.look(names));
            w.merge("StatefulSet", "web", json!({ "spec": { "ordinals": { "start": 6 } } })).await?;
            w.until("other numbers", |seen| names(seen) == "web-6 web-7").await?;
            until_updated(&w, 2).await?;
        }),
        case!("T19", "available a while after ready", |w| {
            w.create(set(2, json!({ "minReadySeconds": 2 }))).await?;
            until_updated(&w, 2).await?;
            w.until_object("StatefulSet", "web", "two available", |set| count(set, "availableReplicas") == 2).await?;
        }),
    ]
}

fn claimed() -> Vec<Case> {
    vec![
        case!("T20", "pods have claims of their own, which stay", |w| {
            rolled_out(&w, 2, with_claims(json!({}))).await?;
            w.scale("StatefulSet", "web", 1).await?;
            until_updated(&w, 1).await?;
            w.settle().await?;
            w.check(w.look(|seen| seen.all("PersistentVolumeClaim").len()) == 2, "both claims stay")?;
        }),
        case!("T21", "claims go with the pods that are too many", |w| {
            let policy =
                json!({ "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete", "whenDeleted": "Retain" } });
            rolled_out(&w, 2, with_claims(policy)).await?;
            w.settle().await?;
            w.scale("StatefulSet", "web", 1).await?;
            until_updated(&w, 1).await?;
            w.until("the claim asked to go", |seen| is_claim_leaving(seen, "data-web-1")).await?;
        }),
        case!("T22", "claims go with the set", |w| {
            let policy =
                json!({ "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Retain", "whenDeleted": "Delete" } });
            rolled_out(&w, 1, with_claims(policy)).await?;
            w.settle().await?;
            let claim = w.look(|seen| seen.get("PersistentVolumeClaim", "data-web-0")).unwrap_or_default();
            w.note(claim["metadata"]["ownerReferences"][0]["kind"].to_string());
            w.delete("StatefulSet", "web", Cascade::Background).await?;
            w.until("the claim asked to go", |seen| is_claim_leaving(seen, "data-web-0")).await?;
        }),
        case!("T22b", "both policies at once", |w| {
            let policy =
                json!({ "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete", "whenDeleted": "Delete" } });
            rolled_out(&w, 2, with_claims(policy)).await?;
            w.settle().await?;
            w.scale("StatefulSet", "web", 1).await?;
            until_updated(&w, 1).await?;
            w.until("the claim asked to go", |seen| is_claim_leaving(seen, "data-web-1")).await?;
        }),
    ]
}

fn mended() -> Vec<Case> {
    vec![
        case!("T23", "pods that have ended are made anew", |w| {
            w.steps_may_differ();
            rolled_out(&w, 2, json!({})).await?;
            for (pod, code) in [("web-1", 1), ("web-0", 0)] {
                let there = w.look(|seen| seen.get("Pod", pod)).unwrap_or_default();
                w.cluster.kubelet.exit(&there, code).await;
                // The reference may delete the new one as well, when it has not seen yet that the old one is gone.
                w.until("another pod", |seen| pods_ever(seen, pod) >= 2 && is_up(seen, pod)).await?;
                w.settle().await?;
            }
            until_updated(&w, 2).await?;
        }),
        case!("T24", "a pod that lost its label gets it back", |w| {
            rolled_out(&w, 1, json!({})).await?;
            let labels = json!({ "metadata": { "labels": { "statefulset.kubernetes.io/pod-name": null } } });
            w.merge("Pod", "web-0", labels).await?;
            w.until_object("Pod", "web-0", "its label", |pod| {
                pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-0"
            })
            .await?;
        }),
        case!("T25", "deleted as orphans and made again, pods are adopted", |w| {
            rolled_out(&w, 2, json!({})).await?;
            w.delete("StatefulSet", "web", Cascade::Orphan).await?;
            w.until("no set", |seen| seen.get("StatefulSet", "web").is_none()).await?;
            w.settle().await?;
            rolled_out(&w, 2, json!({})).await?;
            w.check(w.look(|seen| seen.names_ever("Pod").len()) == 2, "the same pods")?;
        }),
        case!("T26", "deleted with its pods", |w| {
            rolled_out(&w, 2, json!({})).await?;
            w.delete("StatefulSet", "web", Cascade::Background).await?;
            w.until("nothing left", |seen| seen.all("Pod").is_empty() && seen.all("ControllerRevision").is_empty())
                .await?;
        }),
    ]
}

/// Returns a StatefulSet `web`.
fn set(replicas: i32, more: Value) -> Value {
    let mut spec = json!({
        "replicas": replicas, "serviceName": "web", "selector": { "matchLabels": { "app": "web" } },
        "template": template("web", "v1"),
    });
    merge(&mut spec, more);
    json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "web" }, "spec": spec })
}

fn with_claims(mut more: Value) -> Value {
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    more["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" }, "spec": spec }]);
    let mount = json!({ "name": "data", "mountPath": "/data" });
    more["template"] = json!({ "spec": { "containers": [{ "name": "app", "image": "v1", "volumeMounts": [mount] }] } });
    more
}

fn rolling(block: Value) -> Value {
    json!({ "spec": { "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": block } } })
}

async fn rolled_out(w: &World, replicas: i32, more: Value) -> Result<()> {
    w.create(set(replicas, more)).await?;
    until_updated(w, i64::from(replicas)).await
}

/// Waits until all pods are there, ready, and of the newest revision.
async fn until_updated(w: &World, wanted: i64) -> Result<()> {
    w.until_object("StatefulSet", "web", "all pods updated", move |set| {
        let all = ["replicas", "readyReplicas", "updatedReplicas", "currentReplicas"];
        let on_delete = set["spec"]["updateStrategy"]["type"] == "OnDelete";
        is_observed(set)
            && all.iter().all(|field| count(set, field) == wanted)
            && (on_delete || set["status"]["currentRevision"] == set["status"]["updateRevision"])
    })
    .await
}

async fn partitioned(w: &World) -> Result<()> {
    rolled_out(w, 3, json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } } }))
        .await?;
    w.set_image("StatefulSet", "web", "v2").await?;
    w.until_object("StatefulSet", "web", "one updated", |set| {
        is_observed(set) && count(set, "updatedReplicas") == 1 && count(set, "readyReplicas") == 3
    })
    .await?;
    w.settle().await
}

/// The last pod is stuck at a revision that never becomes ready; then the template is mended.
async fn broken(w: &World, policy: &str) -> Result<()> {
    rolled_out(w, 3, json!({ "podManagementPolicy": policy })).await?;
    w.fate("v2", Fate::OnCommand);
    w.set_image("StatefulSet", "web", "v2").await?;
    w.until("a broken pod", |seen| of_image(seen, "v2").len() == 1).await?;
    w.settle().await?;
    w.set_image("StatefulSet", "web", "v3").await?;
    w.settle().await
}

fn of_image(seen: &Seen, image: &str) -> Vec<String> {
    let pods = super::super::world::active_pods(seen, Some(image));
    pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn of_sorted(w: &World, image: &str) -> String {
    let mut names = w.look(|seen| of_image(seen, image));
    names.sort();
    names.join(" ")
}

fn names(seen: &Seen) -> String {
    let pods = seen.all("Pod");
    let names: Vec<&str> = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
    names.join(" ")
}

/// Returns the order in which pods with an image came.
fn order(w: &World, image: &str) -> String {
    w.look(|seen| {
        let mut names: Vec<String> = Vec::new();
        for step in seen.history.iter().filter(|step| step.kind == "Pod") {
            if step.object["spec"]["containers"][0]["image"] == image && !names.contains(&step.name) {
                names.push(step.name.clone());
            }
        }
        names.join(" ")
    })
}

fn image(w: &World, pod: &'static str) -> String {
    let pod = w.look(|seen| seen.get("Pod", pod)).unwrap_or_default();
    pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned()
}

/// Returns how many pods of this name there ever were.
fn pods_ever(seen: &Seen, name: &str) -> usize {
    let of_name = seen.history.iter().filter(|step| step.kind == "Pod" && step.name == name);
    of_name.map(|step| step.object["metadata"]["uid"].to_string()).collect::<std::collections::BTreeSet<_>>().len()
}

fn is_up(seen: &Seen, pod: &str) -> bool {
    seen.get("Pod", pod).is_some_and(|pod| is_ready(&pod) && pod["metadata"]["deletionTimestamp"].is_null())
}

fn is_going(seen: &Seen, pod: &str) -> bool {
    seen.get("Pod", pod).is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_string())
}

/// Gone, or asked to go: whether a claim is held as long as a pod uses it is for others to see to.
fn is_claim_leaving(seen: &Seen, claim: &str) -> bool {
    let there = seen.get("PersistentVolumeClaim", claim);
    there.is_none_or(|claim| claim["metadata"]["deletionTimestamp"].is_string())
}
