//! Y: owners, namespaces, and what every namespace has.

use serde_json::{Value, json};

use super::super::workloads::replicas;
use super::super::world::Cascade;
use super::super::{Case, case};

pub fn cases() -> Vec<Case> {
    vec![
        case!("Y01", "an object with two owners goes with the last", |w| {
            let mut owners = Vec::new();
            for name in ["one", "two"] {
                let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
                let uid = w.create(map).await?["metadata"]["uid"].clone();
                owners.push(json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid }));
            }
            w.create(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "child", "ownerReferences": owners },
            }))
            .await?;
            w.settle().await?;
            w.delete("ConfigMap", "one", Cascade::Background).await?;
            w.until_object("ConfigMap", "child", "one owner", |map| {
                map["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.len() == 1)
            })
            .await?;
            w.delete("ConfigMap", "two", Cascade::Background).await?;
            w.until("the child gone", |seen| seen.get("ConfigMap", "child").is_none()).await?;
        }),
        case!("Y02", "an object whose owner never was goes", |w| {
            let owner = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody",
                "uid": "00000000-0000-4000-8000-000000000000",
            });
            w.create(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "child", "ownerReferences": [owner] },
            }))
            .await?;
            w.until("the child gone", |seen| {
                seen.get("ConfigMap", "child").is_none() && seen.names_ever("ConfigMap").contains(&"child".to_owned())
            })
            .await?;
        }),
        case!("Y03", "an owner that waits for its dependents takes only its own", |w| {
            let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "other" } });
            let other = w.create(map).await?["metadata"]["uid"].clone();
            w.create(replicas("ReplicaSet", "web", 2, json!({}))).await?;
            w.until_object("ReplicaSet", "web", "two ready", |set| set["status"]["readyReplicas"] == 2).await?;
            let pod = w.pods("v1")[0].clone();
            let mut owners = pod["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            owners.push(json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other }));
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            w.merge("Pod", &name, json!({ "metadata": { "ownerReferences": owners } })).await?;
            w.settle().await?;
            w.delete("ReplicaSet", "web", Cascade::Foreground).await?;
            w.until("the ReplicaSet gone", |seen| seen.get("ReplicaSet", "web").is_none()).await?;
            w.until("one pod left", |seen| seen.all("Pod").len() == 1).await?;
        }),
        case!("Y04", "every namespace has an account and a certificate", |w| {
            w.until("both", |seen| {
                seen.get("ServiceAccount", "default").is_some() && seen.get("ConfigMap", "kube-root-ca.crt").is_some()
            })
            .await?;
            let map = w.look(|seen| seen.get("ConfigMap", "kube-root-ca.crt")).unwrap_or_default();
            w.note(map["metadata"]["annotations"].to_string());
            let entries = map["data"].as_object().cloned().unwrap_or_default();
            w.note(entries.keys().cloned().collect::<Vec<_>>().join(","));
            w.delete("ConfigMap", "kube-root-ca.crt", Cascade::Default).await?;
            w.until("another certificate", |seen| {
                let there = seen.get("ConfigMap", "kube-root-ca.crt");
                there.is_some_and(|there| there["metadata"]["uid"] != map["metadata"]["uid"])
            })
            .await?;
            w.merge("ConfigMap", "kube-root-ca.crt", json!({ "data": { "ca.crt": "x", "more": "y" } })).await?;
            w.until_object("ConfigMap", "kube-root-ca.crt", "its own content", |map| {
                map["data"]["ca.crt"] != "x" && map["data"]["more"].is_null()
            })
            .await?;
        }),
        case!("Y05", "a namespace goes with all that is in it", |w| {
            let name = format!("{}-gone", w.namespace);
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            w.send("POST", "/api/v1/namespaces", "application/json", &namespace).await?;
            let path = format!("/api/v1/namespaces/{name}");
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "held", "finalizers": ["example.com/hold"] },
            });
            w.send("POST", &format!("{path}/configmaps"), "application/json", &map).await?;
            w.send(
                "POST",
                &format!("{path}/secrets"),
                "application/json",
                &json!({
                    "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "free" },
                }),
            )
            .await?;
            w.send("DELETE", &path, "application/json", &Value::Null).await?;
            let mut told = Value::Null;
            for _ in 0..300 {
                told = w.send("GET", &path, "application/json", &Value::Null).await?["status"].clone();
                let says = |kind: &str| {
                    let conditions = told["conditions"].as_array().cloned().unwrap_or_default();
                    conditions.iter().any(|one| one["type"] == kind && one["status"] == "True")
                };
                if says("NamespaceFinalizersRemaining") {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            for one in told["conditions"].as_array().into_iter().flatten() {
                w.note(format!("{} {} {} {}", one["type"], one["status"], one["reason"], one["message"]));
            }
            let free = json!({ "metadata": { "finalizers": null } });
            w.send("PATCH", &format!("{path}/configmaps/held"), "application/merge-patch+json", &free).await?;
            for _ in 0..450 {
                if w.send("GET", &path, "application/json", &Value::Null).await.is_err() {
                    return Ok(());
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            w.check(false, "the namespace goes")?;
        }),
        case!("Y06", "custom objects are collected as well", |w| {
            let group = format!("{}.example.com", w.namespace);
            w.send(
                "POST",
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                "application/json",
                &json!({
                    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                    "metadata": { "name": format!("things.{group}") },
                    "spec": {
                        "group": group, "scope": "Namespaced",
                        "names": { "plural": "things", "singular": "thing", "kind": "Thing" },
                        "versions": [{
                            "name": "v1", "served": true, "storage": true,
                            "schema": { "openAPIV3Schema": { "type": "object" } },
                        }],
                    },
                }),
            )
            .await?;
            let path = format!("/apis/{group}/v1/namespaces/{}/things", w.namespace);
            let thing = |name: &str, owners: Value| {
                json!({
                    "apiVersion": format!("{group}/v1"), "kind": "Thing",
                    "metadata": { "name": name, "ownerReferences": owners },
                })
            };
            let mut made = Err(anyhow::anyhow!("not tried"));
            for _ in 0..100 {
                made = w.send("POST", &path, "application/json", &thing("owner", json!([]))).await;
                if made.is_ok() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            let owner = made?;
            let reference = json!([{
                "apiVersion": owner["apiVersion"], "kind": "Thing", "name": "owner", "uid": owner["metadata"]["uid"],
                "blockOwnerDeletion": true,
            }]);
            w.send("POST", &path, "application/json", &thing("child", reference.clone())).await?;
            let mut map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "map" } });
            map["metadata"]["ownerReferences"] = reference;
            w.create(map).await?;
            let body = json!({ "propagationPolicy": "Background" });
            w.send("DELETE", &format!("{path}/owner"), "application/json", &body).await?;
            w.until("the map gone", |seen| seen.get("ConfigMap", "map").is_none()).await?;
            for _ in 0..450 {
                if w.send("GET", &format!("{path}/child"), "application/json", &Value::Null).await.is_err() {
                    return Ok(());
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            w.check(false, "the child goes")?;
        }),
    ]
}
