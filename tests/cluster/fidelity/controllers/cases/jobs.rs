//! J: Jobs.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::observer::Seen;
use super::super::workloads::{count, merge, template};
use super::super::world::{Cascade, World, active_pods, condition};
use super::super::{Case, Fate, case};

pub fn cases() -> Vec<Case> {
    [ended(), failed(), suspended(), indexed()].concat()
}

fn ended() -> Vec<Case> {
    vec![
        case!("J01", "one pod that succeeds", |w| {
            w.fate("v1", Fate::Exits(0));
            w.create(job(json!({}))).await?;
            until_condition(&w, "Complete").await?;
        }),
        case!("J02", "as many at once as may be, until enough have succeeded", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(job(json!({ "parallelism": 2, "completions": 3 }))).await?;
            w.until("two pods", |seen| running(seen).len() == 2).await?;
            w.settle().await?;
            w.check(w.look(|seen| running(seen).len()) == 2, "two at a time")?;
            for done in 1..=3_i64 {
                let pod = w.look(|seen| running(seen)[0].clone());
                w.cluster.kubelet.exit(&pod, 0).await;
                w.until_object("Job", "work", "one more", move |job| count(job, "succeeded") == done).await?;
                let left = usize::try_from((3 - done).min(2)).unwrap_or(0);
                w.until("pods", move |seen| running(seen).len() == left).await?;
            }
            until_condition(&w, "Complete").await?;
        }),
        case!("J03", "a queue: one that succeeds is enough, the others end by themselves", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(job(json!({ "parallelism": 2, "completions": null }))).await?;
            w.until("two pods", |seen| running(seen).len() == 2).await?;
            for code in [0, 0] {
                let pod = w.look(|seen| running(seen)[0].clone());
                w.cluster.kubelet.exit(&pod, code).await;
                let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                w.until("it ended", |seen| running(seen).iter().all(|pod| pod["metadata"]["name"] != name)).await?;
                w.settle().await?;
            }
            until_condition(&w, "Complete").await?;
        }),
        case!("J04", "deleted some time after its end", |w| {
            w.fate("v1", Fate::Exits(0));
            w.create(job(json!({ "ttlSecondsAfterFinished": 1 }))).await?;
            w.until("it came and went", |seen| {
                seen.names_ever("Job") == ["work"] && seen.get("Job", "work").is_none() && seen.all("Pod").is_empty()
            })
            .await?;
        }),
        case!("J05", "deleted with its pods, which nobody counts any more", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(job(json!({ "parallelism": 2, "completions": 2 }))).await?;
            w.until("two pods", |seen| running(seen).len() == 2).await?;
            w.delete("Job", "work", Cascade::Background).await?;
            w.until("nothing left", |seen| seen.get("Job", "work").is_none() && seen.all("Pod").is_empty()).await?;
        }),
    ]
}

fn failed() -> Vec<Case> {
    vec![
        case!("J10", "no second try", |w| {
            w.fate("v1", Fate::Exits(1));
            w.create(job(json!({ "backoffLimit": 0 }))).await?;
            until_condition(&w, "Failed").await?;
        }),
        case!("J11", "a second try after ten seconds", |w| {
            w.fate("v1", Fate::Exits(1));
            w.create(job(json!({ "backoffLimit": 1 }))).await?;
            w.until_object("Job", "work", "a failure", |job| count(job, "failed") == 1).await?;
            w.settle().await?;
            w.check(w.look(|seen| seen.names_ever("Pod").len()) == 1, "no second pod yet")?;
            until_condition(&w, "Failed").await?;
        }),
        case!("J12", "too many failures end those that still run", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(job(json!({ "parallelism": 3, "completions": 3, "backoffLimit": 0 }))).await?;
            w.until("three pods", |seen| running(seen).len() == 3).await?;
            w.settle().await?;
            let pod = w.look(|seen| running(seen)[0].clone());
            w.cluster.kubelet.exit(&pod, 1).await;
            until_condition(&w, "Failed").await?;
        }),
        case!("J13", "too late", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(job(json!({ "activeDeadlineSeconds": 2 }))).await?;
            until_condition(&w, "Failed").await?;
        }),
        case!("J15", "a code that ends the Job at once", |w| {
            w.fate("v1", Fate::OnCommand);
            let rules = json!([
                { "action": "FailJob", "onExitCodes": { "containerName": "app", "operator": "In", "values": [42] } },
            ]);
            let more = json!({ "parallelism": 2, "completions": 2, "podFailurePolicy": { "rules": rules } });
            w.create(job(more)).await?;
            w.until("two pods", |seen| running(seen).len() == 2).await?;
            w.settle().await?;
            let pod = w.look(|seen| running(seen)[0].clone());
            w.cluster.kubelet.exit(&pod, 42).await;
            until_condition(&w, "Failed").await?;
        }),
        case!("J16", "a code that does not count", |w| {
            w.fate("v1", Fate::OnCommand);
            let rules = json!([{ "action": "Ignore", "onExitCodes": { "operator": "NotIn", "values": [42] } }]);
            w.create(job(json!({ "backoffLimit": 0, "podFailurePolicy": { "rules": rules } }))).await?;
            w.until("a pod", |seen| running(seen).len() == 1).await?;
            w.settle().await?;
            let pod = w.look(|seen| running(seen)[0].clone());
            w.cluster.kubelet.exit(&pod, 1).await;
            w.until("another", |seen| seen.names_ever("Pod").len() == 2 && running(seen).len() == 1).await?;
            let pod = w.look(|seen| running(seen)[0].clone());
            w.cluster.kubelet.exit(&pod, 0).await;
            until_condition(&w, "Complete").await?;
        }),
        case!("J14", "a pod that is deleted counts as failed and is replaced", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(job(json!({}))).await?;
            w.until("a pod", |seen| running(seen).len() == 1).await?;
            w.settle().await?;
            let pod = w.look(|seen| running(seen)[0].clone());
            w.delete("Pod", pod["metadata"]["name"].as_str().unwrap_or_default(), Cascade::Default).await?;
            w.until("another", |seen| seen.names_ever("Pod").len() == 2 && running(seen).len() == 1).await?;
            let pod = w.look(|seen| running(seen)[0].clone());
            w.cluster.kubelet.exit(&pod, 0).await;
            until_condition(&w, "Complete").await?;
        }),
    ]
}

fn suspended() -> Vec<Case> {
    vec![
        case!("J20", "made suspended, then resumed", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(job(json!({ "suspend": true }))).await?;
            w.until_object("Job", "work", "its suspension", |job| {
                condition(job, "Suspended").is_some_and(|(status, _)| status == "True")
            })
            .await?;
            w.settle().await?;
            w.check(w.look(|seen| seen.all("Pod").is_empty()), "no pods")?;
            w.merge("Job", "work", json!({ "spec": { "suspend": false } })).await?;
            w.until("a pod", |seen| running(seen).len() == 1).await?;
            w.settle().await?;
            w.merge("Job", "work", json!({ "spec": { "suspend": true } })).await?;
            w.until("no pod", |seen| seen.all("Pod").is_empty()).await?;
        }),
        case!("J21", "more and fewer at once", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(job(json!({ "parallelism": 1, "completions": 9 }))).await?;
            w.until("a pod", |seen| running(seen).len() == 1).await?;
            w.merge("Job", "work", json!({ "spec": { "parallelism": 3 } })).await?;
            w.until("three pods", |seen| running(seen).len() == 3).await?;
            w.settle().await?;
            w.merge("Job", "work", json!({ "spec": { "parallelism": 1 } })).await?;
            w.until("one pod", |seen| running(seen).len() == 1).await?;
        }),
    ]
}

fn indexed() -> Vec<Case> {
    vec![
        case!("J30", "each pod has an index", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(job(json!({ "completionMode": "Indexed", "parallelism": 3, "completions": 4 }))).await?;
            w.until("three pods", |seen| running(seen).len() == 3).await?;
            w.note(w.look(indexes));
            for (index, done) in [("1", 1), ("0", 2)] {
                let pod = w.look(|seen| of_index(seen, index));
                w.cluster.kubelet.exit(&pod, 0).await;
                let label = index.to_owned();
                w.until("it is counted", move |seen| {
                    running(seen).iter().all(|pod| pod["metadata"]["labels"][INDEX] != label)
                        && seen.get("Job", "work").is_some_and(|job| count(&job, "succeeded") == done)
                })
                .await?;
                w.settle().await?;
                let job = w.look(|seen| seen.get("Job", "work")).unwrap_or_default();
                w.note(format!("{} {}", job["status"]["completedIndexes"], w.look(indexes)));
            }
            for index in ["2", "3"] {
                let pod = w.look(|seen| of_index(seen, index));
                w.cluster.kubelet.exit(&pod, 0).await;
            }
            until_condition(&w, "Complete").await?;
            let job = w.look(|seen| seen.get("Job", "work")).unwrap_or_default();
            w.note(job["status"]["completedIndexes"].to_string());
        }),
        case!("J32", "some indexes are enough", |w| {
            w.fate("v1", Fate::OnCommand);
            let rules = json!([{ "succeededIndexes": "1-2", "succeededCount": 1 }]);
            w.create(job(json!({
                "parallelism": 3, "completions": 3, "completionMode": "Indexed", "successPolicy": { "rules": rules },
            })))
            .await?;
            w.until("three pods", |seen| running(seen).len() == 3).await?;
            w.settle().await?;
            for index in ["0", "2"] {
                let pod = w.look(|seen| of_index(seen, index));
                w.cluster.kubelet.exit(&pod, 0).await;
                let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                w.until("it ended", |seen| running(seen).iter().all(|pod| pod["metadata"]["name"] != name)).await?;
                w.settle().await?;
            }
            until_condition(&w, "Complete").await?;
        }),
        case!("J31", "an index that fails is tried again", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(job(json!({ "completionMode": "Indexed", "parallelism": 2, "completions": 2 }))).await?;
            w.until("two pods", |seen| running(seen).len() == 2).await?;
            let pod = w.look(|seen| of_index(seen, "0"));
            w.cluster.kubelet.exit(&pod, 1).await;
            w.until("two again", |seen| seen.names_ever("Pod").len() == 3 && running(seen).len() == 2).await?;
            w.note(w.look(indexes));
            for index in ["0", "1"] {
                let pod = w.look(|seen| of_index(seen, index));
                w.cluster.kubelet.exit(&pod, 0).await;
            }
            until_condition(&w, "Complete").await?;
        }),
    ]
}

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Returns a Job `work` of pods `v1`.
pub fn job(more: Value) -> Value {
    let mut template = template("work", "v1");
    template["spec"]["restartPolicy"] = json!("Never");
    let mut spec = json!({ "template": template });
    merge(&mut spec, more);
    json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "work" }, "spec": spec })
}

pub async fn until_condition(w: &World, kind: &'static str) -> Result<()> {
    w.until_object("Job", "work", kind, move |job| condition(job, kind).is_some_and(|(status, _)| status == "True"))
        .await
}

pub fn running(seen: &Seen) -> Vec<Arc<Value>> {
    let mut pods = active_pods(seen, None);
    pods.retain(|pod| pod["status"]["phase"] == "Running");
    pods
}

pub fn indexes(seen: &Seen) -> String {
    let pods = running(seen);
    let mut all: Vec<&str> = pods.iter().filter_map(|pod| pod["metadata"]["labels"][INDEX].as_str()).collect();
    all.sort_unstable();
    all.join(" ")
}

pub fn of_index(seen: &Seen, index: &str) -> Arc<Value> {
    let mut pods = running(seen).into_iter();
    pods.find(|pod| pod["metadata"]["labels"][INDEX] == index).unwrap_or_default()
}
