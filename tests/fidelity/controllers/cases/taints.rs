//! N: nodes that drive pods off.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::observer::Seen;
use super::super::world::World;
use super::super::{Case, case};

pub fn cases() -> Vec<Case> {
    vec![
        case!("N01", "a taint drives off who does not bear it, and later who bears it for a while", on DeploymentsAlone, |w| {
            let node = format!("{}-1", w.namespace);
            w.cluster.kubelet.make_node(&node, json!({})).await?;
            let bears = |seconds: Value| json!([{ "key": "mine", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds }]);
            for (name, tolerations) in [
                ("plain", json!([])),
                ("patient", bears(json!(6))),
                ("calm", bears(json!(600))),
                ("steady", bears(Value::Null)),
                ("other", json!([{ "key": "others", "operator": "Exists" }])),
            ] {
                pod(&w, name, &node, tolerations).await?;
            }
            w.until("five pods", |seen| running(seen).len() == 5).await?;
            taint(&w, &node, json!([{ "key": "mine", "value": "yes", "effect": "NoSchedule" }])).await?;
            w.settle().await?;
            w.note(names(&w));
            taint(&w, &node, json!([{ "key": "mine", "value": "yes", "effect": "NoExecute" }])).await?;
            w.until("three pods", |seen| running(seen) == ["calm", "patient", "steady"]).await?;
            w.until("two pods", |seen| running(seen) == ["calm", "steady"]).await?;
            // One that comes to a node with a taint goes again.
            pod(&w, "late", &node, json!([])).await?;
            w.until("it came and went", |seen| {
                seen.names_ever("Pod").iter().any(|name| name == "late") && running(seen) == ["calm", "steady"]
            })
            .await?;
            taint(&w, &node, Value::Null).await?;
            w.settle().await?;
            w.note(names(&w));
        }),
    ]
}

async fn pod(w: &World, name: &str, node: &str, tolerations: Value) -> Result<()> {
    let spec = json!({
        "nodeName": node, "tolerations": tolerations, "terminationGracePeriodSeconds": 5,
        "containers": [{ "name": "app", "image": "v1" }],
    });
    w.create(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })).await.map(drop)
}

async fn taint(w: &World, node: &str, taints: Value) -> Result<()> {
    let path = format!("/api/v1/nodes/{node}");
    let patch = json!({ "spec": { "taints": taints } });
    w.send("PATCH", &path, "application/merge-patch+json", &patch).await.map(drop)
}

/// The names of the pods that are there and not going.
fn running(seen: &Seen) -> Vec<String> {
    let stays = |pod: &&std::sync::Arc<Value>| pod["metadata"]["deletionTimestamp"].is_null();
    let pods = seen.all("Pod");
    pods.iter().filter(stays).map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn names(w: &World) -> String {
    w.look(running).join(" ")
}
