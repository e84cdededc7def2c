//! V: what the API server refuses and fills in.

use serde_json::{Value, json};

use super::super::workloads::deployment;
use super::super::world::World;
use super::super::{Case, case};

pub fn cases() -> Vec<Case> {
    [refused(), accepted()].concat()
}

fn refused() -> Vec<Case> {
    vec![
        case!("V01", "a selector can't be changed", |w| {
            w.rolled_out(1, json!({})).await?;
            let labels = json!({ "matchLabels": { "app": "other" } });
            let spec = json!({ "selector": labels, "template": { "metadata": { "labels": { "app": "other" } } } });
            w.note_answer("PATCH", "deployments/web", MERGE, json!({ "spec": spec })).await?;
        }),
        case!("V02", "a selector must fit the template", |w| {
            let more = json!({ "selector": { "matchLabels": { "app": "other" } } });
            refused_deployment(&w, deployment(1, more)).await?;
            let mut none = deployment(1, json!({}));
            none["spec"]["selector"] = json!({});
            refused_deployment(&w, none).await?;
        }),
        case!("V03", "no surge and none unavailable", |w| {
            for (surge, unavailable) in [(json!(0), json!(0)), (json!("0%"), json!("0%")), (json!(0), json!("0%"))] {
                refused_deployment(&w, strategy(surge, unavailable)).await?;
            }
        }),
        case!("V04", "percentages", |w| {
            for (surge, unavailable) in
                [(json!("150%"), json!("101%")), (json!("x"), json!("-1%")), (json!(-1), json!("5"))]
            {
                refused_deployment(&w, strategy(surge, unavailable)).await?;
            }
            w.note_answer("POST", "deployments?dryRun=All", JSON, strategy(json!("150%"), json!("100%"))).await?;
        }),
        case!("V05", "the deadline must be longer than the wait", |w| {
            refused_deployment(&w, deployment(1, json!({ "minReadySeconds": 600, "progressDeadlineSeconds": 600 })))
                .await?;
        }),
        case!("V06", "recreating has no fence posts", |w| {
            let strategy = json!({ "type": "Recreate", "rollingUpdate": { "maxSurge": 1 } });
            refused_deployment(&w, deployment(1, json!({ "strategy": strategy }))).await?;
        }),
        case!("V09", "several causes at once", |w| {
            refused_deployment(&w, deployment(-1, json!({ "strategy": { "type": "Sometimes" } }))).await?;
            let spec = json!({ "restartPolicy": "Never", "activeDeadlineSeconds": 5 });
            let limits = json!({ "minReadySeconds": -1, "revisionHistoryLimit": -1, "template": { "spec": spec } });
            refused_deployment(&w, deployment(1, limits)).await?;
        }),
        case!("V10", "what StatefulSets and DaemonSets refuse", |w| {
            let template = super::super::workloads::template("web", "v1");
            let selector = json!({ "matchLabels": { "app": "web" } });
            let set = |kind: &str, more: Value| {
                let mut spec = json!({ "selector": selector, "template": template });
                super::super::workloads::merge(&mut spec, more);
                json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "web" }, "spec": spec })
            };
            for (surge, unavailable) in [(json!(0), json!(0)), (json!(1), json!(1)), (json!("0%"), json!("101%"))] {
                let block = json!({ "maxSurge": surge, "maxUnavailable": unavailable });
                let daemon =
                    set("DaemonSet", json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": block } }));
                w.note_answer("POST", "daemonsets?dryRun=All", JSON, daemon).await?;
            }
            let block = json!({ "maxUnavailable": 0, "partition": -1 });
            let stateful =
                set("StatefulSet", json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": block } }));
            w.note_answer("POST", "statefulsets?dryRun=All", JSON, stateful).await?;
            w.create(set("StatefulSet", json!({ "serviceName": "web", "replicas": 0 }))).await?;
            w.note_answer("PATCH", "statefulsets/web", MERGE, json!({ "spec": { "serviceName": "other" } })).await?;
        }),
    ]
}

fn accepted() -> Vec<Case> {
    vec![
        case!("V07", "what is left out is filled in", |w| {
            let mut web = deployment(0, json!({}));
            if let Some(spec) = web["spec"].as_object_mut() {
                spec.remove("replicas");
            }
            let made = w.send("POST", &format!("{}?dryRun=All", w.path("Deployment")), JSON, &web).await?;
            w.note(made["spec"].to_string());
        }),
        case!("V08", "a status write changes the status only, and is put right", |w| {
            w.rolled_out(1, json!({})).await?;
            let patch = json!({ "metadata": { "labels": { "new": "label" } }, "status": { "readyReplicas": 0, "availableReplicas": 0 } });
            w.merge_status("Deployment", "web", patch).await?;
            w.until_object("Deployment", "web", "its ready pod", |web| web["status"]["readyReplicas"] == 1).await?;
            w.check(w.deployment()["metadata"]["labels"].is_null(), "labels unchanged")?;
        }),
    ]
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

fn strategy(surge: Value, unavailable: Value) -> Value {
    deployment(1, super::super::workloads::rolling(surge, unavailable))
}

async fn refused_deployment(w: &World, object: Value) -> anyhow::Result<()> {
    w.note_answer("POST", "deployments", JSON, object).await
}
