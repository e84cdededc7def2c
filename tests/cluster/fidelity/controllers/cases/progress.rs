//! G: progress and conditions.

use std::time::Duration;

use serde_json::json;

use super::super::workloads::deployment;
use super::super::world::{Cascade, condition};
use super::super::{Case, Fate, case};
use super::pausing::until_reason;

pub fn cases() -> Vec<Case> {
    [deadlines(), failures()].concat()
}

fn deadlines() -> Vec<Case> {
    vec![
        case!("G01", "never ready: the deadline passes", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(deployment(1, json!({ "progressDeadlineSeconds": 3 }))).await?;
            until_reason(&w, "ProgressDeadlineExceeded").await?;
        }),
        case!("G02", "ready after the deadline: complete after all", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(deployment(1, json!({ "progressDeadlineSeconds": 2 }))).await?;
            until_reason(&w, "ProgressDeadlineExceeded").await?;
            w.ready("v1", 1).await?;
            w.complete().await?;
        }),
        case!("G03", "slow but steady: never timed out", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(deployment(4, json!({ "progressDeadlineSeconds": 4 }))).await?;
            let mut transitions = std::collections::BTreeSet::new();
            for ready in 1..=4 {
                tokio::time::sleep(Duration::from_millis(2000)).await;
                w.ready("v1", ready).await?;
                let web = w.deployment();
                let conditions = web["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let progress = conditions.iter().find(|one| one["type"] == "Progressing").cloned().unwrap_or_default();
                transitions.insert(progress["lastTransitionTime"].to_string());
            }
            w.complete().await?;
            w.check(transitions.len() == 1, "one transition time")?;
        }),
        case!("G04", "scaling a complete one does not touch its progress", |w| {
            w.rolled_out(1, json!({})).await?;
            let before = w.deployment()["status"]["conditions"].clone();
            w.fate("v1", Fate::OnCommand);
            w.scale("Deployment", "web", 3).await?;
            w.until_sizes(&[3]).await?;
            w.settle().await?;
            let progress = |conditions: &serde_json::Value| {
                let all = conditions.as_array().cloned().unwrap_or_default();
                all.into_iter().find(|one| one["type"] == "Progressing")
            };
            w.check(progress(&before) == progress(&w.deployment()["status"]["conditions"]), "untouched")?;
        }),
        case!("G05", "no deadline, no condition", |w| {
            w.rolled_out(1, json!({ "progressDeadlineSeconds": 2_147_483_647 })).await?;
            w.check(condition(&w.deployment(), "Progressing").is_none(), "none")?;
        }),
        case!("G05b", "a deadline taken away takes the condition with it", |w| {
            w.rolled_out(1, json!({})).await?;
            w.merge("Deployment", "web", json!({ "spec": { "progressDeadlineSeconds": 2_147_483_647 } })).await?;
            w.until_object("Deployment", "web", "no condition", |web| condition(web, "Progressing").is_none()).await?;
        }),
        case!("G06", "ready is not available until minReadySeconds have passed", |w| {
            let spec = json!({ "minReadySeconds": 3600, "progressDeadlineSeconds": 7200 });
            w.create(deployment(10, spec)).await?;
            w.until_object("Deployment", "web", "ten ready", |web| web["status"]["readyReplicas"] == 10).await?;
            w.settle().await?;
            let status = w.deployment()["status"].clone();
            w.check(status["availableReplicas"].is_null() && status["unavailableReplicas"] == 10, "none available")?;
            w.merge("Deployment", "web", json!({ "spec": { "minReadySeconds": 1 } })).await?;
            w.complete().await?;
        }),
        case!("G09", "back to a version whose pods can't be made: the old reason stays", |w| {
            w.rolled_out(2, json!({})).await?;
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[0, 2]).await?;
            w.complete().await?;
            w.settle().await?;
            w.create(quota(2)).await?;
            w.until("the quota in force", |seen| {
                seen.get("ResourceQuota", "few").is_some_and(|quota| quota["status"]["used"]["pods"] == "2")
            })
            .await?;
            w.set_image("Deployment", "web", "v1").await?;
            w.until_sizes(&[1, 2]).await?;
            w.settle().await?;
        }),
    ]
}

fn failures() -> Vec<Case> {
    vec![
        case!("G07", "a quota forbids pods, and then not", |w| {
            w.create(quota(0)).await?;
            w.until("the quota in force", |seen| {
                seen.get("ResourceQuota", "few").is_some_and(|quota| quota["status"]["hard"]["pods"] == "0")
            })
            .await?;
            w.create(deployment(3, json!({}))).await?;
            w.until_object("Deployment", "web", "a failure", |web| condition(web, "ReplicaFailure").is_some()).await?;
            w.note(
                w.deployment()["status"]["conditions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|one| one["type"] == "ReplicaFailure")
                    .map(|one| one["reason"].to_string())
                    .unwrap_or_default(),
            );
            w.delete("ResourceQuota", "few", Cascade::Default).await?;
            w.complete().await?;
            w.until_object("Deployment", "web", "no failure", |web| condition(web, "ReplicaFailure").is_none()).await?;
        }),
        case!("G08", "a ReplicaSet that may not be made", |w| {
            let hard = json!({ "hard": { "count/replicasets.apps": "0" } });
            w.create(
                json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few" }, "spec": hard }),
            )
            .await?;
            w.until("the quota in force", |seen| {
                seen.get("ResourceQuota", "few")
                    .is_some_and(|quota| quota["status"]["hard"]["count/replicasets.apps"] == "0")
            })
            .await?;
            w.create(deployment(1, json!({}))).await?;
            until_reason(&w, "ReplicaSetCreateError").await?;
            w.note(w.look(|seen| {
                let conditions = seen.get("Deployment", "web").map(|web| web["status"]["conditions"].clone());
                conditions
                    .and_then(|all| all.as_array()?.first().map(|one| one["message"].to_string()))
                    .is_some()
                    .to_string()
            }));
            w.delete("ResourceQuota", "few", Cascade::Default).await?;
            w.complete().await?;
        }),
        case!("G10", "progress twice for the same reason", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(deployment(3, json!({}))).await?;
            let times = |w: &super::super::world::World| {
                let web = w.deployment();
                let conditions = web["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let of = |kind: &str, field: &str| {
                    let one = conditions.iter().find(|one| one["type"] == kind);
                    one.map(|one| one[field].to_string()).unwrap_or_default()
                };
                let progressed = (of("Progressing", "lastUpdateTime"), of("Progressing", "lastTransitionTime"));
                (progressed, of("Available", "lastUpdateTime"))
            };
            let ready =
                |count: i64| move |web: &serde_json::Value| web["status"]["readyReplicas"].as_i64() == Some(count);
            w.ready("v1", 1).await?;
            w.until_object("Deployment", "web", "one ready", ready(1)).await?;
            let before = times(&w);
            // Times are in whole seconds.
            tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
            w.ready("v1", 2).await?;
            w.until_object("Deployment", "web", "two ready", ready(2)).await?;
            let after = times(&w);
            w.check(before.0.0 != after.0.0, "progress has a new time")?;
            w.check(before.0.1 == after.0.1, "but no new transition")?;
            w.check(before.1 == after.1, "availability has none")?;
        }),
        case!("G11", "all pods deleted at once are replaced", |w| {
            w.rolled_out(10, json!({})).await?;
            let path = w.path("Pod");
            w.fate("v1", Fate::OnCommand);
            w.send("DELETE", &path, "application/json", &serde_json::Value::Null).await?;
            w.until("twenty pods in all", |seen| seen.names_ever("Pod").len() == 20).await?;
            w.until_object("Deployment", "web", "unavailability", |web| {
                condition(web, "Available").is_some_and(|(value, _)| value == "False")
            })
            .await?;
            w.ready("v1", 10).await?;
            w.complete().await?;
            w.check(w.revision() == "1", "revision 1")?;
        }),
    ]
}

pub fn quota(pods: usize) -> serde_json::Value {
    let hard = json!({ "hard": { "pods": pods.to_string() } });
    json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few" }, "spec": hard })
}
