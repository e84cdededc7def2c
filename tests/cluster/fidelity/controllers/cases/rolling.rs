//! R: rolling updates.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::bounds::{Bounds, bounds};
use super::super::workloads::{rolling, sets};
use super::super::world::{World, condition, is_ready};
use super::super::{Case, Fate, case};
use super::creation::{name_of, set};

pub fn cases() -> Vec<Case> {
    [stepwise(), bounded(), unhealthy(), overtaken(), changed()].concat()
}

fn stepwise() -> Vec<Case> {
    vec![
        case!("R01", "a broken version stops at 8 and 5", |w| {
            stuck(&w).await?;
            w.check(condition(&w.deployment(), "Available").is_some_and(|(value, _)| value == "True"), "available")?;
        }),
        case!("R02", "five pods, one more, one fewer: step by step", |w| {
            w.rolled_out(5, rolling(json!(1), json!("25%"))).await?;
            let from = w.look(|seen| seen.history.len());
            roll_by_hand(&w, &[(0, &[4, 2]), (1, &[3, 3]), (2, &[2, 4]), (3, &[1, 5]), (4, &[0, 5])], 5).await?;
            let Bounds { most, fewest_ready } = w.look(|seen| bounds(seen, from));
            w.check(most <= 6 && fewest_ready >= 4, "at most 6, at least 4")?;
        }),
        case!("R03", "two pods, one more, none fewer", |w| {
            w.rolled_out(2, rolling(json!(1), json!(0))).await?;
            let from = w.look(|seen| seen.history.len());
            roll_by_hand(&w, &[(0, &[2, 1]), (1, &[1, 2])], 2).await?;
            let Bounds { most, fewest_ready } = w.look(|seen| bounds(seen, from));
            w.check(most <= 3 && fewest_ready >= 2, "at most 3, at least 2")?;
        }),
        case!("R04", "two pods, one more, 99 % fewer: one old goes at once", |w| {
            w.rolled_out(2, rolling(json!(1), json!("99%"))).await?;
            roll_by_hand(&w, &[(0, &[1, 2]), (1, &[0, 2])], 2).await?;
        }),
        case!("R06", "three pods, none more, one fewer: one by one", |w| {
            w.rolled_out(3, rolling(json!(0), json!(1))).await?;
            roll_by_hand(&w, &[(0, &[2, 1]), (1, &[1, 2]), (2, &[0, 3])], 3).await?;
        }),
        case!("R07", "fence posts that come to nothing let one be unavailable", |w| {
            w.rolled_out(2, rolling(json!(0), json!("1%"))).await?;
            roll_by_hand(&w, &[(0, &[1, 1]), (1, &[0, 2])], 2).await?;
        }),
    ]
}

fn bounded() -> Vec<Case> {
    vec![
        case!("R05", "four pods, a quarter: at most 5, at least 3", |w| {
            w.steps_may_differ();
            let bounds = roll(&w, 4, json!({})).await?;
            w.check(bounds.most <= 5 && bounds.fewest_ready >= 3, "at most 5, at least 3")?;
        }),
        case!("R11", "the bounds hold with minReadySeconds", |w| {
            let mut spec = rolling(json!("25%"), json!("25%"));
            spec["minReadySeconds"] = json!(2);
            w.steps_may_differ();
            let bounds = roll(&w, 20, spec).await?;
            w.check(bounds.most <= 25 && bounds.fewest_ready >= 15, "at most 25, at least 15")?;
        }),
        case!("R15", "rolled over from an adopted ReplicaSet and a missing image", |w| {
            let mut old = super::super::workloads::replicas("ReplicaSet", "web", 1, json!({}));
            old["metadata"] = json!({ "name": "mine", "labels": { "app": "web" } });
            old["spec"]["template"]["metadata"]["labels"]["old"] = json!("yes");
            old["spec"]["selector"]["matchLabels"]["old"] = json!("yes");
            w.create(old).await?;
            w.until("its pod", |seen| seen.all("Pod").len() == 1).await?;
            w.fate("v2", Fate::Pending);
            let container = json!({ "name": "app", "image": "v2" });
            w.create(super::super::workloads::deployment(
                1,
                json!({ "template": { "spec": { "containers": [container] } } }),
            ))
            .await?;
            w.until_sizes(&[1, 1]).await?;
            w.settle().await?;
            w.set_image("Deployment", "web", "v3").await?;
            w.until_sizes(&[0, 0, 1]).await?;
            w.complete().await?;
            w.check(w.revision() == "2", "revision 2")?;
        }),
        case!("R16", "one pod is replaced without a gap", |w| {
            let bounds = roll(&w, 1, json!({})).await?;
            w.check(bounds.most == 2 && bounds.fewest_ready == 1, "two at most, one always")?;
        }),
        case!("R17", "no pods: complete at once", |w| {
            w.rolled_out(0, json!({})).await?;
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[0, 0]).await?;
            w.complete().await?;
        }),
    ]
}

fn unhealthy() -> Vec<Case> {
    vec![
        case!("R08", "two pods that are not ready go first", |w| {
            half_ready(&w, 8).await?;
            w.check(w.pods("v1").iter().all(|pod| is_ready(pod)), "the unready ones went")?;
        }),
        case!("R09", "one that is not ready and one that is", |w| {
            // The new ones come at once or one after the other, as the real controller hears of the two that go.
            w.steps_may_differ();
            half_ready(&w, 9).await?;
            w.check(w.pods("v1").iter().all(|pod| is_ready(pod)), "the unready one went")?;
        }),
        case!("R10", "no further while the new ones are not available", |w| {
            half_ready(&w, 10).await?;
            w.settle().await?;
            w.check(w.sizes() == [8, 2], "8 and 2")?;
        }),
    ]
}

fn overtaken() -> Vec<Case> {
    vec![
        case!("R12", "a third version takes the place of the stuck second", |w| {
            stuck(&w).await?;
            w.fate("v3", Fate::OnCommand);
            w.set_image("Deployment", "web", "v3").await?;
            w.until_sizes(&[8, 0, 5]).await?;
        }),
        case!("R13", "the oldest version goes first", |w| {
            w.steps_may_differ();
            w.rolled_out(10, json!({})).await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[8, 5]).await?;
            w.ready("v2", 3).await?;
            w.until_sizes(&[5, 8]).await?;
            w.merge("Deployment", "web", json!({ "spec": { "paused": true } })).await?;
            w.ready("v2", 8).await?;
            w.settle().await?;
            w.fate("v3", Fate::OnCommand);
            let container = json!({ "name": "app", "image": "v3" });
            let patch = json!({ "spec": { "paused": false, "template": { "spec": { "containers": [container] } } } });
            w.strategic("Deployment", "web", patch).await?;
            w.until_sizes(&[0, 8, 5]).await?;
        }),
        case!("R14", "back from a stuck version while an old pod is not ready", |w| {
            stuck(&w).await?;
            w.fate("v1", Fate::OnCommand);
            let pod = w.pods("v1")[0].clone();
            w.cluster.kubelet.set_ready(&pod, false).await;
            w.until_object("Deployment", "web", "7 available", |web| web["status"]["availableReplicas"] == 7).await?;
            w.set_image("Deployment", "web", "v1").await?;
            w.until("growth", |seen| sets(seen)[0].as_ref().is_some_and(|set| set["spec"]["replicas"] == 10)).await?;
            w.fate("v1", Fate::Ready);
            w.ready("v1", 10).await?;
            w.complete().await?;
            w.check(w.revision() == "3", "revision 3")?;
        }),
        case!("R21", "back to the first version before the second is ready", |w| {
            w.rolled_out(3, json!({})).await?;
            w.fate("v2", Fate::OnCommand);
            w.set_image("Deployment", "web", "v2").await?;
            w.until_sizes(&[3, 1]).await?;
            w.settle().await?;
            w.set_image("Deployment", "web", "v1").await?;
            w.until_sizes(&[3, 0]).await?;
            w.settle().await?;
            let annotations = set(&w, 0)["metadata"]["annotations"].clone();
            w.check(annotations["deployment.kubernetes.io/revision"] == "3", "revision 3")?;
            w.check(annotations["deployment.kubernetes.io/revision-history"] == "1", "once 1")?;
        }),
    ]
}

fn changed() -> Vec<Case> {
    vec![
        case!("R18", "a new ReplicaSet that is too large is cut down", |w| {
            // The number of pods that are made or deleted meanwhile depends on who is faster.
            w.steps_may_differ();
            stuck(&w).await?;
            w.scale("ReplicaSet", &name_of(&set(&w, 1)), 11).await?;
            w.until_sizes(&[8, 10]).await?;
        }),
        case!("R19", "a greater surge takes effect in the middle", |w| {
            stuck(&w).await?;
            w.merge("Deployment", "web", rolling_patch(json!("100%"))).await?;
            w.until_sizes(&[8, 10]).await?;
        }),
        case!("R20", "defaults written out are no change", |w| {
            w.rolled_out(1, json!({})).await?;
            let container = json!({
                "name": "app", "imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log",
                "env": [],
            });
            let spec =
                json!({ "containers": [container], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30 });
            w.strategic("Deployment", "web", json!({ "spec": { "template": { "spec": spec } } })).await?;
            w.settle().await?;
            w.check(w.sizes() == [1], "no new ReplicaSet")?;
        }),
        case!("R22", "a quantity written differently is no change", |w| {
            w.rolled_out(1, json!({ "template": { "spec": { "containers": [cpu("1")] } } })).await?;
            w.strategic(
                "Deployment",
                "web",
                json!({ "spec": { "template": { "spec": { "containers": [cpu("1000m")] } } } }),
            )
            .await?;
            w.settle().await?;
            w.check(w.sizes() == [1], "no new ReplicaSet")?;
        }),
    ]
}

fn cpu(amount: &str) -> Value {
    json!({ "name": "app", "image": "v1", "resources": { "requests": { "cpu": amount } } })
}

fn rolling_patch(surge: Value) -> Value {
    json!({ "spec": { "strategy": { "rollingUpdate": { "maxSurge": surge } } } })
}

/// Ten pods of the first version, of which eight are left, and five of a second one that never becomes ready.
pub async fn stuck(w: &World) -> Result<()> {
    w.rolled_out(10, json!({})).await?;
    w.fate("v2", Fate::OnCommand);
    w.set_image("Deployment", "web", "v2").await?;
    w.until_sizes(&[8, 5]).await?;
    w.until("five pods of v2", |seen| super::super::world::active_pods(seen, Some("v2")).len() == 5).await?;
    w.settle().await
}

/// Rolls the second version out; after so many pods are ready, the sizes must be these.
async fn roll_by_hand(w: &World, steps: &[(usize, &[i64])], all: usize) -> Result<()> {
    w.fate("v2", Fate::OnCommand);
    w.set_image("Deployment", "web", "v2").await?;
    for (ready, sizes) in steps {
        w.ready("v2", *ready).await?;
        w.until_sizes(sizes).await?;
        w.settle().await?;
        w.check(w.sizes() == *sizes, "the sizes stay")?;
    }
    w.ready("v2", all).await?;
    w.complete().await
}

/// Rolls a second version out that becomes ready by itself; returns the bounds.
async fn roll(w: &World, replicas: i32, spec: Value) -> Result<Bounds> {
    w.rolled_out(replicas, spec).await?;
    let from = w.look(|seen| seen.history.len());
    w.set_image("Deployment", "web", "v2").await?;
    w.until_object("Deployment", "web", "revision 2", |web| {
        web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    })
    .await?;
    w.complete().await?;
    Ok(w.look(|seen| bounds(seen, from)))
}

/// Ten pods, so many of them ready, with two that may be missing; then a second version.
async fn half_ready(w: &World, ready: usize) -> Result<()> {
    w.fate("v1", Fate::OnCommand);
    w.create(super::super::workloads::deployment(10, rolling(json!(0), json!(2)))).await?;
    w.ready("v1", ready).await?;
    w.until_object("Deployment", "web", "so many available", |web| web["status"]["availableReplicas"] == ready).await?;
    w.settle().await?;
    w.fate("v2", Fate::OnCommand);
    w.set_image("Deployment", "web", "v2").await?;
    w.until_sizes(&[8, 2]).await?;
    w.settle().await
}
