//! B: disruption budgets and evictions; Q: quotas and limits.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::workloads::{deployment, replicas};
use super::super::world::World;
use super::super::{Case, Fate, case};

pub fn cases() -> Vec<Case> {
    [budgets(), quotas()].concat()
}

fn budgets() -> Vec<Case> {
    vec![
        case!("B01", "a budget counts, and lets as many go as it may", |w| {
            w.rolled_out(3, json!({})).await?;
            w.create(budget(json!({ "minAvailable": 2 }))).await?;
            allows(&w, 1).await?;
            w.fate("v1", Fate::OnCommand);
            let pods = w.pods("v1");
            evict(&w, &pods[0]).await?;
            allows(&w, 0).await?;
            w.settle().await?;
            evict(&w, &pods[1]).await?;
            w.ready("v1", 3).await?;
            allows(&w, 1).await?;
        }),
        case!("B02", "at most so many unavailable, of what the Deployment should have", |w| {
            w.rolled_out(4, json!({})).await?;
            w.create(budget(json!({ "maxUnavailable": "30%" }))).await?;
            allows(&w, 2).await?;
            w.fate("v1", Fate::OnCommand);
            w.scale("Deployment", "web", 6).await?;
            allows(&w, 0).await?;
        }),
        case!("B03", "a share of what there should be", |w| {
            w.create(replicas("ReplicaSet", "web", 3, json!({}))).await?;
            w.until("three pods", |seen| seen.all("Pod").len() == 3).await?;
            w.settle().await?;
            w.create(budget(json!({ "minAvailable": "50%" }))).await?;
            allows(&w, 1).await?;
        }),
        case!("B04", "no pods at all", |w| {
            w.create(budget(json!({ "minAvailable": 1 }))).await?;
            allows(&w, 0).await?;
        }),
        case!("B05", "pods that nobody controls", |w| {
            w.create(json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "lone", "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "app", "image": "v1" }] },
            }))
            .await?;
            w.until("a ready pod", |seen| seen.all("Pod").iter().any(|pod| super::super::world::is_ready(pod))).await?;
            w.create(budget(json!({ "minAvailable": 1 }))).await?;
            w.until_object("PodDisruptionBudget", "web", "one healthy", |budget| {
                budget["status"]["currentHealthy"] == 1
            })
            .await?;
            let pod = w.pods("v1")[0].clone();
            evict(&w, &pod).await?;
            w.merge("PodDisruptionBudget", "web", json!({ "spec": { "minAvailable": 0 } })).await?;
            allows(&w, 1).await?;
            evict(&w, &pod).await?;
            w.until("no pod", |seen| seen.all("Pod").is_empty()).await?;
        }),
    ]
}

fn quotas() -> Vec<Case> {
    vec![
        case!("Q01", "what pods ask for is counted, and given back", |w| {
            let hard = json!({ "pods": "4", "requests.cpu": "1", "limits.memory": "1Gi", "count/configmaps": "3" });
            w.create(quota(hard)).await?;
            used(&w, "pods", "0").await?;
            let resources = json!({ "requests": { "cpu": "300m" }, "limits": { "memory": "128Mi" } });
            let container = json!({ "name": "app", "image": "v1", "resources": resources });
            let more = json!({ "template": { "spec": { "containers": [container] } } });
            w.create(replicas("ReplicaSet", "web", 2, more)).await?;
            used(&w, "requests.cpu", "600m").await?;
            used(&w, "limits.memory", "256Mi").await?;
            w.until("two pods", |seen| seen.all("Pod").len() == 2).await?;
            w.scale("ReplicaSet", "web", 1).await?;
            used(&w, "pods", "1").await?;
            used(&w, "requests.cpu", "300m").await?;
        }),
        case!("Q02", "what a quota limits must be asked for", |w| {
            w.create(quota(json!({ "limits.cpu": "1" }))).await?;
            used(&w, "limits.cpu", "0").await?;
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "lone" },
                "spec": { "containers": [{ "name": "app", "image": "v1" }] },
            });
            w.note_answer("POST", &w.path("Pod"), "application/json", pod).await?;
        }),
        case!("Q03", "limits fill in what is not asked for, and refuse too much", |w| {
            let limits = json!([{ "type": "Container", "default": { "cpu": "200m" }, "defaultRequest": { "cpu": "100m" },
                "max": { "cpu": "500m" } }]);
            w.create(json!({
                "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "limits" }, "spec": { "limits": limits },
            }))
            .await?;
            let pod = |resources: Value| {
                json!({
                    "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "lone" },
                    "spec": { "containers": [{ "name": "app", "image": "v1", "resources": resources }] },
                })
            };
            let path = format!("{}?dryRun=All", w.path("Pod"));
            let made = until_made(&w, &path, &pod(json!({}))).await?;
            w.note(made["spec"]["containers"][0]["resources"].to_string());
            w.note_answer("POST", &path, "application/json", pod(json!({ "limits": { "cpu": "1" } }))).await?;
        }),
        case!("Q04", "an autoscaler is stored and served", |w| {
            w.create(deployment(0, json!({}))).await?;
            let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
            let made = w
                .create(json!({
                    "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
                    "spec": { "scaleTargetRef": target, "maxReplicas": 3 },
                }))
                .await?;
            w.note(made["spec"].to_string());
            let path = format!("/apis/autoscaling/v1/namespaces/{}/horizontalpodautoscalers/web", w.namespace);
            w.note(w.answer("GET", &path, "application/json", &Value::Null).await?.1["spec"].to_string());
        }),
    ]
}

/// A new limit takes a moment to be known to the reference.
async fn until_made(w: &World, path: &str, pod: &Value) -> Result<Value> {
    for _ in 0..40 {
        let made = w.send("POST", path, "application/json", pod).await?;
        if !made["spec"]["containers"][0]["resources"]["limits"].is_null() {
            return Ok(made);
        }
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    }
    anyhow::bail!("the limits never took effect")
}

fn budget(more: Value) -> Value {
    let mut spec = json!({ "selector": { "matchLabels": { "app": "web" } } });
    super::super::workloads::merge(&mut spec, more);
    json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" }, "spec": spec })
}

async fn allows(w: &World, wanted: i64) -> Result<()> {
    w.until_object("PodDisruptionBudget", "web", &format!("{wanted} allowed"), move |budget| {
        super::super::world::is_observed(budget) && budget["status"]["disruptionsAllowed"] == wanted
    })
    .await
}

/// Asks for an eviction, and notes the answer.
async fn evict(w: &World, pod: &Value) -> Result<()> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let body = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } });
    let path = format!("{}/{name}/eviction", w.path("Pod"));
    let answer = w.answer("POST", &path, "application/json", &body).await?;
    w.note(format!("{} {} {}", answer.0, answer.1["message"], answer.1["details"]["causes"]));
    Ok(())
}

fn quota(hard: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few" }, "spec": { "hard": hard } })
}

async fn used(w: &World, name: &str, amount: &str) -> Result<()> {
    let (name, amount) = (name.to_owned(), amount.to_owned());
    w.until_object("ResourceQuota", "few", &format!("{amount} {name} used"), move |quota| {
        quota["status"]["used"][&name] == amount
    })
    .await
}
