//! P: pausing and resuming.

use anyhow::Result;
use serde_json::json;

use super::super::workloads::{deployment, is_observed, replicas};
use super::super::world::{World, condition};
use super::super::{Case, Fate, case};
use super::rolling::stuck;

pub fn cases() -> Vec<Case> {
    vec![
        case!("P01", "made paused: no ReplicaSet", |w| {
            w.create(deployment(1, json!({ "paused": true }))).await?;
            until_reason(&w, "DeploymentPaused").await?;
            w.settle().await?;
            w.check(w.sizes().is_empty(), "no ReplicaSet")?;
            w.check(is_observed(&w.deployment()), "observed")?;
        }),
        case!("P02", "resumed: it rolls out", |w| {
            w.create(deployment(1, json!({ "paused": true }))).await?;
            until_reason(&w, "DeploymentPaused").await?;
            w.settle().await?;
            pause(&w, false).await?;
            w.complete().await?;
        }),
        case!("P03", "changed while paused: nothing happens", |w| {
            w.rolled_out(1, json!({})).await?;
            pause(&w, true).await?;
            until_reason(&w, "DeploymentPaused").await?;
            w.set_image("Deployment", "web", "v2").await?;
            w.until_object("Deployment", "web", "the change observed", is_observed).await?;
            w.settle().await?;
            w.check(w.sizes() == [1], "no new ReplicaSet")?;
        }),
        case!("P04", "paused in the middle: sizes stay, pods are replaced", |w| {
            stuck(&w).await?;
            pause(&w, true).await?;
            until_reason(&w, "DeploymentPaused").await?;
            let pod = w.pods("v1")[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            w.delete("Pod", &pod, super::super::world::Cascade::Default).await?;
            w.until("a replacement", |seen| seen.names_ever("Pod").len() == 16).await?;
            w.settle().await?;
            w.check(w.sizes() == [8, 5], "the sizes stay")?;
        }),
        case!("P05", "paused for longer than the deadline: not timed out", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(deployment(1, json!({ "progressDeadlineSeconds": 3 }))).await?;
            until_reason(&w, "ReplicaSetUpdated").await?;
            pause(&w, true).await?;
            until_reason(&w, "DeploymentPaused").await?;
            tokio::time::sleep(std::time::Duration::from_secs(5)).await;
            pause(&w, false).await?;
            until_reason(&w, "DeploymentResumed").await?;
            w.ready("v1", 1).await?;
            w.complete().await?;
            let timed_out = w.look(|seen| {
                seen.history.iter().any(|step| {
                    step.kind == "Deployment"
                        && condition(&step.object, "Progressing")
                            .is_some_and(|(_, reason)| reason == "ProgressDeadlineExceeded")
                })
            });
            w.check(!timed_out, "never timed out")?;
        }),
        case!("P06", "timed out, then paused: it stays so", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(deployment(1, json!({ "progressDeadlineSeconds": 2 }))).await?;
            until_reason(&w, "ProgressDeadlineExceeded").await?;
            pause(&w, true).await?;
            w.until_object("Deployment", "web", "the pause observed", is_observed).await?;
            w.settle().await?;
            until_reason(&w, "ProgressDeadlineExceeded").await?;
        }),
        case!("P07", "history is cleaned up while paused", |w| {
            for number in 1..=5 {
                let mut old = replicas("ReplicaSet", "web", 0, json!({}));
                old["metadata"] = json!({
                    "name": format!("old-{number}"), "labels": { "app": "web" },
                    "annotations": { "deployment.kubernetes.io/revision": number.to_string() },
                });
                old["spec"]["template"]["spec"]["containers"][0]["image"] = json!(format!("old{number}"));
                w.create(old).await?;
            }
            w.until("all observed", |seen| seen.all("ReplicaSet").iter().all(|set| is_observed(set))).await?;
            w.create(deployment(0, json!({ "paused": true, "revisionHistoryLimit": 3 }))).await?;
            w.until("three left", |seen| seen.all("ReplicaSet").len() == 3).await?;
        }),
    ]
}

pub async fn pause(w: &World, paused: bool) -> Result<()> {
    w.merge("Deployment", "web", json!({ "spec": { "paused": paused } })).await.map(drop)
}

/// Waits until the Deployment's progress has this reason.
pub async fn until_reason(w: &World, reason: &'static str) -> Result<()> {
    w.until_object("Deployment", "web", reason, |web| {
        condition(web, "Progressing").is_some_and(|(_, present)| present == reason)
    })
    .await
}
