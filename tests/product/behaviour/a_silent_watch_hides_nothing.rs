//! A rollout is judged by its object also while the watch of its kind tells nothing: its list takes long, or fails, and the
//! object itself can be read.

use std::time::Duration;

use belay_core::rollout::Outcome;
use serde_json::{Value, json};

use crate::support::daemon::{WIDGETS, World, broken};
use crate::support::tap::{Fate, Tap, Went};

const WIDGET: &str = "apis/example.com/v1/namespaces/default/widgets/one";

/// Returns true for a list of all objects of a kind, from which its watch begins.
fn lists(went: &Went, resource: &str) -> bool {
    went.method == "GET" && went.path.contains(&format!("/{resource}?")) && went.path.contains("labelSelector")
}

/// From here on the lists of a kind have this fate.
fn lists_fare(tap: &Tap, resource: &'static str, fate: Fate) {
    tap.rule(move |went, _| if lists(went, resource) { fate } else { Fate::Pass });
}

fn with_status() -> String {
    WIDGETS.replace("    schema:\n", "    subresources: {status: {}}\n    schema:\n").replace(
        "properties: {spec:",
        "properties: {status: {type: object, x-kubernetes-preserve-unknown-fields: true}, spec:",
    )
}

/// Returns a Deployment whose pods are slow, and are given the time.
fn slow(fate: &str) -> String {
    broken("web", fate).replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 600")
}

/// The status that an operator writes: the object is ready, or on its way.
fn status(ready: bool) -> Value {
    let (status, reason) = if ready { ("True", "Ready") } else { ("Unknown", "Progressing") };
    json!({"status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": status, "reason": reason,
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

/// Returns the time that a record of a commit took until it was complete.
fn took(world: &World, commit: &str, object: &str) -> i64 {
    let record = world.record(commit, object);
    assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    record.ended.unwrap().duration_since(record.started).as_secs()
}

#[tokio::test(start_paused = true)]
async fn the_first_status_of_a_kind_that_was_just_defined() {
    for ready_at in [3, 50] {
        let (mut world, tap) = World::tapped().await;
        lists_fare(&tap, "widgets", Fate::After(Duration::from_mins(10)));
        world.repository.write("definition.yaml", with_status());
        let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one}\nspec: {size: 1}\n";
        let first = world.push("widget.yaml", widget, "Both");
        world.start();
        while world.get(WIDGET).await.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.patch(&format!("{WIDGET}/status"), "operator", &status(false)).await;
        tokio::time::sleep(Duration::from_secs(ready_at - 2)).await;
        world.patch(&format!("{WIDGET}/status"), "operator", &status(true)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let took = took(&world, &first, "Widget default/one");
        assert!(took <= i64::try_from(ready_at).unwrap() + 35, "ready after {ready_at} s, and complete after {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_workload_whose_kind_can_not_be_listed() {
    let (mut world, tap) = World::tapped().await;
    lists_fare(&tap, "deployments", Fate::Fail(500));
    let first = world.push("web.yaml", &slow("ready-after=60s"), "Slow to start");
    world.start();
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_mins(4)).await;
    let took = took(&world, &first, "Deployment default/web");
    assert!((60..=100).contains(&took), "{took} s");
}

/// It told of the rollout before. The deadline that passes then is that of what it told last.
#[tokio::test(start_paused = true)]
async fn a_workload_whose_watch_ends_on_the_way() {
    let (mut world, tap) = World::tapped().await;
    world.with_first_version().await;
    let slow = world.push("web.yaml", &slow("ready-after=400s"), "Slow to start");
    world.until("it is under way", |source| source.under_way.values().any(|way| way.counters.updated > 0)).await;
    lists_fare(&tap, "deployments", Fate::Fail(500));
    tap.refuse_watches(true);
    world.through(&slow).await;
    assert_eq!(world.record(&slow, "Deployment default/web").outcome, Outcome::Complete);
}
