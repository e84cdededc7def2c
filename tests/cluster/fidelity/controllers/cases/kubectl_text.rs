//! K: what kubectl says.

use std::time::Duration;

use serde_json::json;

use super::super::workloads::{deployment, sizes};
use super::super::world::Cascade;
use super::super::{Case, Fate, case};
use super::pausing::pause;

pub fn cases() -> Vec<Case> {
    vec![
        case!("K01", "the status of a rollout, at its start and at its end", |w| {
            w.rolled_out(2, json!({})).await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[2, 1]).await?;
            w.settle().await?;
            w.note_kubectl(&["rollout", "status", "deployment/web", "--watch=false"]).await?;
            w.ready("v2", 1).await?;
            w.until_sizes(&[1, 2]).await?;
            w.settle().await?;
            w.note_kubectl(&["rollout", "status", "deployment/web", "--watch=false"]).await?;
            w.ready("v2", 2).await?;
            w.complete().await?;
            w.note_kubectl(&["rollout", "status", "deployment/web"]).await?;
        }),
        case!("K02", "the status of a rollout past its deadline", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(deployment(1, json!({ "progressDeadlineSeconds": 2 }))).await?;
            super::pausing::until_reason(&w, "ProgressDeadlineExceeded").await?;
            w.note_kubectl(&["rollout", "status", "deployment/web"]).await?;
        }),
        case!("K03", "the status that takes too long", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(deployment(1, json!({}))).await?;
            w.until_sizes(&[1]).await?;
            w.settle().await?;
            let said = w.kubectl(&["rollout", "status", "deployment/web", "--timeout=1s"]).await?;
            // The number of these lines depends on how often anything happens.
            w.note(said.lines().last().unwrap_or_default());
        }),
        case!("K04", "deleted while its status is watched", |w| {
            w.fate("v1", Fate::OnCommand);
            w.create(deployment(1, json!({}))).await?;
            w.until_sizes(&[1]).await?;
            w.settle().await?;
            let watching = w.kubectl(&["rollout", "status", "deployment/web"]);
            let deleting = async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                w.delete("Deployment", "web", Cascade::Background).await
            };
            let (said, deleted) = tokio::join!(watching, deleting);
            deleted?;
            w.until("nothing left", |seen| seen.all("Pod").is_empty() && seen.all("ReplicaSet").is_empty()).await?;
            let said = said?;
            w.note(format!(
                "{} … {}",
                said.split(':').next().unwrap_or_default(),
                said.rsplit("error:").next().unwrap_or_default()
            ));
        }),
        case!("K05", "pause and resume twice, restart while paused", |w| {
            w.rolled_out(1, json!({})).await?;
            for arguments in [["pause"], ["pause"], ["restart"], ["resume"], ["resume"], ["restart"]] {
                w.note_kubectl(&["rollout", arguments[0], "deployment/web"]).await?;
            }
            w.complete().await?;
            w.until("two revisions", |seen| sizes(seen) == [0, 1]).await?;
        }),
        case!("K06", "images of containers that are not there, and the same image", |w| {
            w.rolled_out(1, json!({})).await?;
            for image in ["other=v2", "app=v1", "app=v2", "*=v3"] {
                w.note_kubectl(&["set", "image", "deployment/web", image]).await?;
                w.settle().await?;
            }
            w.complete().await?;
            w.note_kubectl(&["scale", "deployment/web", "--replicas=2", "--current-replicas=5"]).await?;
            w.note_kubectl(&["scale", "deployment/web", "--replicas=2"]).await?;
            w.complete().await?;
        }),
        case!("K07", "columns", |w| {
            w.rolled_out(1, json!({})).await?;
            w.settle().await?;
            w.note_kubectl(&["get", "deployments,replicasets"]).await?;
            w.note_kubectl(&["get", "deployments,replicasets", "-o", "wide"]).await?;
            w.note_kubectl(&["get", "pods"]).await?;
        }),
        case!("K08", "applied twice, and the difference", |w| {
            let manifest = file(&w.namespace, "v1", "");
            w.note_kubectl(&["apply", "-f", manifest.to_str().unwrap_or_default()]).await?;
            w.complete().await?;
            w.note_kubectl(&["apply", "-f", manifest.to_str().unwrap_or_default()]).await?;
            let same = w.kubectl(&["diff", "-f", manifest.to_str().unwrap_or_default()]).await?;
            w.note(same);
            let changed = file(&w.namespace, "v2", "");
            let said = w.kubectl(&["diff", "-f", changed.to_str().unwrap_or_default()]).await?;
            let images: Vec<&str> = said.lines().filter(|line| line.contains("image:")).collect();
            w.note(format!("{} {images:?}", said.split(':').next().unwrap_or_default()));
            w.note_kubectl(&["apply", "-f", changed.to_str().unwrap_or_default()]).await?;
            w.complete().await?;
        }),
        case!("K09", "two managers", |w| {
            let manifest = file(&w.namespace, "v1", "");
            let one = ["apply", "--server-side", "-f", manifest.to_str().unwrap_or_default(), "--field-manager=one"];
            w.note_kubectl(&one).await?;
            w.complete().await?;
            let changed = file(&w.namespace, "v2", "");
            let path = changed.to_str().unwrap_or_default();
            w.note_kubectl(&["apply", "--server-side", "-f", path, "--field-manager=two"]).await?;
            w.note_kubectl(&["apply", "--server-side", "-f", path, "--field-manager=two", "--force-conflicts"]).await?;
            w.complete().await?;
        }),
        case!("K10", "a field that nobody knows", |w| {
            let manifest = file(&w.namespace, "v1", "  nonsense: true\n");
            let path = manifest.to_str().unwrap_or_default();
            w.note(w.kubectl(&["apply", "-f", path]).await?.replace(path, "web.yaml"));
        }),
        case!("K11", "paused in the middle, kubectl waits; history and undo", |w| {
            w.rolled_out(1, json!({})).await?;
            pause(&w, true).await?;
            w.set_image("Deployment", "web", "v2").await?;
            w.settle().await?;
            w.note_kubectl(&["rollout", "status", "deployment/web", "--watch=false"]).await?;
            w.note_kubectl(&["rollout", "history", "deployment/web"]).await?;
            w.note_kubectl(&["rollout", "history", "deployment/web", "--revision=7"]).await?;
        }),
    ]
}

/// Returns a manifest of a Deployment `web`, written for kubectl. It stays in the machine's temporary folder for the
/// test's time.
fn file(case: &str, image: &str, more: &str) -> tempfile::TempPath {
    let text = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n{more}  replicas: 1\n  selector:\n    \
         matchLabels: {{app: web}}\n  template:\n    metadata:\n      labels: {{app: web}}\n    spec:\n      containers:\n      \
         - {{name: app, image: {image}}}\n"
    );
    let mut file = tempfile::Builder::new().prefix(case).suffix(".yaml").tempfile().unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    file.into_temp_path()
}
