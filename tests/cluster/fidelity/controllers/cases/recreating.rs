//! C: recreating.

use serde_json::{Value, json};

use super::super::bounds::were_together;
use super::super::workloads::{deployment, is_observed};
use super::super::world::condition;
use super::super::{Case, Fate, case};
use super::creation::{name_of, set};

fn recreate() -> Value {
    json!({ "strategy": { "type": "Recreate" } })
}

pub fn cases() -> Vec<Case> {
    vec![
        case!("C01", "old and new pods are never there together", |w| {
            w.rolled_out(1, recreate()).await?;
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[0, 1]).await?;
            w.complete().await?;
            w.check(!w.look(|seen| were_together(seen, "v1", "v2")), "never together")?;
        }),
        case!("C02", "an old pod of unknown fate blocks", |w| {
            w.rolled_out(1, recreate()).await?;
            w.cluster.kubelet.hold(&w.namespace);
            let pod = w.pods("v1")[0].clone();
            w.cluster.kubelet.set_phase(&pod, "Unknown").await;
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[0]).await?;
            w.settle().await?;
            w.check(w.sizes() == [0], "blocked")?;
            w.cluster.kubelet.release(&w.namespace, &w.cluster.observer);
            w.complete().await?;
        }),
        case!("C03", "old pods that have ended do not block", |w| {
            w.rolled_out(1, recreate()).await?;
            let pod = w.pods("v1")[0].clone();
            w.cluster.kubelet.exit(&pod, 1).await;
            w.until("a replacement", |seen| seen.all("Pod").len() == 2).await?;
            w.complete().await?;
            w.settle().await?;
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[0, 1]).await?;
            w.complete().await?;
        }),
        case!("C04", "an old ReplicaSet that still tells of pods blocks", on DeploymentsAlone, |w| {
            w.create(deployment(1, recreate())).await?;
            w.until_sizes(&[1]).await?;
            let old = name_of(&set(&w, 0));
            let status = json!({ "status": { "replicas": 1, "observedGeneration": 1 } });
            w.merge_status("ReplicaSet", &old, status).await?;
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[0]).await?;
            w.settle().await?;
            w.check(w.sizes() == [0] && w.pods("v1").is_empty(), "blocked, though there are no pods")?;
            w.merge_status("ReplicaSet", &old, json!({ "status": { "replicas": 0 } })).await?;
            w.until_sizes(&[0, 1]).await?;
        }),
        case!("C05", "not available in the gap", |w| {
            w.steps_may_differ();
            w.rolled_out(3, recreate()).await?;
            w.cluster.kubelet.hold(&w.namespace);
            w.set_image("Deployment", "web", "v2").await?;
            w.until_object("Deployment", "web", "a gap", |web| {
                condition(web, "Available").is_some_and(|(value, _)| value == "False")
            })
            .await?;
            w.settle().await?;
            w.note(w.deployment()["status"]["terminatingReplicas"].to_string());
            w.cluster.kubelet.release(&w.namespace, &w.cluster.observer);
            w.complete().await?;
        }),
        case!("C06", "scaling and other changes are observed", |w| {
            w.rolled_out(1, recreate()).await?;
            w.scale("Deployment", "web", 3).await?;
            w.complete().await?;
            w.scale("Deployment", "web", 0).await?;
            w.complete().await?;
            w.merge("Deployment", "web", json!({ "spec": { "revisionHistoryLimit": 3 } })).await?;
            w.until_object("Deployment", "web", "the change observed", is_observed).await?;
        }),
        case!("C07", "scaled in the middle of recreating", |w| {
            w.steps_may_differ();
            w.rolled_out(2, recreate()).await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[0, 2]).await?;
            w.scale("Deployment", "web", 4).await?;
            w.until_sizes(&[0, 4]).await?;
            w.ready("v2", 4).await?;
            w.complete().await?;
        }),
    ]
}
