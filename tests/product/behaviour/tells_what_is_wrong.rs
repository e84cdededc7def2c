//! A failure is told while it happens, with the words of the cluster, and at the place in which the object is written now.

use std::time::Duration;

use belay::web::Web;
use belay_core::rollout::Outcome;
use serde_json::Value;

use crate::shows_itself_over_http::get;
use crate::support::daemon::{World, deployment};

/// The sample Deployment with a volume from a Secret.
fn with_volume(image: &str, secret: &str) -> String {
    let volumes =
        format!("    spec:\n      volumes: [{{name: v, secret: {{secretName: {secret}}}}}]\n      containers");
    deployment("web", image, "").replace("    spec:\n      containers", &volumes)
        + "        volumeMounts: [{name: v, mountPath: /v}]\n"
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_missing_is_told_while_the_pod_waits_for_it() {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &with_volume("web:2", "nowhere"), "Mount what is not there");
    world
        .until("its events are told", |source| {
            let told = source.under_way.values().filter_map(|way| way.wrong.as_deref());
            told.into_iter().any(|wrong| {
                wrong.starts_with("1 new pod: ContainerCreating (FailedMount: ")
                    && wrong.contains("\"nowhere\" not found")
            })
        })
        .await;
    world.through(&bad).await;
    let record = world.record(&bad, "Deployment default/web");
    let reason = record.reason.expect("a reason").message;
    assert_eq!(record.outcome, Outcome::RolledBack);
    assert!(reason.contains("is ContainerCreating (container app): FailedMount: "), "{reason}");
    assert!(reason.ends_with("\"nowhere\" not found"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn pods_that_can_not_be_made_are_told_while_the_rollout_waits_for_them() {
    let mut world = World::embedded().await;
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: small}\nspec: {hard: {pods: \"2\"}}\n";
    world.repository.write("quota.yaml", quota);
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.through(&first).await;
    world.push("web.yaml", &deployment("web", "web:2", ""), "One pod too many");
    let told = |wrong: &str| wrong.contains("no new pod can be made: ") && wrong.contains("exceeded quota: small");
    let all = "pods that can't be made are told";
    world.until(all, |source| source.under_way.values().filter_map(|way| way.wrong.as_deref()).any(told)).await;
}

#[tokio::test(start_paused = true)]
async fn the_place_of_what_was_refused_follows_its_file() {
    let (mut world, _) = World::with_web().await;
    let other = deployment("web", "web:1", "").replace("{app: web}", "{app: other}");
    let refused = world.push("web.yaml", &other, "Another selector");
    world.through(&refused).await;
    let key = world.record(&refused, "Deployment default/web").object;
    assert_eq!(world.record(&refused, "Deployment default/web").outcome, Outcome::Rejected);
    let place = |source: &belay::daemon::SourceStatus| source.ended.get(&key)?.place.as_ref().map(ToString::to_string);
    world.until("it is told", |source| place(source).is_some_and(|place| place.starts_with("web.yaml:"))).await;
    world.repository.remove("web.yaml").write("deep/below/b.yaml", format!("# moved\n{other}"));
    let moved = world.repository.commit("Move it");
    world.repository.push();
    world.through(&moved).await;
    world
        .until("its place is told", |source| place(source).is_some_and(|place| place.starts_with("deep/below/b.yaml:")))
        .await;
    // A restart knows it, too.
    world.kill().await;
    world.start();
    world.until("it is planned", |source| source.planned.as_ref().is_some_and(|head| head.as_str() == moved)).await;
    world
        .until("its place is told", |source| place(source).is_some_and(|place| place.starts_with("deep/below/b.yaml:")))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_missing_is_told_with_what_to_do() {
    let (mut world, _) = World::with_web().await;
    let elsewhere = deployment("db", "db:1", "").replace("  name: db\n", "  name: db\n  namespace: nowhere\n");
    world.push("db.yaml", &elsewhere, "In no namespace");
    let words =
        "waits for the namespace nowhere, which does not exist: write the Namespace into the repository, or create it";
    let said = |message: &str| message.starts_with(words);
    world.until("it is told", |source| source.under_way.values().any(|way| said(&way.message))).await;
    let wrong = world.status().wrong();
    assert!(
        wrong.iter().any(|line| line.contains("Deployment nowhere/db: waiting: waits for the namespace")),
        "{wrong:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_defines_is_told() {
    let (mut world, _) = World::with_web().await;
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {}\n";
    world.push("widget.yaml", widget, "A kind that nobody knows");
    let words = "waits for the kind Widget of example.com, which the cluster does not know and no file of the repository defines";
    let said = |message: &str| message.starts_with(words);
    world
        .until("it is told", |source| {
            let waiting = source.under_way.values().any(|way| said(&way.message));
            waiting || source.obstacles.trouble.values().any(|message| said(message))
        })
        .await;
}

/// The duration of a commit counts from when it was written: nothing is known of one that was live before belay came.
#[tokio::test(start_paused = true)]
async fn what_was_there_before_is_no_delivery() {
    let mut world = World::embedded().await;
    let text = deployment("web", "web:1", "");
    let manifest: Value =
        belay_core::manifest::yaml::documents(&text).0[0].read().0.expect("a document").value().clone();
    world.create("apis/apps/v1/namespaces/default/deployments", "kubectl", &manifest).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    let first = world.push("web.yaml", &text, "What is there already");
    world.start();
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    world.through(&first).await;
    let record = world.record(&first, "Deployment default/web");
    assert_eq!((record.outcome, record.rolls_out), (Outcome::Complete, false));
    let counted = |count: u8| format!("belay_commit_to_complete_seconds_count{{source=\"shop\"}} {count}\n");
    let metrics = get(&web, "/metrics").await;
    assert!(!metrics.contains(&counted(1)), "{metrics}");
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    let metrics = get(&web, "/metrics").await;
    assert!(metrics.contains(&counted(1)), "{metrics}");
}
