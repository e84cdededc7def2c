//! S: scaling.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::workloads::{deployment, rolling, template};
use super::super::world::World;
use super::super::{Case, Fate, case};
use super::creation::{name_of, set};
use super::rolling::stuck;

pub fn cases() -> Vec<Case> {
    [whole(), in_proportion()].concat()
}

fn whole() -> Vec<Case> {
    vec![
        case!("S01", "a complete one scales its ReplicaSet", |w| {
            w.rolled_out(10, json!({})).await?;
            w.scale("Deployment", "web", 12).await?;
            w.complete().await?;
            w.scale("Deployment", "web", 5).await?;
            w.complete().await?;
            let annotations = set(&w, 0)["metadata"]["annotations"].clone();
            w.check(annotations["deployment.kubernetes.io/desired-replicas"] == "5", "desired-replicas")?;
            w.check(annotations["deployment.kubernetes.io/max-replicas"] == "7", "max-replicas")?;
        }),
        case!("S02", "8 and 5, scaled to 30: 20 and 13", |w| {
            w.rolled_out(10, rolling(json!(3), json!(2))).await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[8, 5]).await?;
            w.settle().await?;
            w.scale("Deployment", "web", 30).await?;
            w.until_sizes(&[20, 13]).await?;
        }),
        case!("S03", "8 and 5, surge 3, scaled to 15: 11 and 7", |w| {
            w.rolled_out(10, rolling(json!(3), json!(2))).await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[8, 5]).await?;
            w.settle().await?;
            w.scale("Deployment", "web", 15).await?;
            w.until_sizes(&[11, 7]).await?;
        }),
        case!("S15", "a paused one scales", |w| {
            w.rolled_out(1, json!({})).await?;
            w.merge("Deployment", "web", json!({ "spec": { "paused": true } })).await?;
            w.scale("Deployment", "web", 10).await?;
            w.until_sizes(&[10]).await?;
        }),
        case!("S16", "stuck, scaled and changed in one update", |w| {
            w.steps_may_differ();
            stuck(&w).await?;
            scale_and_change(&w, 20).await?;
        }),
        case!("S17", "stuck, scaled down and changed in one update", |w| {
            w.steps_may_differ();
            stuck(&w).await?;
            scale_and_change(&w, 5).await?;
        }),
        case!("S18", "the scale subresource", |w| {
            w.rolled_out(1, json!({})).await?;
            for size in [3, 0] {
                let path = format!("{}/web/scale", w.path("Deployment"));
                let mut scale = w.send("GET", &path, "application/json", &Value::Null).await?;
                scale["spec"]["replicas"] = json!(size);
                // The controller writes at the same time.
                scale["metadata"]["resourceVersion"] = Value::Null;
                let answer = w.send("PUT", &path, "application/json", &scale).await?;
                w.note(format!("{} {}", answer["spec"], answer["status"]["selector"]));
                w.until_object("Deployment", "web", "the size", |web| web["spec"]["replicas"] == size).await?;
                w.complete().await?;
            }
        }),
        case!("S19", "a ReplicaSet scaled by hand is put back", |w| {
            w.steps_may_differ();
            w.rolled_out(2, json!({})).await?;
            w.scale("ReplicaSet", &name_of(&set(&w, 0)), 5).await?;
            w.until("a ReplicaSet of 5 that is 2 again", |seen| {
                let sizes: Vec<_> = seen.history.iter().filter(|step| step.kind == "ReplicaSet").collect();
                let last = sizes.last().map(|step| step.object["spec"]["replicas"].clone());
                sizes.iter().any(|step| step.object["spec"]["replicas"] == 5) && last == Some(json!(2))
            })
            .await?;
            w.complete().await?;
        }),
        case!("S20", "a stale size on a ReplicaSet hides a template change", |w| {
            w.rolled_out(3, json!({})).await?;
            let stale = json!({ "deployment.kubernetes.io/desired-replicas": "4" });
            w.merge("ReplicaSet", &name_of(&set(&w, 0)), json!({ "metadata": { "annotations": stale } })).await?;
            w.settle().await?;
            w.set_image("Deployment", "web", "v2").await?;
            w.settle().await?;
            w.check(w.sizes() == [3], "no new ReplicaSet")?;
        }),
    ]
}

/// A row of the table of proportions: paused, the Deployment scales ReplicaSets that it finds.
macro_rules! row {
    ($id:literal, $from:literal => $to:literal, surge $before:literal => $after:literal, $sizes:expr => $then:expr) => {
        case!($id, concat!("in proportion, from ", $from, " to ", $to), |w| {
            let sizes: &[i64] = &$sizes;
            let then: &[i64] = &$then;
            share(&w, ($from, $before), ($to, $after), sizes, then).await?;
        })
    };
}

/// Sizes are given newest first; the newest is the new one, unless its size is -1 and there is none.
fn in_proportion() -> Vec<Case> {
    vec![
        row!("S04", 5 => 10, surge 0 => 0, [2, 3] => [4, 6]),
        row!("S05", 5 => 3, surge 0 => 0, [2, 3] => [1, 2]),
        row!("S06", 9 => 4, surge 0 => 0, [8, 1] => [4, 0]),
        row!("S07", 7 => 10, surge 0 => 0, [2, 3, 2] => [3, 4, 3]),
        row!("S08", 13 => 8, surge 0 => 0, [2, 8, 3] => [1, 5, 2]),
        row!("S09", 3 => 4, surge 0 => 0, [1, 1, 1] => [2, 1, 1]),
        row!("S10", 3 => 2, surge 0 => 0, [1, 1, 1] => [1, 1, 0]),
        row!("S11", 4 => 5, surge 0 => 0, [-1, 2, 2] => [-1, 3, 2]),
        row!("S12", 6 => 0, surge 0 => 0, [3, 2, 1] => [0, 0, 0]),
        row!("S13", 0 => 6, surge 0 => 0, [0, 0, 0] => [6, 0, 0]),
        row!("S14", 10 => 20, surge 2 => 2, [6, 6] => [11, 11]),
        row!("S14b", 10 => 50, surge 3 => 6, [5, 8] => [22, 34]),
        row!("S14c", 10 => 14, surge 0 => 0, [-1, 7, 3] => [-1, 10, 4]),
        row!("S14d", 10 => 30, surge 3 => 3, [5, 8] => [13, 20]),
        row!("S14e", 10 => 15, surge 3 => 3, [5, 8] => [7, 11]),
    ]
}

async fn share(w: &World, from: (i64, i64), to: (i64, i64), sizes: &[i64], then: &[i64]) -> Result<()> {
    for image in ["v1", "v2", "v3"] {
        w.fate(image, Fate::Unbound);
    }
    for (age, size) in sizes.iter().enumerate().rev().filter(|(_, size)| **size >= 0) {
        let image = format!("v{}", sizes.len() - age);
        // Made within one second, they go by their names.
        let name = format!("set-{}", sizes.len() - age);
        let mut template = template("web", &image);
        template["metadata"]["labels"]["set"] = json!(name);
        w.create(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": name, "labels": { "app": "web" },
                "annotations": {
                    "deployment.kubernetes.io/desired-replicas": from.0.to_string(),
                    "deployment.kubernetes.io/max-replicas": (from.0 + from.1).to_string(),
                },
            },
            "spec": {
                "replicas": size, "selector": { "matchLabels": { "app": "web", "set": name } }, "template": template,
            },
        }))
        .await?;
    }
    w.settle().await?;
    let mut spec = rolling(json!(to.1), json!(1));
    spec["paused"] = json!(true);
    let mut web = deployment(i32::try_from(to.0)?, spec);
    let newest = sizes.len();
    web["spec"]["template"] = template("web", &format!("v{newest}"));
    web["spec"]["template"]["metadata"]["labels"]["set"] = json!(format!("set-{newest}"));
    w.create(web).await?;
    let wanted: Vec<i64> = then.iter().rev().copied().filter(|size| *size >= 0).collect();
    w.until_sizes(&wanted).await
}

async fn scale_and_change(w: &World, size: i32) -> Result<()> {
    // Pods that become ready between two steps would decide which of them go.
    w.fate("v1", Fate::OnCommand);
    w.fate("v3", Fate::OnCommand);
    let container = json!({ "name": "app", "image": "v3" });
    let patch = json!({ "spec": { "replicas": size, "template": { "spec": { "containers": [container] } } } });
    w.strategic("Deployment", "web", patch).await?;
    w.until("a third ReplicaSet", |seen| super::super::workloads::sizes(seen).len() == 3).await?;
    w.settle().await
}
