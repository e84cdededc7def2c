//! An object is the same one however its manifest spells its namespace: what changes only that, or how much is known of
//! its kind's scope, deletes nothing, and the object is followed as any other.

use std::time::Duration;

use belay_core::rollout::{Outcome, SourceState};
use serde_json::{Value, json};

use crate::support::daemon::{World, config_map};

const ZONE: &str = "apis/example.com/v1/zones/one";

fn definition(scope: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: zones.example.com}}
spec:
  group: example.com
  scope: {scope}
  names: {{plural: zones, singular: zone, kind: Zone}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {{status: {{}}}}
    schema:
      openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}
"
    )
}

fn zone(namespace: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
    format!("apiVersion: example.com/v1\nkind: Zone\nmetadata: {{name: one{namespace}}}\nspec: {{size: 1}}\n")
}

async fn uid(world: &World, path: &str) -> Value {
    world.get(path).await.unwrap_or_else(|| panic!("no {path}"))["metadata"]["uid"].clone()
}

/// Begins with these files, and the definition of the kind in the cluster, made by somebody else.
async fn started(files: &[(&str, String)]) -> World {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.config.prune_limit = "100%".to_owned();
    let defined = serde_yaml::from_str(&definition("Cluster")).unwrap();
    world.create("apis/apiextensions.k8s.io/v1/customresourcedefinitions", "others", &defined).await;
    world.repository.write("other.yaml", config_map("other", "1"));
    for (path, text) in files {
        world.repository.write(path, text);
    }
    world.with_all_of_them().await;
    world
}

/// Commits these files, `None` for those that leave, and checks that the same object is live: after the plan, after the
/// search for what left, and after a restart with its search.
async fn stays(world: &mut World, case: &str, path: &str, files: &[(&str, Option<String>)]) {
    let before = uid(world, path).await;
    for (path, text) in files {
        match text {
            Some(text) => world.repository.write(path, text),
            None => world.repository.remove(path),
        };
    }
    let commit = world.repository.commit(case);
    world.repository.push();
    world.until("it is planned", |source| source.planned.as_ref().is_some_and(|head| head.as_str() == commit)).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(uid(world, path).await, before, "{case}");
    world.stop().await;
    world.start();
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(uid(world, path).await, before, "{case}, after a restart");
    let pruned = world.records().into_iter().filter(|record| record.outcome == Outcome::Pruned);
    assert_eq!(pruned.map(|record| record.object.to_string()).collect::<Vec<_>>(), [""; 0], "{case}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_put_on_a_cluster_wide_object_or_taken_off() {
    for (before, after) in [("", "shop"), ("shop", ""), ("shop", "elsewhere"), ("", "default")] {
        let case = format!("{before:?} becomes {after:?}");
        let mut world = started(&[("zone.yaml", zone(before))]).await;
        stays(&mut world, &case, ZONE, &[("zone.yaml", Some(zone(after)))]).await;
        world.until(&case, |source| source.state() == SourceState::Synced).await;
        assert!(world.status().obstacles.trouble.is_empty(), "{case}: {:?}", world.status().obstacles.trouble);
        // It goes when its manifest does.
        world.repository.remove("zone.yaml");
        let gone = world.repository.commit("Away with it");
        world.repository.push();
        world.through(&gone).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(world.get(ZONE).await, None, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_comes_into_the_repository_or_leaves_it() {
    let crd = definition("Cluster");
    let mut world = started(&[("zone.yaml", zone(""))]).await;
    stays(&mut world, "the definition comes", ZONE, &[("crd.yaml", Some(crd))]).await;
    stays(&mut world, "the definition leaves", ZONE, &[("crd.yaml", None)]).await;
}

/// The API server refuses it, and what is live is of the old scope.
#[tokio::test(start_paused = true)]
async fn a_definition_that_changes_its_scope() {
    for (live, wanted, path) in
        [("Namespaced", "Cluster", "apis/example.com/v1/namespaces/default/zones/one"), ("Cluster", "Namespaced", ZONE)]
    {
        let mut world = World::embedded().await;
        world.config.prune = true;
        world.config.prune_limit = "100%".to_owned();
        world.repository.write("crd.yaml", definition(live)).write("zone.yaml", zone(""));
        world.with_all_of_them().await;
        stays(&mut world, wanted, path, &[("crd.yaml", Some(definition(wanted)))]).await;
    }
}

/// The default made explicit, and a namespace that means nothing.
#[tokio::test(start_paused = true)]
async fn what_is_read_as_the_same_name() {
    let role = |namespace: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: reader{namespace}}}\nrules: []\n"
        )
    };
    let explicit = config_map("other", "1").replace("metadata:", "metadata:\n  namespace: default");
    let mut world = started(&[("role.yaml", role(""))]).await;
    let (map, path) =
        ("api/v1/namespaces/default/configmaps/other", "apis/rbac.authorization.k8s.io/v1/clusterroles/reader");
    let before = uid(&world, map).await;
    let files = [("role.yaml", Some(role(", namespace: shop"))), ("other.yaml", Some(explicit))];
    stays(&mut world, "the same name", path, &files).await;
    assert_eq!(uid(&world, map).await, before);
}

/// The watch tells of it under the name that the cluster has for it.
#[tokio::test(start_paused = true)]
async fn changes_of_others_are_put_right_and_its_status_is_heard() {
    for namespace in ["", "shop"] {
        let mut world = started(&[("zone.yaml", zone(namespace))]).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        let status = json!({"status": {"observedGeneration": 1, "conditions": [
            {"type": "Ready", "status": "True", "reason": "Made", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        world.patch(&format!("{ZONE}/status"), "operator", &status).await;
        world.patch(ZONE, "somebody", &json!({"spec": {"size": 7}})).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(world.get(ZONE).await.unwrap()["spec"]["size"], 1, "{namespace:?}");
        let second = world.push("zone.yaml", &zone(namespace).replace("size: 1", "size: 2"), "Larger");
        let is_under_way = |source: &belay::daemon::SourceStatus| !source.under_way.is_empty();
        world.until("it is rolled out", is_under_way).await;
        // It is under way before it is applied.
        for _ in 0..30 {
            if world.get(ZONE).await.unwrap()["spec"]["size"] == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        let live = world.get(ZONE).await.unwrap();
        assert_eq!(live["spec"]["size"], 2, "{namespace:?}");
        let generation = live["metadata"]["generation"].clone();
        world
            .patch(&format!("{ZONE}/status"), "operator", &json!({"status": {"observedGeneration": generation}}))
            .await;
        world.through(&second).await;
        let record = world.records().pop().unwrap();
        let took = record.ended.unwrap().duration_since(record.started).as_secs();
        assert_eq!(record.outcome, Outcome::Complete);
        assert!(took < 8, "{namespace:?}: its status was heard after {took} s");
        // Somebody deletes it.
        world.delete(ZONE).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(world.get(ZONE).await.is_some(), "{namespace:?}");
    }
}
