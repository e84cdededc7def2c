//! J: Jobs with rules of their own: limits for each index, replacement, another controller.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::workloads::{count, merge};
use super::super::world::{Cascade, World};
use super::super::{Case, Fate, case};
use super::jobs::{indexes, job, of_index, running, until_condition};

pub fn cases() -> Vec<Case> {
    [each_index(), rules_for_indexes(), others()].concat()
}

fn each_index() -> Vec<Case> {
    vec![
        case!("J33", "an index that may not fail fails alone", |w| {
            start(&w, 3, json!({ "backoffLimitPerIndex": 0 })).await?;
            exit(&w, "1", 1).await?;
            w.settle().await?;
            note_indexes(&w);
            exit(&w, "0", 0).await?;
            exit(&w, "2", 0).await?;
            until_condition(&w, "Failed").await?;
            note_indexes(&w);
        }),
        case!("J34", "more indexes fail than may", |w| {
            start(&w, 4, json!({ "backoffLimitPerIndex": 0, "maxFailedIndexes": 1 })).await?;
            exit(&w, "3", 1).await?;
            w.settle().await?;
            note_indexes(&w);
            exit(&w, "0", 1).await?;
            until_condition(&w, "Failed").await?;
            note_indexes(&w);
        }),
        case!("J35", "an index that may fail once is tried again, and its pod tells so", |w| {
            start(&w, 2, json!({ "backoffLimitPerIndex": 1 })).await?;
            exit(&w, "0", 1).await?;
            exit(&w, "1", 0).await?;
            w.settle().await?;
            // The failed pod stays to be counted until the next one tells of it.
            w.note(w.look(|seen| {
                let mut held: Vec<String> =
                    seen.all("Pod").iter().map(|pod| pod["metadata"]["finalizers"].to_string()).collect();
                held.sort();
                held.join(" ")
            }));
            w.until("the index again", |seen| indexes(seen) == "0").await?;
            w.settle().await?;
            note_told(&w, "0");
            exit(&w, "0", 0).await?;
            until_condition(&w, "Complete").await?;
            note_indexes(&w);
        }),
    ]
}

fn rules_for_indexes() -> Vec<Case> {
    vec![
        case!("J36", "a code that ends its index at once", |w| {
            let rules = json!([{ "action": "FailIndex", "onExitCodes": { "operator": "In", "values": [42] } }]);
            start(&w, 2, json!({ "backoffLimitPerIndex": 5, "podFailurePolicy": { "rules": rules } })).await?;
            exit(&w, "0", 42).await?;
            w.settle().await?;
            note_indexes(&w);
            exit(&w, "1", 0).await?;
            until_condition(&w, "Failed").await?;
            note_indexes(&w);
        }),
        case!("J37", "a code that does not count for its index", |w| {
            let rules = json!([{ "action": "Ignore", "onExitCodes": { "operator": "In", "values": [7] } }]);
            start(&w, 1, json!({ "backoffLimitPerIndex": 0, "podFailurePolicy": { "rules": rules } })).await?;
            exit(&w, "0", 7).await?;
            w.until("the index again", |seen| indexes(seen) == "0").await?;
            w.settle().await?;
            note_told(&w, "0");
            exit(&w, "0", 1).await?;
            until_condition(&w, "Failed").await?;
            note_indexes(&w);
        }),
    ]
}

fn others() -> Vec<Case> {
    vec![
        case!("J39", "a pod that goes is replaced only when it has ended", |w| {
            w.fate("v1", Fate::OnCommand);
            w.cluster.kubelet.hold(&w.namespace);
            w.create(job(json!({ "podReplacementPolicy": "Failed" }))).await?;
            w.until("a pod", |seen| running(seen).len() == 1).await?;
            w.settle().await?;
            let pod = w.look(|seen| running(seen)[0].clone());
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            w.delete("Pod", &name, Cascade::Default).await?;
            w.until_object("Job", "work", "one that goes", |job| count(job, "terminating") == 1).await?;
            w.settle().await?;
            w.check(w.look(|seen| seen.names_ever("Pod").len()) == 1, "nobody in its place yet")?;
            let pod = w.look(|seen| seen.get("Pod", &name)).unwrap_or_default();
            w.cluster.kubelet.exit(&pod, 1).await;
            w.cluster.kubelet.release(&w.namespace, &w.cluster.observer);
            w.until("another", |seen| seen.names_ever("Pod").len() == 2 && running(seen).len() == 1).await?;
            let pod = w.look(|seen| running(seen)[0].clone());
            w.cluster.kubelet.exit(&pod, 0).await;
            until_condition(&w, "Complete").await?;
        }),
        case!("J22", "left to another controller", |w| {
            w.create(job(json!({ "managedBy": "example.com/somebody" }))).await?;
            w.settle().await?;
            w.check(w.look(|seen| seen.all("Pod").is_empty()), "no pods")?;
        }),
        case!("J23", "suspended with indexes done: they stay done", |w| {
            start(&w, 3, json!({})).await?;
            exit(&w, "1", 0).await?;
            w.until_object("Job", "work", "one done", |job| count(job, "succeeded") == 1).await?;
            w.merge("Job", "work", json!({ "spec": { "suspend": true } })).await?;
            w.until("no pod that runs", |seen| running(seen).is_empty()).await?;
            w.settle().await?;
            w.merge("Job", "work", json!({ "spec": { "suspend": false } })).await?;
            w.until("the others again", |seen| indexes(seen) == "0 2").await?;
            w.settle().await?;
            note_indexes(&w);
        }),
        case!("J24", "more indexes and as many at once, in tandem", |w| {
            start(&w, 2, json!({})).await?;
            w.merge("Job", "work", json!({ "spec": { "parallelism": 3, "completions": 3 } })).await?;
            w.until("three pods", |seen| indexes(seen) == "0 1 2").await?;
            w.merge("Job", "work", json!({ "spec": { "parallelism": 1, "completions": 1 } })).await?;
            w.until("one pod", |seen| indexes(seen) == "0").await?;
            exit(&w, "0", 0).await?;
            until_condition(&w, "Complete").await?;
            note_indexes(&w);
        }),
    ]
}

/// Makes a Job of so many indexes, all at once, and waits until they run.
async fn start(w: &World, size: usize, more: Value) -> Result<()> {
    w.fate("v1", Fate::OnCommand);
    let mut spec = json!({ "completionMode": "Indexed", "parallelism": size, "completions": size });
    merge(&mut spec, more);
    w.create(job(spec)).await?;
    w.until("all pods", |seen| running(seen).len() == size).await?;
    w.settle().await
}

/// Ends the pod of an index, and waits until it has ended.
async fn exit(w: &World, index: &str, code: i32) -> Result<()> {
    let pod = w.look(|seen| of_index(seen, index));
    w.cluster.kubelet.exit(&pod, code).await;
    let name = pod["metadata"]["name"].clone();
    w.until("it ended", |seen| running(seen).iter().all(|pod| pod["metadata"]["name"] != name)).await
}

fn note_indexes(w: &World) {
    let job = w.look(|seen| seen.get("Job", "work")).unwrap_or_default();
    let status = &job["status"];
    w.note(format!(
        "done {} failed {} running {}",
        status["completedIndexes"],
        status["failedIndexes"],
        w.look(indexes)
    ));
}

/// Notes what the pod of an index tells of those before it.
fn note_told(w: &World, index: &str) {
    let pod = w.look(|seen| of_index(seen, index));
    w.note(format!("{}", pod["metadata"]["annotations"]));
}
