//! E: where the pods of Services are.

use serde_json::{Value, json};

use super::super::world::World;
use super::super::{Case, Fate, case};

pub fn cases() -> Vec<Case> {
    vec![
        case!("E01", "ready pods and others", |w| {
            w.create(service(json!({}))).await?;
            told(&w, 0, 0).await?;
            w.rolled_out(2, json!({})).await?;
            told(&w, 2, 0).await?;
            w.fate("v1", Fate::OnCommand);
            w.scale("Deployment", "web", 3).await?;
            told(&w, 2, 1).await?;
            w.scale("Deployment", "web", 1).await?;
            told(&w, 1, 0).await?;
        }),
        case!("E02", "a headless Service that tells of pods before they are ready", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(service(json!({ "clusterIP": "None", "publishNotReadyAddresses": true }))).await?;
            w.create(super::super::workloads::deployment(1, json!({}))).await?;
            told(&w, 1, 0).await?;
        }),
        case!("E03", "a port by its name", |w| {
            let container =
                json!({ "name": "app", "image": "v1", "ports": [{ "name": "http", "containerPort": 8080 }] });
            w.rolled_out(1, json!({ "template": { "spec": { "containers": [container] } } })).await?;
            let ports = json!([
                { "name": "web", "port": 80, "targetPort": "http", "appProtocol": "http" },
                { "name": "none", "port": 81, "targetPort": "nowhere" },
            ]);
            w.create(service(json!({ "ports": ports }))).await?;
            told(&w, 1, 0).await?;
        }),
    ]
}

fn service(more: Value) -> Value {
    let mut spec = json!({ "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": 8080 }] });
    super::super::workloads::merge(&mut spec, more);
    let metadata = json!({ "name": "web", "labels": { "tier": "front" } });
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec })
}

/// Waits until both forms tell of so many pods.
async fn told(w: &World, ready: usize, others: usize) -> anyhow::Result<()> {
    let count = |list: &Value| list.as_array().map_or(0, Vec::len);
    w.until(&format!("slices with {ready} ready, {others} not"), move |seen| {
        let slices = seen.all("EndpointSlice");
        let endpoints: Vec<Value> =
            slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default()).collect();
        let of = |wanted: bool| endpoints.iter().filter(|one| one["conditions"]["ready"] == wanted).count();
        !slices.is_empty() && of(true) == ready && of(false) == others
    })
    .await?;
    w.until(&format!("endpoints with {ready} ready, {others} not"), move |seen| {
        seen.get("Endpoints", "web").is_some_and(|web| {
            let subsets = web["subsets"].as_array().cloned().unwrap_or_default();
            let of = |field: &str| subsets.iter().map(|subset| count(&subset[field])).sum::<usize>();
            of("addresses") == ready && of("notReadyAddresses") == others
        })
    })
    .await?;
    w.settle().await
}
