//! Objects, namespaces and definitions that stay in deletion are waited for with a limit; belay goes on when they are gone.

use std::time::Duration;

use belay_core::rollout::{Outcome, ReasonCode, SourceState};
use serde_json::json;

use crate::support::daemon::{World, config_map};

const MAP: &str = "api/v1/namespaces/default/configmaps/map-0";
const SHOP: &str = "api/v1/namespaces/shop";
const IN_SHOP: &str = "api/v1/namespaces/shop/configmaps/a";
const CRD: &str = "apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const WIDGET: &str = "apis/example.com/v1/namespaces/default/widgets/w";

fn in_shop(name: &str, value: &str) -> String {
    config_map(name, value).replace("metadata:", "metadata:\n  namespace: shop")
}

/// Checks that the wait for an object has ended, that its reason names these words, and that no record follows it.
async fn is_given_up(world: &mut World, commit: &str, object: &str, words: &[&str]) {
    world.through(commit).await;
    let record = world.record(commit, object);
    let reason = record.reason.clone().unwrap();
    assert_eq!((record.outcome, &reason.code), (Outcome::Failed, &ReasonCode::DeletionHangs), "{record:#?}");
    assert!(reason.message.contains("waited for all of outage_timeout, 600 s"), "{reason}");
    words.iter().for_each(|word| assert!(reason.message.contains(word), "{word}: {reason}"));
    let waited = record.ended.unwrap().duration_since(record.started).as_secs();
    assert!((600..700).contains(&waited), "{object}: {waited} s");
    assert_eq!(world.status().state(), SourceState::Degraded);
}

/// Checks that nothing is recorded while nothing changes.
async fn is_quiet(world: &World) {
    let records = world.records().len();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(world.records().len(), records, "{:#?}", world.records().first());
}

async fn is_applied(world: &mut World, path: &str, value: &str) {
    world.until("all is well again", |source| source.state() == SourceState::Synced).await;
    assert_eq!(world.get(path).await.unwrap()["data"]["A"], value);
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_an_object_that_is_wanted_again() {
    let mut world = World::embedded().await;
    world.with_maps(1).await;
    let kept = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    world.patch(MAP, "somebody", &kept).await;
    world.delete(MAP).await;
    let second = world.push("0.yaml", &config_map("map-0", "2"), "Second version");
    is_given_up(&mut world, &second, "ConfigMap default/map-0", &["example.com/keep"]).await;
    is_quiet(&world).await;
    // A start begins one wait more, and no other.
    world.stop().await;
    world.start();
    tokio::time::sleep(Duration::from_mins(20)).await;
    is_quiet(&world).await;
    world.patch(MAP, "somebody", &json!({"metadata": {"finalizers": null}})).await;
    is_applied(&mut world, MAP, "2").await;
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_namespace_and_what_lies_in_it() {
    let mut world = World::embedded().await;
    world.repository.write("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n");
    world.repository.write("a.yaml", in_shop("a", "1"));
    world.with_all_of_them().await;
    let keeper = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "keeper", "finalizers": ["example.com/keep"]}});
    world.create("api/v1/namespaces/shop/configmaps", "somebody", &keeper).await;
    world.delete(SHOP).await;
    world.repository.write("a.yaml", in_shop("a", "2"));
    world
        .repository
        .write("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  labels: {team: a}\n");
    let second = world.repository.commit("Second version");
    world.repository.push();
    is_given_up(&mut world, &second, "Namespace shop", &["example.com/keep"]).await;
    is_given_up(&mut world, &second, "ConfigMap shop/a", &["waits for the namespace shop, which is being deleted"])
        .await;
    is_quiet(&world).await;
    let kept = "api/v1/namespaces/shop/configmaps/keeper";
    world.patch(kept, "somebody", &json!({"metadata": {"finalizers": null}})).await;
    is_applied(&mut world, IN_SHOP, "2").await;
    assert_eq!(world.get(SHOP).await.unwrap()["metadata"]["labels"]["team"], "a");
}

fn definition(label: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
  labels: {{version: \"{label}\"}}
spec:
  group: example.com
  scope: Namespaced
  names: {{plural: widgets, singular: widget, kind: Widget}}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}
"
    )
}

fn widget(value: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: w\ndata:\n  A: \"{value}\"\n")
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_definition_and_its_objects() {
    let mut world = World::embedded().await;
    world.repository.write("crd.yaml", definition("1"));
    world.repository.write("w.yaml", widget("1"));
    world.with_all_of_them().await;
    world.patch(WIDGET, "somebody", &json!({"metadata": {"finalizers": ["example.com/keep"]}})).await;
    world.delete(CRD).await;
    world.repository.write("crd.yaml", definition("2"));
    world.repository.write("w.yaml", widget("2"));
    let second = world.repository.commit("Second version");
    world.repository.push();
    let name = "CustomResourceDefinition widgets.example.com";
    is_given_up(&mut world, &second, name, &["customresourcecleanup.apiextensions.k8s.io"]).await;
    is_quiet(&world).await;
    world.patch(WIDGET, "somebody", &json!({"metadata": {"finalizers": null}})).await;
    is_applied(&mut world, WIDGET, "2").await;
}
