//! H: revisions, history, undo.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::workloads::{is_observed, sets, sizes};
use super::super::world::World;
use super::super::{Case, case};
use super::creation::{name_of, set};

pub fn cases() -> Vec<Case> {
    [undone(), annotated(), limited()].concat()
}

fn undone() -> Vec<Case> {
    vec![
        case!("H01", "three versions, three revisions", |w| {
            versions(&w, &["v2", "v3"]).await?;
            w.note(w.kubectl(&["rollout", "history", "deployment/web"]).await?);
        }),
        case!("H02", "undo goes back by one", |w| {
            versions(&w, &["v2", "v3"]).await?;
            w.note(w.kubectl(&["rollout", "undo", "deployment/web"]).await?);
            w.complete().await?;
            w.until("revision 4", |seen| revision(seen) == "4").await?;
            w.settle().await?;
            let annotations = set(&w, 1)["metadata"]["annotations"].clone();
            w.check(annotations["deployment.kubernetes.io/revision-history"] == "2", "once 2")?;
            w.note(w.kubectl(&["rollout", "history", "deployment/web"]).await?);
        }),
        case!("H03", "undo to the first revision, and again", |w| {
            versions(&w, &["v2", "v3"]).await?;
            w.note(w.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=1"]).await?);
            w.until("revision 4", |seen| revision(seen) == "4").await?;
            w.complete().await?;
            w.note(w.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=1"]).await?);
            w.note(w.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=4"]).await?);
        }),
        case!("H04", "undo to a revision that has moved on", |w| {
            versions(&w, &["v2"]).await?;
            w.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=1"]).await?;
            w.until("revision 3", |seen| revision(seen) == "3").await?;
            w.complete().await?;
            w.note(w.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=1"]).await?);
        }),
        case!("H05", "undo to where it is", |w| {
            versions(&w, &["v2"]).await?;
            let before = w.deployment()["metadata"]["generation"].clone();
            w.note(w.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=2"]).await?);
            w.settle().await?;
            w.check(w.deployment()["metadata"]["generation"] == before, "nothing written")?;
        }),
        case!("H16", "a revision written with the status is no new generation", |w| {
            w.rolled_out(1, json!({})).await?;
            let before = w.deployment()["metadata"]["generation"].clone();
            let annotations = json!({ "deployment.kubernetes.io/revision": "7" });
            w.merge_status("Deployment", "web", json!({ "metadata": { "annotations": annotations } })).await?;
            w.until("its own revision again", |seen| revision(seen) == "1").await?;
            w.check(w.deployment()["metadata"]["generation"] == before, "the same generation")?;
        }),
        case!("H06", "nothing to undo", |w| {
            w.rolled_out(1, json!({})).await?;
            w.note(w.kubectl(&["rollout", "undo", "deployment/web"]).await?);
        }),
        case!("H07", "no undo while paused", |w| {
            versions(&w, &["v2"]).await?;
            super::pausing::pause(&w, true).await?;
            super::pausing::until_reason(&w, "DeploymentPaused").await?;
            w.note(w.kubectl(&["rollout", "undo", "deployment/web"]).await?);
        }),
        case!("H08", "the change-cause goes back too", |w| {
            let cause = |cause: &str| json!({ "metadata": { "annotations": { "kubernetes.io/change-cause": cause, "stays": "no" } } });
            w.rolled_out(1, json!({})).await?;
            w.merge("Deployment", "web", cause("create")).await?;
            w.until("it copied", |seen| has_cause(seen, 0, "create")).await?;
            let mut change = cause("edit");
            change["spec"] = json!({ "template": { "spec": { "containers": [{ "name": "app", "image": "v2" }] } } });
            w.strategic("Deployment", "web", change).await?;
            w.until("it copied", |seen| has_cause(seen, 1, "edit")).await?;
            w.complete().await?;
            w.note(w.kubectl(&["rollout", "undo", "deployment/web"]).await?);
            w.until("revision 3", |seen| revision(seen) == "3").await?;
            w.complete().await?;
            w.note(w.kubectl(&["rollout", "history", "deployment/web"]).await?);
        }),
        case!("H09", "undo by annotation", |w| {
            versions(&w, &["v2"]).await?;
            roll_back(&w, "0").await?;
            w.until("revision 3", |seen| revision(seen) == "3").await?;
            w.complete().await?;
        }),
        case!("H10", "undo by annotation to what is not there", |w| {
            versions(&w, &["v2"]).await?;
            roll_back(&w, "99").await?;
            w.settle().await?;
            roll_back(&w, "2").await?;
        }),
    ]
}

fn annotated() -> Vec<Case> {
    vec![
        case!("H13", "a long history of numbers is cut", |w| {
            w.rolled_out(1, json!({})).await?;
            let long: Vec<String> = (1000..1400).map(|number| number.to_string()).collect();
            let history = json!({ "deployment.kubernetes.io/revision-history": long.join(",") });
            w.merge("ReplicaSet", &name_of(&set(&w, 0)), json!({ "metadata": { "annotations": history } })).await?;
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[0, 1]).await?;
            w.complete().await?;
            w.set_image("Deployment", "web", "v1").await?;
            w.until_sizes(&[1, 0]).await?;
            w.complete().await?;
            let annotations = set(&w, 0)["metadata"]["annotations"].clone();
            let history =
                annotations["deployment.kubernetes.io/revision-history"].as_str().unwrap_or_default().to_owned();
            w.check(history.len() <= 2000 && history.ends_with(",1"), "at most 2000 characters")?;
        }),
        case!("H14", "an annotation taken off the Deployment stays on the ReplicaSet", |w| {
            w.rolled_out(1, json!({})).await?;
            w.merge("Deployment", "web", json!({ "metadata": { "annotations": { "one": "1", "empty": "" } } })).await?;
            w.until("it copied", |seen| annotation(seen, "one").is_some()).await?;
            w.merge("Deployment", "web", json!({ "metadata": { "annotations": { "one": null } } })).await?;
            w.until_object("Deployment", "web", "the change observed", is_observed).await?;
        }),
        case!("H15", "an annotation is copied and makes no revision", |w| {
            w.rolled_out(1, json!({})).await?;
            w.merge("Deployment", "web", json!({ "metadata": { "annotations": { "one": "1" } } })).await?;
            w.until("it copied", |seen| annotation(seen, "one").is_some()).await?;
            w.until_object("Deployment", "web", "the change observed", is_observed).await?;
            w.check(w.revision() == "1", "revision 1")?;
        }),
        case!("H17", "a changed minReadySeconds reaches the new ReplicaSet only", |w| {
            versions(&w, &["v2"]).await?;
            w.merge("Deployment", "web", json!({ "spec": { "minReadySeconds": 1 } })).await?;
            w.until("it copied", |seen| {
                sets(seen).get(1).cloned().flatten().is_some_and(|set| set["spec"]["minReadySeconds"] == 1)
            })
            .await?;
        }),
        case!("H18", "a revision that is no number is left alone", |w| {
            w.rolled_out(1, json!({})).await?;
            let odd = json!({ "deployment.kubernetes.io/revision": "first" });
            w.merge("ReplicaSet", &name_of(&set(&w, 0)), json!({ "metadata": { "annotations": odd } })).await?;
            w.settle().await?;
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[0, 1]).await?;
            w.complete().await?;
        }),
    ]
}

fn limited() -> Vec<Case> {
    vec![
        case!("H11", "at most two old revisions are kept", |w| {
            w.rolled_out(1, json!({ "revisionHistoryLimit": 2 })).await?;
            for (round, image) in ["v2", "v3", "v4", "v5"].iter().enumerate() {
                w.set_image("Deployment", "web", image).await?;
                let number = (round + 2).to_string();
                w.until("the next revision", move |seen| revision(seen) == number).await?;
                w.complete().await?;
            }
            w.until("two old ones", |seen| seen.all("ReplicaSet").len() == 3).await?;
        }),
        case!("H12", "the lowest revision goes, not the oldest", |w| {
            w.rolled_out(1, json!({ "revisionHistoryLimit": 1 })).await?;
            for (image, wanted) in [("v2", "2"), ("v1", "3"), ("v3", "4")] {
                w.set_image("Deployment", "web", image).await?;
                w.until("the next revision", move |seen| revision(seen) == wanted).await?;
                w.complete().await?;
            }
            w.until("one old one", |seen| sizes(seen) == [0, -1, 1]).await?;
        }),
        case!("H11b", "with no limit to speak of, all are kept", |w| {
            w.rolled_out(1, json!({ "revisionHistoryLimit": 2_147_483_647 })).await?;
            for (image, wanted) in [("v2", "2"), ("v3", "3")] {
                w.set_image("Deployment", "web", image).await?;
                w.until("the next revision", move |seen| revision(seen) == wanted).await?;
                w.complete().await?;
            }
        }),
    ]
}

/// Version after version, each complete before the next.
async fn versions(w: &World, images: &[&str]) -> Result<()> {
    w.rolled_out(1, json!({})).await?;
    for (round, image) in images.iter().enumerate() {
        w.set_image("Deployment", "web", image).await?;
        let number = (round + 2).to_string();
        w.until("the next revision", move |seen| revision(seen) == number).await?;
        w.complete().await?;
    }
    w.settle().await
}

async fn roll_back(w: &World, to: &str) -> Result<()> {
    let wish = json!({ "deprecated.deployment.rollback.to": to });
    w.merge("Deployment", "web", json!({ "metadata": { "annotations": wish } })).await?;
    w.until_object("Deployment", "web", "no wish", |web| {
        web["metadata"]["annotations"]["deprecated.deployment.rollback.to"].is_null()
    })
    .await
}

fn revision(seen: &super::super::observer::Seen) -> String {
    let web = seen.get("Deployment", "web").unwrap_or_default();
    let revision = &web["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
    revision.as_str().unwrap_or_default().to_owned()
}

fn annotation(seen: &super::super::observer::Seen, name: &str) -> Option<Value> {
    let set = sets(seen).first().cloned().flatten()?;
    set["metadata"]["annotations"].get(name).cloned()
}

fn has_cause(seen: &super::super::observer::Seen, index: usize, cause: &str) -> bool {
    let set = sets(seen).get(index).cloned().flatten();
    set.is_some_and(|set| set["metadata"]["annotations"]["kubernetes.io/change-cause"] == cause)
}
