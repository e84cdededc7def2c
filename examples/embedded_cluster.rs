//! A Kubernetes in this process, for tests of whatever speaks to one: no socket, no container, and time that passes as
//! fast as the work is done.
//!
//! `cargo run --example embedded_cluster`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use belay::clock::Clock;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use minicluster::MiniCluster;
use serde_json::json;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    // Its clock is tokio's, which jumps to the next timer when nothing is left to do.
    let clock = Clock::tokio("2026-01-01T00:00:00Z".parse()?);
    let cluster = MiniCluster::builder().seed(7).clock(clock.clone()).start().await?;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "default");

    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {
                    "labels": {"app": "web"},
                    // The behaviour of a pod is data.
                    "annotations": {"kubelet.belay.dev/fate": "ready-after=90s"},
                },
                "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1.0"}]},
            },
        },
    });
    let begun = clock.now();
    deployments.patch("web", &PatchParams::apply("example"), &Patch::Apply(&web)).await?;
    await_condition(deployments, "web", |live: Option<&Deployment>| {
        let available = live.and_then(|live| live.status.as_ref()).and_then(|status| status.available_replicas);
        available == Some(3)
    })
    .await?;
    println!("3 pods became available after {:#}", clock.now().duration_since(begun));

    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    for pod in pods.list(&ListParams::default().labels("app=web")).await? {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        println!("{} on {}", pod.metadata.name.unwrap_or_default(), node.unwrap_or_default());
    }
    cluster.stop().await;
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
