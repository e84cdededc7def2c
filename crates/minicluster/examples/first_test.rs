//! The shortest test against a Kubernetes: `cargo test --example first_test`.

use std::error::Error;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::runtime::wait::{await_condition, conditions};
use minicluster::MiniCluster;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx:1.27}]}
";

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    // the first test
    let cluster = MiniCluster::builder().virtual_time().start().await?;
    cluster.apply(WEB).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    await_condition(deployments, "web", conditions::is_deployment_completed()).await?;
    cluster.stop().await;
    // its end
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}

#[test]
fn the_readme_shows_it() {
    let (readme, this) = (include_str!("../README.md"), include_str!("first_test.rs"));
    let lines = this.split("// the first test\n").nth(1).and_then(|rest| rest.split("    // its end").next());
    let lines: Vec<&str> = lines.unwrap_or_default().lines().map(str::trim).collect();
    assert_eq!(lines.len(), 5);
    for line in lines {
        assert!(readme.contains(line), "the README lacks {line}");
    }
}
