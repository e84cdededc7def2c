//! D: creation and ownership.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::workloads::{deployment, replicas, sets};
use super::super::world::{Cascade, World};
use super::super::{Case, Fate, case};

pub fn cases() -> Vec<Case> {
    [made(), adopted(), fought_over(), deleted()].concat()
}

fn made() -> Vec<Case> {
    vec![
        case!("D01", "a Deployment makes one ReplicaSet with its annotations", |w| {
            let mut web = deployment(2, json!({}));
            web["metadata"]["annotations"] =
                json!({ "test": "x", "kubectl.kubernetes.io/last-applied-configuration": "y" });
            w.create(web).await?;
            w.complete().await?;
            w.check(w.sizes() == [2], "one ReplicaSet of 2")?;
            w.check(w.revision() == "1", "revision 1")?;
            let annotations = set(&w, 0)["metadata"]["annotations"].clone();
            w.check(annotations["test"] == "x", "annotations are copied")?;
            w.check(annotations["deployment.kubernetes.io/desired-replicas"] == "2", "desired-replicas")?;
            w.check(annotations["deployment.kubernetes.io/max-replicas"] == "3", "max-replicas")?;
        }),
        case!("D02", "the same hash is in names, labels and selectors", |w| {
            w.rolled_out(2, json!({})).await?;
            let set = set(&w, 0);
            let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap_or_default().to_owned();
            let fits = (1..=10).contains(&hash.len()) && hash.chars().all(|c| "456789bcdf".contains(c));
            w.check(fits, "ten letters at most, of the right ones")?;
            w.check(set["metadata"]["name"] == format!("web-{hash}"), "in the name")?;
            w.check(set["spec"]["selector"]["matchLabels"]["pod-template-hash"] == hash, "in the selector")?;
            w.check(set["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] == hash, "in the template")?;
            let in_pods = w.pods("v1").iter().all(|pod| pod["metadata"]["labels"]["pod-template-hash"] == hash);
            w.check(in_pods && w.pods("v1").len() == 2, "in all pods")?;
        }),
        case!("D03", "who owns what", |w| {
            w.rolled_out(2, json!({})).await?;
            let owner = set(&w, 0)["metadata"]["ownerReferences"][0].clone();
            w.check(owner["controller"] == true && owner["blockOwnerDeletion"] == true, "controller, blocking")?;
            w.check(owner["kind"] == "Deployment" && owner["name"] == "web", "of the Deployment")?;
            let owners: Vec<_> =
                w.pods("v1").iter().map(|pod| pod["metadata"]["ownerReferences"][0]["kind"].clone()).collect();
            w.check(owners == [json!("ReplicaSet"), json!("ReplicaSet")], "pods of the ReplicaSet")?;
        }),
        case!("D02b", "a long name is cut", |w| {
            let mut web = deployment(1, json!({}));
            let name = "w".repeat(250);
            web["metadata"]["name"] = json!(name);
            w.fate("v1", Fate::Unbound);
            w.create(web).await?;
            w.until("a ReplicaSet", |seen| !seen.all("ReplicaSet").is_empty()).await?;
            let set = w.look(sets)[0].clone().unwrap_or_default();
            let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap_or_default();
            let cut = name_of(&set).len() - hash.len() - 1;
            w.note(format!("cut to {cut} with a hash of {}", hash.len()));
        }),
    ]
}

fn adopted() -> Vec<Case> {
    vec![
        case!("D04", "an older ReplicaSet is adopted and its numbering continued", |w| {
            w.create(older("3546343826724305832")).await?;
            w.until("its pod", |seen| seen.all("Pod").len() == 1).await?;
            w.rolled_out(1, json!({})).await?;
            w.check(w.revision() == "3546343826724305833", "the next revision")?;
            w.until_sizes(&[0, 1]).await?;
        }),
        case!("D05", "an adopted one goes when there is no history", |w| {
            w.create(older("7")).await?;
            w.until("its pod", |seen| seen.all("Pod").len() == 1).await?;
            w.rolled_out(1, json!({ "revisionHistoryLimit": 0 })).await?;
            w.until_sizes(&[-1, 1]).await?;
        }),
        case!("D06", "one with the same template is adopted as the new one", |w| {
            let mut same = replicas("ReplicaSet", "web", 1, json!({}));
            same["metadata"] = json!({ "name": "mine", "labels": { "app": "web" } });
            w.create(same).await?;
            w.until("its pod", |seen| seen.all("Pod").len() == 1).await?;
            w.rolled_out(2, json!({})).await?;
            w.check(w.look(sets).len() == 1, "no second ReplicaSet")?;
            w.check(set(&w, 0)["metadata"]["labels"]["pod-template-hash"].is_null(), "no hash label")?;
        }),
        case!("D07", "one that lost its labels is released, and its name is taken", |w| {
            lose_labels(&w).await?;
        }),
        case!("D08", "one that got its labels back is adopted again", |w| {
            let name = lose_labels(&w).await?;
            w.merge("ReplicaSet", &name, json!({ "metadata": { "labels": { "app": "web" } } })).await?;
            w.until_object("ReplicaSet", &name, "an owner", |set| {
                set["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
            })
            .await?;
            w.settle().await?;
        }),
        case!("D09", "a foreign reference stays beside the controller's", |w| {
            w.rolled_out(1, json!({})).await?;
            let name = name_of(&set(&w, 0));
            let foreign =
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "foreign", "uid": uid_of_map(&w).await? });
            w.merge("ReplicaSet", &name, json!({ "metadata": { "ownerReferences": [foreign] } })).await?;
            w.until_object("ReplicaSet", &name, "two owners", |set| {
                set["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.len() == 2)
            })
            .await?;
        }),
        case!("D10", "a reference that is no controller's any more becomes one again", |w| {
            w.rolled_out(1, json!({})).await?;
            let set = set(&w, 0);
            let mut owner = set["metadata"]["ownerReferences"][0].clone();
            owner["controller"] = json!(false);
            let name = name_of(&set);
            w.merge("ReplicaSet", &name, json!({ "metadata": { "ownerReferences": [owner] } })).await?;
            w.until_object("ReplicaSet", &name, "one controller", |set| {
                let owners = &set["metadata"]["ownerReferences"];
                owners[0]["controller"] == true && owners[1].is_null()
            })
            .await?;
        }),
    ]
}

fn fought_over() -> Vec<Case> {
    vec![
        case!("D11", "a template edited in place makes the ReplicaSet an old one", |w| {
            w.rolled_out(1, json!({})).await?;
            w.set_image("ReplicaSet", &name_of(&set(&w, 0)), "edited").await?;
            w.until_sizes(&[0, 1]).await?;
            w.complete().await?;
            w.check(w.deployment()["status"]["collisionCount"] == 1, "collisionCount 1")?;
        }),
        case!("D12", "a name that is taken is avoided", |w| {
            w.rolled_out(1, json!({})).await?;
            let name = name_of(&set(&w, 0));
            w.delete("Deployment", "web", Cascade::Background).await?;
            w.until("nothing left", |seen| seen.all("ReplicaSet").is_empty() && seen.all("Pod").is_empty()).await?;
            let mut foreign = replicas("ReplicaSet", "other", 0, json!({}));
            foreign["metadata"]["name"] = json!(name);
            w.create(foreign).await?;
            w.rolled_out(1, json!({})).await?;
            w.check(w.deployment()["status"]["collisionCount"] == 1, "collisionCount 1")?;
        }),
        case!("D13", "two Deployments with the same selector keep to themselves", |w| {
            w.create(deployment(1, json!({}))).await?;
            let mut second =
                deployment(1, json!({ "template": { "spec": { "containers": [{ "name": "app", "image": "v2" }] } } }));
            second["metadata"]["name"] = json!("two");
            w.complete().await?;
            w.create(second).await?;
            w.until("both", |seen| seen.all("Pod").len() == 2).await?;
            w.scale("Deployment", "web", 2).await?;
            w.complete().await?;
            w.settle().await?;
            w.check(w.sizes() == [2, 1], "only the first scales")?;
        }),
        case!("D14", "one that is being deleted neither adopts nor releases", |w| {
            let mut web = deployment(1, json!({}));
            web["metadata"]["finalizers"] = json!(["test.example.com/hold"]);
            w.create(web).await?;
            w.complete().await?;
            w.delete("Deployment", "web", Cascade::Orphan).await?;
            w.until_object("Deployment", "web", "a deletion", |web| web["metadata"]["deletionTimestamp"].is_string())
                .await?;
            w.settle().await?;
            let mut orphan = replicas("ReplicaSet", "web", 0, json!({}));
            orphan["metadata"] = json!({ "name": "orphan", "labels": { "app": "web" } });
            w.create(orphan).await?;
            w.settle().await?;
            let owners = w.look(|seen| seen.get("ReplicaSet", "orphan")).unwrap_or_default();
            w.check(owners["metadata"]["ownerReferences"].is_null(), "not adopted")?;
        }),
    ]
}

fn deleted() -> Vec<Case> {
    vec![
        case!("D15", "made again at once under another uid: the new one owns everything", |w| {
            w.rolled_out(2, json!({})).await?;
            let old = w.deployment()["metadata"]["uid"].clone();
            w.delete("Deployment", "web", Cascade::Orphan).await?;
            w.until("no Deployment", |seen| seen.get("Deployment", "web").is_none()).await?;
            w.create(deployment(2, json!({}))).await?;
            w.complete().await?;
            let owners = set(&w, 0)["metadata"]["ownerReferences"].clone();
            w.check(owners.as_array().is_some_and(|owners| owners.len() == 1), "one owner")?;
            w.check(owners[0]["uid"] != old, "the new one")?;
        }),
        case!("D16", "deleted without its pods and made again, a rollout goes on", |w| {
            // The number of ready pods when the Deployment looks decides how many old ones go at once.
            w.steps_may_differ();
            w.rolled_out(4, json!({})).await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[3, 2]).await?;
            w.ready("v2", 1).await?;
            w.until_sizes(&[2, 3]).await?;
            w.settle().await?;
            w.delete("Deployment", "web", Cascade::Orphan).await?;
            w.until("no Deployment", |seen| seen.get("Deployment", "web").is_none()).await?;
            w.settle().await?;
            w.fate("v2", Fate::Ready);
            w.create(deployment(
                4,
                json!({ "template": { "spec": { "containers": [{ "name": "app", "image": "v2" }] } } }),
            ))
            .await?;
            w.ready("v2", 3).await?;
            w.complete().await?;
            w.check(w.sizes() == [0, 4], "the newer one grows")?;
        }),
        case!("D17", "deleted in the background, everything goes", |w| {
            w.rolled_out(2, json!({})).await?;
            w.delete("Deployment", "web", Cascade::Background).await?;
            w.until("nothing left", |seen| seen.all("ReplicaSet").is_empty() && seen.all("Pod").is_empty()).await?;
        }),
        case!("D17b", "deleted in the foreground, the Deployment goes last", |w| {
            w.rolled_out(2, json!({})).await?;
            w.cluster.kubelet.hold(&w.namespace);
            w.delete("Deployment", "web", Cascade::Foreground).await?;
            w.until("pods going away", |seen| {
                let pods = seen.all("Pod");
                pods.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_string())
            })
            .await?;
            w.settle().await?;
            w.check(w.look(|seen| seen.get("Deployment", "web").is_some()), "the Deployment waits")?;
            w.cluster.kubelet.release(&w.namespace, &w.cluster.observer);
            w.until("nothing left", |seen| {
                seen.get("Deployment", "web").is_none()
                    && seen.all("ReplicaSet").is_empty()
                    && seen.all("Pod").is_empty()
            })
            .await?;
        }),
        case!("D18", "deleted as orphans, ReplicaSets stay without an owner", |w| {
            w.rolled_out(2, json!({})).await?;
            w.delete("Deployment", "web", Cascade::Orphan).await?;
            w.until("no Deployment", |seen| seen.get("Deployment", "web").is_none()).await?;
            w.settle().await?;
            w.check(set(&w, 0)["metadata"]["ownerReferences"].is_null(), "no owner")?;
        }),
    ]
}

/// Returns a ReplicaSet with the Deployment's labels, another template, and a revision.
fn older(revision: &str) -> Value {
    let mut older = replicas("ReplicaSet", "web", 1, json!({}));
    older["metadata"] = json!({
        "name": "older", "labels": { "app": "web" },
        "annotations": { "deployment.kubernetes.io/revision": revision },
    });
    older["spec"]["template"]["spec"]["containers"][0]["image"] = json!("v0");
    older
}

async fn lose_labels(w: &World) -> Result<String> {
    w.rolled_out(1, json!({})).await?;
    let name = name_of(&set(w, 0));
    w.merge("ReplicaSet", &name, json!({ "metadata": { "labels": { "app": null } } })).await?;
    w.until("a second ReplicaSet", |seen| sets(seen).len() == 2).await?;
    w.complete().await?;
    w.settle().await?;
    w.check(set(w, 0)["metadata"]["ownerReferences"].is_null(), "released")?;
    w.check(w.deployment()["status"]["collisionCount"] == 1, "collisionCount 1")?;
    Ok(name)
}

async fn uid_of_map(w: &World) -> Result<Value> {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "foreign" } });
    Ok(w.create(map).await?["metadata"]["uid"].clone())
}

/// Returns the n-th ReplicaSet.
pub fn set(w: &World, index: usize) -> Value {
    w.look(sets).get(index).cloned().flatten().map_or(Value::Null, |set| Value::clone(&set))
}

pub fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
