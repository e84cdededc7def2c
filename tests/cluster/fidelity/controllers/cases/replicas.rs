//! X: ReplicaSets and ReplicationControllers.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::workloads::{count, deployment, is_observed, replicas, template};
use super::super::world::{Cascade, World, active_pods, condition};
use super::super::{Case, Fate, case};
use super::progress::quota;

pub fn cases() -> Vec<Case> {
    [owning(), shrinking(), counting(), controllers()].concat()
}

fn owning() -> Vec<Case> {
    vec![
        case!("X01", "orphans are adopted, only the difference is made", |w| {
            for number in 1..=2 {
                w.create(pod(&format!("orphan-{number}"), "web")).await?;
            }
            w.until("two ready pods", |seen| active_pods(seen, None).len() == 2).await?;
            w.settle().await?;
            w.create(replicas("ReplicaSet", "web", 3, json!({}))).await?;
            ready(&w, "ReplicaSet", 3).await?;
            w.check(w.look(|seen| seen.names_ever("Pod").len()) == 3, "one pod made")?;
        }),
        case!("X02", "a pod whose label changes is released and replaced", |w| {
            w.create(replicas("ReplicaSet", "web", 2, json!({}))).await?;
            ready(&w, "ReplicaSet", 2).await?;
            let pod = w.pods("v1")[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            w.merge("Pod", &pod, json!({ "metadata": { "labels": { "app": "free" } } })).await?;
            w.until_object("Pod", &pod, "no owner", |pod| pod["metadata"]["ownerReferences"].is_null()).await?;
            w.until("a replacement", |seen| seen.all("Pod").len() == 3).await?;
            ready(&w, "ReplicaSet", 2).await?;
        }),
        case!("X03", "pods that go or have failed do not count", |w| {
            w.create(replicas("ReplicaSet", "web", 2, json!({}))).await?;
            ready(&w, "ReplicaSet", 2).await?;
            w.cluster.kubelet.hold(&w.namespace);
            let pods = w.pods("v1");
            w.delete("Pod", &name(&pods[0]), Cascade::Default).await?;
            w.cluster.kubelet.exit(&pods[1], 1).await;
            w.until("two new ones", |seen| seen.names_ever("Pod").len() == 4).await?;
            ready(&w, "ReplicaSet", 2).await?;
            w.settle().await?;
            w.cluster.kubelet.release(&w.namespace, &w.cluster.observer);
            w.until("three in all", |seen| seen.all("Pod").len() == 3).await?;
        }),
        case!("X12", "deleted with its pods", |w| {
            w.create(replicas("ReplicaSet", "web", 2, json!({}))).await?;
            ready(&w, "ReplicaSet", 2).await?;
            w.delete("ReplicaSet", "web", Cascade::Default).await?;
            w.until("nothing left", |seen| seen.all("Pod").is_empty()).await?;
        }),
        case!("X13", "an owner that is going away does not adopt", |w| {
            let mut set = replicas("ReplicaSet", "web", 1, json!({}));
            set["metadata"]["finalizers"] = json!(["test.example.com/hold"]);
            w.create(set).await?;
            ready(&w, "ReplicaSet", 1).await?;
            w.delete("ReplicaSet", "web", Cascade::Background).await?;
            w.until_object("ReplicaSet", "web", "a deletion", |set| set["metadata"]["deletionTimestamp"].is_string())
                .await?;
            w.create(pod("orphan", "web")).await?;
            w.settle().await?;
            let orphan = w.look(|seen| seen.get("Pod", "orphan")).unwrap_or_default();
            w.check(orphan["metadata"]["ownerReferences"].is_null(), "not adopted")?;
        }),
    ]
}

fn shrinking() -> Vec<Case> {
    vec![
        case!("X04", "the worse off go first", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(replicas("ReplicaSet", "web", 4, json!({}))).await?;
            w.ready("v1", 4).await?;
            w.until_object("ReplicaSet", "web", "4 ready", |set| count(set, "readyReplicas") == 4).await?;
            let pods = w.pods("v1");
            w.cluster.kubelet.set_ready(&pods[1], false).await;
            w.cluster.kubelet.set_phase(&pods[2], "Pending").await;
            w.fate("v1", Fate::Unbound);
            w.scale("ReplicaSet", "web", 5).await?;
            w.until("five pods", |seen| active_pods(seen, None).len() == 5).await?;
            w.until_object("ReplicaSet", "web", "two ready", |set| count(set, "readyReplicas") == 2).await?;
            w.settle().await?;
            w.scale("ReplicaSet", "web", 2).await?;
            w.until("two pods", |seen| active_pods(seen, None).len() == 2).await?;
            let left: Vec<String> = w.pods("v1").iter().map(name).collect();
            w.check(left == [name(&pods[0]), name(&pods[3])], "the two that are ready stay")?;
        }),
        case!("X05", "one that shares its node goes first", |w| {
            // Only under a Deployment: the reference does not look at nodes for a ReplicaSet that nobody owns.
            w.fate("v1", Fate::Unbound);
            w.create(deployment(3, json!({}))).await?;
            w.until("three pods", |seen| active_pods(seen, None).len() == 3).await?;
            let pods = w.pods("v1");
            for (pod, node) in pods.iter().zip(["left", "right", "right"]) {
                w.cluster.kubelet.bind_to(pod, node).await?;
                w.cluster.kubelet.set_ready(pod, true).await;
            }
            w.complete().await?;
            w.settle().await?;
            w.scale("Deployment", "web", 2).await?;
            w.until("two pods", |seen| active_pods(seen, None).len() == 2).await?;
            w.check(w.pods("v1").iter().any(|pod| name(pod) == name(&pods[0])), "the lonely one stays")?;
        }),
        case!("X06", "one that costs little goes first", |w| {
            w.create(replicas("ReplicaSet", "web", 3, json!({}))).await?;
            ready(&w, "ReplicaSet", 3).await?;
            let pods = w.pods("v1");
            let cost = json!({ "controller.kubernetes.io/pod-deletion-cost": "-10" });
            w.merge("Pod", &name(&pods[1]), json!({ "metadata": { "annotations": cost } })).await?;
            w.settle().await?;
            w.scale("ReplicaSet", "web", 2).await?;
            w.until("two pods", |seen| active_pods(seen, None).len() == 2).await?;
            w.check(!w.pods("v1").iter().any(|pod| name(pod) == name(&pods[1])), "the cheap one went")?;
        }),
        case!("X07", "what can't be made is told, and tried again", |w| {
            w.create(quota(2)).await?;
            w.until("the quota in force", |seen| {
                seen.get("ResourceQuota", "few").is_some_and(|quota| quota["status"]["hard"]["pods"] == "2")
            })
            .await?;
            w.create(replicas("ReplicaSet", "web", 5, json!({}))).await?;
            w.until_object("ReplicaSet", "web", "a failure", |set| condition(set, "ReplicaFailure").is_some()).await?;
            ready(&w, "ReplicaSet", 2).await?;
            w.delete("ResourceQuota", "few", Cascade::Default).await?;
            ready(&w, "ReplicaSet", 5).await?;
            w.until_object("ReplicaSet", "web", "no failure", |set| condition(set, "ReplicaFailure").is_none()).await?;
        }),
    ]
}

fn counting() -> Vec<Case> {
    vec![
        case!("X08", "pods without all labels of the template are counted apart", |w| {
            w.create(replicas("ReplicaSet", "web", 2, json!({}))).await?;
            ready(&w, "ReplicaSet", 2).await?;
            let labels = json!({ "spec": { "template": { "metadata": { "labels": { "more": "x" } } } } });
            w.merge("ReplicaSet", "web", labels).await?;
            w.until_object("ReplicaSet", "web", "none fully labeled", |set| count(set, "fullyLabeledReplicas") == 0)
                .await?;
        }),
        case!("X09", "available a while after ready", |w| {
            w.create(replicas("ReplicaSet", "web", 2, json!({ "minReadySeconds": 3 }))).await?;
            w.until_object("ReplicaSet", "web", "two ready", |set| count(set, "readyReplicas") == 2).await?;
            w.check(count(&w.get("ReplicaSet", "web").await?, "availableReplicas") == 0, "none available yet")?;
            w.until_object("ReplicaSet", "web", "two available", |set| count(set, "availableReplicas") == 2).await?;
        }),
        case!("X14", "scaled to nothing and back", |w| {
            w.create(replicas("ReplicaSet", "web", 2, json!({}))).await?;
            ready(&w, "ReplicaSet", 2).await?;
            w.scale("ReplicaSet", "web", 0).await?;
            ready(&w, "ReplicaSet", 0).await?;
            w.until("no pods", |seen| seen.all("Pod").is_empty()).await?;
            w.scale("ReplicaSet", "web", 1).await?;
            ready(&w, "ReplicaSet", 1).await?;
        }),
    ]
}

fn controllers() -> Vec<Case> {
    vec![
        case!("X10", "a ReplicationController deleted without a word leaves its pods", |w| {
            w.create(replicas("ReplicationController", "web", 2, json!({}))).await?;
            ready(&w, "ReplicationController", 2).await?;
            w.delete("ReplicationController", "web", Cascade::Default).await?;
            w.until("orphans", |seen| {
                let pods = seen.all("Pod");
                seen.get("ReplicationController", "web").is_none()
                    && pods.len() == 2
                    && pods.iter().all(|pod| pod["metadata"]["ownerReferences"].is_null())
            })
            .await?;
        }),
        case!("X11", "a ReplicationController deleted in the foreground goes last", |w| {
            w.create(replicas("ReplicationController", "web", 2, json!({}))).await?;
            ready(&w, "ReplicationController", 2).await?;
            w.cluster.kubelet.hold(&w.namespace);
            w.delete("ReplicationController", "web", Cascade::Foreground).await?;
            w.until("pods going away", |seen| {
                seen.all("Pod").iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_string())
            })
            .await?;
            w.settle().await?;
            w.check(w.look(|seen| seen.get("ReplicationController", "web").is_some()), "it waits")?;
            w.cluster.kubelet.release(&w.namespace, &w.cluster.observer);
            w.until("nothing left", |seen| seen.get("ReplicationController", "web").is_none()).await?;
        }),
        case!("X15", "a ReplicationController scales, replaces and adopts", |w| {
            // Another pod may or may not be made before the orphan is adopted.
            w.steps_may_differ();
            w.create(pod("orphan", "web")).await?;
            w.until("the orphan", |seen| active_pods(seen, None).iter().any(|pod| super::super::world::is_ready(pod)))
                .await?;
            w.settle().await?;
            w.create(replicas("ReplicationController", "web", 2, json!({}))).await?;
            ready(&w, "ReplicationController", 2).await?;
            w.scale("ReplicationController", "web", 3).await?;
            ready(&w, "ReplicationController", 3).await?;
            w.delete("Pod", "orphan", Cascade::Default).await?;
            w.until("a replacement", |seen| seen.names_ever("Pod").len() == 4).await?;
            ready(&w, "ReplicationController", 3).await?;
            w.scale("ReplicationController", "web", 0).await?;
            ready(&w, "ReplicationController", 0).await?;
        }),
    ]
}

fn pod(name: &str, app: &str) -> Value {
    let mut pod = template(app, "v1");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod
}

fn name(pod: &Arc<Value>) -> String {
    pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Waits until so many pods are available, and no others are there.
async fn ready(w: &World, kind: &'static str, wanted: i64) -> Result<()> {
    w.until_object(kind, "web", "so many available", move |object| {
        let all = if wanted == 2 && object["spec"]["replicas"] == 5 { "readyReplicas" } else { "availableReplicas" };
        is_observed(object) && count(object, "replicas") == wanted && count(object, all) == wanted
    })
    .await
}
