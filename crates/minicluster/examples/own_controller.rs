//! A controller of one's own, with a custom kind, tested in virtual time: `cargo test --example own_controller`.
//!
//! The controller is the same as against any cluster: it gets a [`kube::Client`].

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Client, Resource as _, ResourceExt as _};
use minicluster::MiniCluster;
use serde_json::json;

const WEBSITES: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: websites.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Website, plural: websites, singular: website}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [image]
            properties:
              image: {type: string}
              replicas: {type: integer, default: 1}
";

fn website() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Website"))
}

/// A Deployment for each Website.
async fn run(client: Client) {
    let websites: Api<DynamicObject> = Api::all_with(client.clone(), &website());
    let deployments: Api<Deployment> = Api::all(client.clone());
    Controller::new_with(websites, watcher::Config::default(), website())
        .owns(deployments, watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(5)), Arc::new(client))
        .for_each(|_| async {})
        .await;
}

async fn reconcile(site: Arc<DynamicObject>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let (name, namespace) = (site.name_any(), site.namespace().unwrap_or_default());
    let labels = json!({ "website": name });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "ownerReferences": [site.controller_owner_ref(&website())] },
        "spec": {
            "replicas": site.data["spec"]["replicas"],
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "site", "image": site.data["spec"]["image"] }] },
            },
        },
    });
    let deployments: Api<Deployment> = Api::namespaced((*client).clone(), &namespace);
    let how = PatchParams::apply("website-controller").force();
    deployments.patch(&name, &how, &Patch::Apply(deployment)).await?;
    Ok(Action::await_change())
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = MiniCluster::builder().virtual_time().seed(7).crds(WEBSITES).start().await?;
    let controller = tokio::spawn(run(cluster.client_as("website-controller")));

    cluster
        .apply("{apiVersion: example.com/v1, kind: Website, metadata: {name: home}, spec: {image: 'nginx:1.27'}}")
        .await?;
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let available = |count: i32| {
        move |live: Option<&Deployment>| {
            let status = live.and_then(|live| live.status.as_ref());
            status.and_then(|status| status.available_replicas) == Some(count)
        }
    };
    await_condition(deployments.clone(), "home", available(1)).await?;

    let websites: Api<DynamicObject> = Api::default_namespaced_with(cluster.client(), &website());
    let larger = json!({ "spec": { "replicas": 3 } });
    websites.patch("home", &PatchParams::default(), &Patch::Merge(larger)).await?;
    await_condition(deployments.clone(), "home", available(3)).await?;

    // Owned objects go with their owner: the garbage collector is there too.
    let uid = deployments.get("home").await?.uid().unwrap_or_default();
    websites.delete("home", &Default::default()).await?;
    await_condition(deployments, "home", conditions::is_deleted(&uid)).await?;
    controller.abort();
    cluster.stop().await;
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
