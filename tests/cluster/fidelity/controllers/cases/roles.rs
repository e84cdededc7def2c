//! L: ClusterRoles that gather the rules of others.

use anyhow::Result;
use serde_json::{Value, json};

use crate::controllers::world::World;
use crate::controllers::{Case, case};

const PATH: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

pub fn cases() -> Vec<Case> {
    vec![
        case!("L01", "the roles of every cluster gather their rules", |w| {
            for name in ["view", "edit", "admin"] {
                until(&w, &format!("{PATH}/{name}"), |role| {
                    role["rules"].as_array().is_some_and(|rules| rules.len() > 9)
                })
                .await?;
            }
            // Each gathers what another has gathered.
            let is_whole = |role: &Value| role["rules"].to_string().contains("localsubjectaccessreviews");
            let admin = until(&w, &format!("{PATH}/admin"), is_whole).await?;
            w.note(without_times(&admin).to_string());
        }),
        case!("L02", "a role gathers what is selected, in order and once, and nothing else stays in it", |w| {
            let (one, two) = (format!("{}.example.com/one", w.namespace), format!("{}.example.com/two", w.namespace));
            let rule = |name: &str| json!({ "apiGroups": ["a"], "resources": [name], "verbs": ["get"] });
            let role = |name: &str, labels: Value, rules: Value| {
                json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                    "metadata": { "name": format!("{}-{name}", w.namespace), "labels": labels }, "rules": rules,
                })
            };
            let mut gathers = role("gathers", json!({}), json!([rule("own")]));
            gathers["aggregationRule"] =
                json!({ "clusterRoleSelectors": [{ "matchLabels": { &two: "" } }, { "matchLabels": { &one: "" } }] });
            let z = role("z", json!({ &one: "", &two: "" }), json!([rule("z"), rule("both")]));
            let a = role("a", json!({ &one: "" }), json!([rule("a"), rule("both")]));
            for role in [&gathers, &z, &a] {
                w.send("POST", PATH, "application/json", role).await?;
            }
            let path = format!("{PATH}/{}-gathers", w.namespace);
            let holds = |names: &'static [&'static str]| {
                move |role: &Value| {
                    let rules = role["rules"].as_array().into_iter().flatten();
                    rules.map(|rule| rule["resources"][0].as_str().unwrap_or_default()).eq(names.iter().copied())
                }
            };
            let gathered = until(&w, &path, holds(&["z", "both", "a"])).await?;
            w.note(without_times(&gathered).to_string());
            let unlabelled = json!({ "metadata": { "labels": null } });
            let other = format!("{PATH}/{}-z", w.namespace);
            w.send("PATCH", &other, "application/merge-patch+json", &unlabelled).await?;
            until(&w, &path, holds(&["a", "both"])).await?;
            w.send("PATCH", &path, "application/merge-patch+json", &json!({ "rules": [rule("mine")] })).await?;
            until(&w, &path, holds(&["a", "both"])).await?;
            w.send("DELETE", &format!("{PATH}/{}-a", w.namespace), "application/json", &Value::Null).await?;
            let empty = until(&w, &path, holds(&[])).await?;
            w.note(without_times(&empty).to_string());
        }),
    ]
}

/// Waits until an object is as wanted.
async fn until(w: &World, path: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    for _ in 0..300 {
        let object = w.send("GET", path, "application/json", &Value::Null).await?;
        if wanted(&object) {
            return Ok(object);
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    w.check(false, &format!("{path} as wanted"))?;
    Ok(Value::Null)
}

/// Without what differs from cluster to cluster.
fn without_times(role: &Value) -> Value {
    let mut role = role.clone();
    for key in ["uid", "resourceVersion", "creationTimestamp"] {
        role["metadata"][key].take();
    }
    for entry in role["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
        entry["time"].take();
    }
    role
}
