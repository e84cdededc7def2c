//! A: writes, watches, lists.

use anyhow::Result;
use futures::TryStreamExt as _;
use kube::api::WatchParams;
use kube::core::{DynamicObject, Request, WatchEvent};
use serde_json::{Value, json};

use super::super::workloads::deployment;
use super::super::world::{Cascade, World};
use super::super::{Case, Fate, case};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub fn cases() -> Vec<Case> {
    [written(), watched(), listed()].concat()
}

fn written() -> Vec<Case> {
    vec![
        case!("A01", "a write over an old version", |w| {
            let made = w.create(map("one", "1")).await?;
            w.merge("ConfigMap", "one", json!({ "data": { "key": "2" } })).await?;
            let path = format!("{}/one", w.path("ConfigMap"));
            w.note_answer("PUT", &path, JSON, made).await?;
        }),
        case!("A02", "made twice", |w| {
            w.create(map("one", "1")).await?;
            w.note_answer("POST", &w.path("ConfigMap"), JSON, map("one", "1")).await?;
        }),
        case!("A03", "writes that change nothing", |w| {
            w.fate("v1", Fate::Unbound);
            w.create(deployment(0, json!({}))).await?;
            w.complete().await?;
            w.settle().await?;
            let path = format!("{}/web", w.path("Deployment"));
            let before = w.get("Deployment", "web").await?;
            w.send("PUT", &path, JSON, &before).await?;
            w.merge("Deployment", "web", json!({ "spec": { "replicas": 0 } })).await?;
            w.strategic("Deployment", "web", json!({ "metadata": { "name": "web" } })).await?;
            let after = w.get("Deployment", "web").await?;
            let same = before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"];
            w.check(same, "the same version")?;
        }),
        case!("A08", "dry runs", |w| {
            let path = w.path("ConfigMap");
            let made = w.answer("POST", &format!("{path}?dryRun=All"), JSON, &map("one", "1")).await?;
            w.note(format!("{} {}", made.0, made.1["metadata"]["resourceVersion"].is_null()));
            let apply = format!("{path}/two?dryRun=All&fieldManager=me");
            let made = w.answer("PATCH", &apply, "application/apply-patch+yaml", &map("two", "1")).await?;
            w.note(format!("{} {}", made.0, made.1["metadata"]["resourceVersion"].is_null()));
            w.create(map("three", "1")).await?;
            w.note_answer("DELETE", &format!("{path}/three?dryRun=All"), JSON, Value::Null).await?;
            for name in ["one", "two", "three"] {
                w.note_answer("GET", &format!("{path}/{name}"), JSON, Value::Null).await?;
            }
        }),
        case!("A10", "adopting with a wrong uid", |w| {
            w.rolled_out(1, json!({})).await?;
            let set = super::creation::set(&w, 0);
            let metadata = json!({ "uid": "00000000-0000-4000-8000-000000000000", "labels": { "new": "label" } });
            let name = super::creation::name_of(&set);
            let answer =
                w.answer("PATCH", &format!("replicasets/{name}"), STRATEGIC, &json!({ "metadata": metadata })).await?;
            w.note(format!("{} {}", answer.0, answer.1["reason"]));
        }),
        case!("A11", "a finalizer holds what is deleted", |w| {
            w.create(deployment(0, json!({}))).await?;
            w.complete().await?;
            let held =
                w.merge("Deployment", "web", json!({ "metadata": { "finalizers": ["example.com/hold"] } })).await?;
            w.delete("Deployment", "web", Cascade::Background).await?;
            let going = w.get("Deployment", "web").await?;
            let generation = |object: &Value| object["metadata"]["generation"].as_i64().unwrap_or(0);
            w.note(format!("{} more", generation(&going) - generation(&held)));
            w.check(going["metadata"]["deletionTimestamp"].is_string(), "it is going")?;
            w.note_answer(
                "PATCH",
                "deployments/web",
                MERGE,
                json!({ "metadata": { "finalizers": ["example.com/hold", "example.com/more"] } }),
            )
            .await?;
            w.merge("Deployment", "web", json!({ "metadata": { "finalizers": null } })).await?;
            w.until("nothing left", |seen| {
                seen.get("Deployment", "web").is_none() && seen.all("ReplicaSet").is_empty()
            })
            .await?;
        }),
        case!("A12", "many deleted at once", |w| {
            for number in 0..6 {
                let mut one = map(&format!("map-{number}"), "1");
                one["metadata"]["labels"] = json!({ "odd": (number % 2 == 1).to_string() });
                w.create(one).await?;
            }
            w.send("DELETE", &format!("{}?labelSelector=odd=true", w.path("ConfigMap")), JSON, &Value::Null).await?;
            w.until("three left", |seen| maps(seen) == ["map-0", "map-2", "map-4"]).await?;
        }),
    ]
}

fn watched() -> Vec<Case> {
    vec![
        case!("A04", "two watches see the same, each once", |w| {
            let list = w.send("GET", &w.path("ConfigMap"), JSON, &Value::Null).await?;
            let from = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            w.create(map("one", "1")).await?;
            w.merge("ConfigMap", "one", json!({ "data": { "key": "2" } })).await?;
            w.delete("ConfigMap", "one", Cascade::Default).await?;
            let (one, other) = (events(&w, "", &from, 3).await?, events(&w, "", &from, 3).await?);
            w.check(one == other, "the same")?;
            w.note(one.join(", "));
        }),
        case!("A05", "in and out of a selection", |w| {
            let list = w.send("GET", &w.path("ConfigMap"), JSON, &Value::Null).await?;
            let from = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            let label = |value: &str| json!({ "metadata": { "labels": { "in": value } } });
            let mut one = map("one", "1");
            one["metadata"]["labels"] = json!({ "in": "yes" });
            w.create(one).await?;
            w.merge("ConfigMap", "one", label("no")).await?;
            w.merge("ConfigMap", "one", label("yes")).await?;
            w.note(events(&w, "in=yes", &from, 3).await?.join(", "));
        }),
        case!("A06", "a version that never was", |w| {
            let answer =
                w.answer("GET", &format!("{}?resourceVersion=x", w.path("ConfigMap")), JSON, &Value::Null).await?;
            w.note(format!("{} {}", answer.0, answer.1["reason"]));
            let far = format!("{}?resourceVersion=99999999999&resourceVersionMatch=NotOlderThan", w.path("ConfigMap"));
            let answer = w.answer("GET", &far, JSON, &Value::Null).await?;
            w.note(format!("{} {}", answer.0, answer.1["reason"]));
        }),
        case!("A09", "a watch that begins with what is there", |w| {
            w.create(map("one", "1")).await?;
            w.create(map("two", "1")).await?;
            let path = format!(
                "{}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
                w.path("ConfigMap")
            );
            let stream = w.client().request_events::<DynamicObject>(http::Request::get(path).body(Vec::new())?).await?;
            let mut stream = std::pin::pin!(stream);
            loop {
                match stream.try_next().await? {
                    Some(WatchEvent::Added(object)) => {
                        let name = object.metadata.name.unwrap_or_default();
                        if name != "kube-root-ca.crt" {
                            w.note(format!("added {name}"));
                        }
                    }
                    Some(WatchEvent::Bookmark(mark)) => {
                        w.note(format!("{:?}", mark.metadata.annotations));
                        break;
                    }
                    other => w.check(false, &format!("an object or a bookmark, not {other:?}"))?,
                }
            }
        }),
    ]
}

fn listed() -> Vec<Case> {
    vec![case!("A07", "a list in pages", |w| {
        for number in 0..40 {
            w.create(map(&format!("map-{number:02}"), "1")).await?;
        }
        // The controller that makes it for each namespace may be late.
        w.until("the root certificate", |seen| seen.get("ConfigMap", "kube-root-ca.crt").is_some()).await?;
        let (mut token, mut names, mut versions) = (String::new(), Vec::new(), Vec::new());
        loop {
            let path = format!("{}?limit=17&labelSelector=&continue={token}", w.path("ConfigMap"));
            let page = w.send("GET", &path, JSON, &Value::Null).await?;
            let items = page["items"].as_array().cloned().unwrap_or_default();
            names.extend(
                items.iter().map(|item| item["metadata"]["name"].to_string()).filter(|name| name.contains("map-")),
            );
            versions.push(page["metadata"]["resourceVersion"].clone());
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            w.note(format!("{} items, continued: {}", items.len().min(17), !token.is_empty()));
            if token.is_empty() {
                break;
            }
            w.delete("ConfigMap", "map-39", Cascade::Default).await.ok();
        }
        versions.dedup();
        w.check(names.len() == 40 && versions.len() == 1, "all of them, of one version")?;
    })]
}

fn map(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "key": value } })
}

fn maps(seen: &super::super::observer::Seen) -> Vec<String> {
    let names = seen.all("ConfigMap");
    let names = names.iter().filter_map(|map| map["metadata"]["name"].as_str());
    names.filter(|name| name.starts_with("map-")).map(str::to_owned).collect()
}

/// Returns the first events of a watch of ConfigMaps, other than of those that every namespace has.
async fn events(w: &World, labels: &str, from: &str, count: usize) -> Result<Vec<String>> {
    let params = WatchParams::default().labels(labels);
    let request = Request::new(w.path("ConfigMap")).watch(&params, from)?;
    let stream = w.client().request_events::<DynamicObject>(request).await?;
    let mut stream = std::pin::pin!(stream);
    let mut events = Vec::new();
    while events.len() < count {
        let told = match stream.try_next().await? {
            Some(WatchEvent::Added(object)) => Some(("ADDED", object)),
            Some(WatchEvent::Modified(object)) => Some(("MODIFIED", object)),
            Some(WatchEvent::Deleted(object)) => Some(("DELETED", object)),
            Some(_) => None,
            None => break,
        };
        if let Some((what, object)) = told.filter(|(_, object)| object.metadata.name.as_deref() == Some("one")) {
            events.push(format!("{what} {}", object.data["data"]["key"]));
        }
    }
    Ok(events)
}
