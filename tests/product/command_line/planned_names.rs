//! `belay plan` knows an object however its manifest spells its namespace.

use crate::fixture::Fixture;
use crate::program::{belay, finish};
use crate::support::daemon::config_map;

const ZONES: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: zones.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: zones, singular: zone, kind: Zone}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// Only the cluster knows that its kind is cluster-wide.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_on_a_cluster_wide_object_deletes_nothing() {
    let mut stage = Fixture::new().await;
    stage.cluster.apply(ZONES).await.unwrap();
    let zone = |namespace: &str| {
        format!("apiVersion: example.com/v1\nkind: Zone\nmetadata: {{name: one{namespace}}}\nspec: {{size: 1}}\n")
    };
    stage.repository.write("map.yaml", config_map("map", "1")).write("zone.yaml", zone(""));
    stage.repository.commit("First version");
    stage.repository.push();
    let mut command = stage.command();
    command.arg("--once");
    assert_eq!(command.status().unwrap().code(), Some(0), "{}", stage.log());
    stage.repository.commit_file("zone.yaml", &zone(", namespace: shop"), "A namespace");
    stage.repository.push();
    let copy = stage.repository.clone_to("copy");
    let config = stage.home.path().join("belay.toml");
    let source =
        "[[source]]\nname = \"default\"\nrepository = \"/srv/shop.git\"\nprune = true\nprune_limit = \"100%\"\n";
    std::fs::write(&config, source).unwrap();
    let mut command = belay(stage.home.path());
    command.args(["plan", "HEAD", "--config", &config.display().to_string()]).args(stage.globals()).current_dir(&copy);
    let planned = finish(command, "");
    assert!(!planned.out.contains("is deleted") && !planned.out.contains("is orphaned"), "{planned:?}");
}
