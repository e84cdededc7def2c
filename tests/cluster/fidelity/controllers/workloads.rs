//! Objects for scripts, and what scripts wait for in them.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};

use super::observer::Seen;
pub use super::world::is_observed;
use super::world::{World, active_pods, condition, is_ready};

/// Returns a Deployment `web` of pods `v1`, with what `more` says of its specification.
pub fn deployment(replicas: i32, more: Value) -> Value {
    let mut spec = json!({
        "replicas": replicas,
        "selector": { "matchLabels": { "app": "web" } },
        "template": template("web", "v1"),
    });
    merge(&mut spec, more);
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" }, "spec": spec })
}

/// Returns a pod template with one label and one container.
pub fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [{ "name": "app", "image": image }] },
    })
}

/// Returns a rolling update with these bounds.
pub fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({ "strategy": {
        "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable },
    } })
}

/// Returns a ReplicaSet or ReplicationController of pods `v1`.
pub fn replicas(kind: &str, name: &str, count: i32, more: Value) -> Value {
    let is_set = kind == "ReplicaSet";
    let labels = json!({ "app": name });
    let selector = if is_set { json!({ "matchLabels": labels }) } else { labels };
    let mut spec = json!({ "replicas": count, "selector": selector, "template": template(name, "v1") });
    merge(&mut spec, more);
    let version = if is_set { "apps/v1" } else { "v1" };
    json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec })
}

/// Lays `more` over `value`, as a merge patch.
pub fn merge(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Object(object), Value::Object(more)) => {
            for (key, value) in more {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (value, more) => *value = more,
    }
}

/// Returns the ReplicaSets that there ever were, in the order in which they came; `None` for those that are gone.
pub fn sets(seen: &Seen) -> Vec<Option<Arc<Value>>> {
    seen.names_ever("ReplicaSet").iter().map(|name| seen.get("ReplicaSet", name)).collect()
}

/// Their sizes; -1 for those that are gone.
pub fn sizes(seen: &Seen) -> Vec<i64> {
    let size = |set: &Option<Arc<Value>>| set.as_ref().map_or(-1, |set| set["spec"]["replicas"].as_i64().unwrap_or(1));
    sets(seen).iter().map(size).collect()
}

pub fn count(object: &Value, field: &str) -> i64 {
    object["status"][field].as_i64().unwrap_or(0)
}

/// Returns true when a Deployment's rollout is complete and its status says so.
pub fn is_complete(deployment: &Value) -> bool {
    let size = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let all = ["replicas", "updatedReplicas", "availableReplicas"];
    let told = condition(deployment, "Progressing").is_none_or(|(_, reason)| reason == "NewReplicaSetAvailable");
    is_observed(deployment) && all.iter().all(|field| count(deployment, field) == size) && told
}

/// Returns true when the ReplicaSets of a complete Deployment add up to its size.
fn sets_agree(seen: &Seen, web: &Value) -> bool {
    let is_mine = |set: &Arc<Value>| {
        let owners = set["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().any(|one| one["uid"] == web["metadata"]["uid"])
    };
    let sum: i64 = seen
        .all("ReplicaSet")
        .iter()
        .filter(|set| is_mine(set))
        .map(|set| set["spec"]["replicas"].as_i64().unwrap_or(1))
        .sum();
    sum == web["spec"]["replicas"].as_i64().unwrap_or(1)
}

impl World {
    /// Waits until the Deployment `web` is complete and at rest.
    pub async fn complete(&self) -> Result<()> {
        self.until_object("Deployment", "web", "its rollout complete", is_complete).await?;
        // Its ReplicaSets are watched apart, and may show later.
        self.until("ReplicaSets that agree", |seen| {
            let ready = active_pods(seen, None).iter().filter(|pod| is_ready(pod)).count();
            seen.get("Deployment", "web").is_some_and(|web| {
                let size = usize::try_from(web["spec"]["replicas"].as_i64().unwrap_or(1)).unwrap_or(0);
                is_complete(&web) && sets_agree(seen, &web) && ready >= size
            })
        })
        .await
    }

    /// Waits until the ReplicaSets have these sizes, in the order in which they came, and their pods follow.
    pub async fn until_sizes(&self, wanted: &[i64]) -> Result<()> {
        self.until(&format!("sizes {wanted:?}"), |seen| sizes(seen) == wanted).await
    }

    pub fn sizes(&self) -> Vec<i64> {
        self.look(sizes)
    }

    pub fn deployment(&self) -> Arc<Value> {
        self.look(|seen| seen.get("Deployment", "web")).unwrap_or_default()
    }

    pub fn revision(&self) -> String {
        let revision = &self.deployment()["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
        revision.as_str().unwrap_or_default().to_owned()
    }

    /// Makes a Deployment and waits until it is complete.
    pub async fn rolled_out(&self, replicas: i32, more: Value) -> Result<()> {
        self.create(deployment(replicas, more)).await?;
        self.complete().await
    }
}
