//! Manifests of any kind are applied, in an order in which they can be.

use belay_core::rollout::{Outcome, SourceState, marks};
use serde_json::json;

use crate::support::daemon::{WIDGETS, World};

const ALL: &str = r#"
apiVersion: example.com/v1
kind: Widget
metadata: {name: one, namespace: shop}
spec: {size: 3}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: web
      containers: [{name: app, image: "web:1", envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: key}}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: shop}
stringData: {KEY: hunter2}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {A: "1"}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
"#;

#[tokio::test(start_paused = true)]
async fn a_whole_application_in_one_file_and_the_wrong_order() {
    let mut world = World::embedded().await;
    let first = world.push("all.yaml", &format!("{ALL}---\n{WIDGETS}"), "The whole shop");
    world.start();
    world.through(&first).await;
    let records = world.records();
    assert_eq!(records.len(), 8, "{records:#?}");
    assert!(records.iter().all(|record| record.outcome == Outcome::Complete), "{records:#?}");
    for path in [
        "api/v1/namespaces/shop",
        "api/v1/namespaces/shop/services/web",
        "api/v1/namespaces/shop/secrets/key",
        "apis/example.com/v1/namespaces/shop/widgets/one",
    ] {
        let live = world.get(path).await.unwrap_or_else(|| panic!("{path}"));
        assert_eq!(marks::label(&live, marks::SOURCE), Some("shop"), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_needs_something_that_is_missing_waits_for_it() {
    let mut world = World::embedded().await;
    let first = world.push(
        "settings.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: later}\n",
        "Into a namespace that is not there",
    );
    world.start();
    world.until("it waits", |source| source.under_way.values().any(|way| way.message.contains("later"))).await;
    assert_eq!(world.status().state(), SourceState::Progressing, "{:#?}", world.status());
    let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}});
    let request = http::Request::post("/api/v1/namespaces").body(namespace.to_string().into_bytes()).unwrap();
    world.client.request::<serde_json::Value>(request).await.unwrap();
    world.through(&first).await;
    assert_eq!(world.record(&first, "ConfigMap later/settings").outcome, Outcome::Complete);
}

/// The definition is in the repository, and left alone for now: what is of its kind waits, and says for what.
#[tokio::test(start_paused = true)]
async fn a_kind_that_the_cluster_does_not_know_names_the_file_that_defines_it() {
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one}\nspec: {size: 3}\n";
    let suspended = WIDGETS
        .replace("name: widgets.example.com", "name: widgets.example.com, annotations: {belay.dev/suspend: \"later\"}");
    let mut world = World::embedded().await;
    world.repository.write("crds/widgets.yaml", suspended).write("one.yaml", widget);
    let first = world.repository.commit("A widget");
    world.repository.push();
    world.start();
    let named = |message: &str| message.contains("Widget") && message.contains("crds/widgets.yaml:1:1");
    world.until("it names the file", |source| source.under_way.values().any(|way| named(&way.message))).await;
    let second = world.push("crds/widgets.yaml", WIDGETS, "Now");
    world.through(&second).await;
    assert_eq!(world.record(&first, "Widget default/one").outcome, Outcome::Complete);
    assert!(world.status().obstacles.trouble.is_empty(), "{:?}", world.status().obstacles.trouble);
}

/// A kind without the subresource `status` has no controller that answers. Others get 10 s for their first answer.
#[tokio::test(start_paused = true)]
async fn an_object_is_waited_for_only_where_its_kind_has_a_status() {
    let with_status = WIDGETS.replace("    schema:\n", "    subresources: {status: {}}\n    schema:\n").replace(
        "properties: {spec:",
        "properties: {status: {type: object, x-kubernetes-preserve-unknown-fields: true}, spec:",
    );
    let widget = |name: &str| {
        format!("apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {{size: 1}}\n")
    };
    let took = |world: &World, commit: &str, name: &str| {
        let record = world.record(commit, &format!("Widget default/{name}"));
        assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
        record.ended.unwrap().duration_since(record.started).as_secs()
    };
    let mut world = World::embedded().await;
    world.repository.write("definition.yaml", WIDGETS);
    let plain = world.push("one.yaml", &widget("one"), "A kind without a status");
    world.start();
    world.through(&plain).await;
    assert_eq!(took(&world, &plain, "one"), 0);
    let defined = world.push("definition.yaml", &with_status, "A kind with a status");
    world.through(&defined).await;
    let silent = world.push("two.yaml", &widget("two"), "Nobody answers");
    world.through(&silent).await;
    assert!((10..15).contains(&took(&world, &silent, "two")), "{} s", took(&world, &silent, "two"));
}

/// As kubectl takes it: the namespace of an object whose kind is cluster-wide is ignored.
#[tokio::test(start_paused = true)]
async fn the_namespace_of_a_cluster_wide_object_is_ignored() {
    let mut world = World::embedded().await;
    // Its definition is of somebody else: only the cluster knows that the kind is cluster-wide.
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "zones.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "zones", "singular": "zone", "kind": "Zone"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true}}}]}});
    world.create("apis/apiextensions.k8s.io/v1/customresourcedefinitions", "others", &definition).await;
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reader, namespace: shop}\nrules: []\n";
    world.repository.write("role.yaml", role);
    let zone = "apiVersion: example.com/v1\nkind: Zone\nmetadata: {name: one, namespace: shop}\nspec: {size: 1}\n";
    let first = world.push("zone.yaml", zone, "Cluster-wide objects");
    world.start();
    world.through(&first).await;
    assert_eq!(world.status().state(), SourceState::Synced, "{:#?}", world.records());
    for path in ["apis/rbac.authorization.k8s.io/v1/clusterroles/reader", "apis/example.com/v1/zones/one"] {
        let live = world.get(path).await.expect(path);
        assert_eq!(live["metadata"].get("namespace"), None, "{live}");
    }
    let before = world.get("apis/example.com/v1/zones/one").await;
    tokio::time::sleep(std::time::Duration::from_hours(2)).await;
    assert_eq!(world.get("apis/example.com/v1/zones/one").await, before, "nothing is written again");
}
