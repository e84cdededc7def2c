//! A ReplicationController whose way back fails is `rollback-failed` once, and nothing more happens until somebody acts: no pod
//! of the failed version is made again.

use std::time::Duration;

use belay_core::rollout::Outcome;

use crate::support::daemon::{World, config_map};
use crate::support::workloads::KINDS;

const PODS: &str = "api/v1/namespaces/default/pods";

/// The names of the pods of the failed version.
async fn pods_of_bad(world: &World) -> Vec<String> {
    let pods = world.list(PODS).await;
    let bad = pods.iter().filter(|pod| pod["spec"]["containers"][0]["image"] == "web:2");
    bad.map(|pod| pod["metadata"]["name"].to_string()).collect()
}

/// The controllers, and the generation of each.
async fn controllers(world: &World) -> Vec<(String, String)> {
    let all = world.list("api/v1/namespaces/default/replicationcontrollers").await;
    all.iter().map(|one| (one["metadata"]["name"].to_string(), one["metadata"]["generation"].to_string())).collect()
}

#[tokio::test(start_paused = true)]
async fn is_left_alone() {
    let kind = KINDS[3];
    for is_killed in [false, true] {
        let mut world = World::embedded().await;
        world.config.rollback_budget = "1m".parse().unwrap();
        // The good version reads a ConfigMap that somebody deletes meanwhile, and its pods too: they can't come back.
        let settings: serde_json::Value = serde_yaml::from_str(&config_map("settings", "1")).unwrap();
        world.create("api/v1/namespaces/default/configmaps", "kubectl", &settings).await;
        let reads = format!(
            "{}        envFrom:\n        - configMapRef: {{name: settings}}\n",
            kind.manifest("web:1", "ready")
        );
        let first = world.push("web.yaml", &reads, "First version");
        world.start();
        world.through(&first).await;
        let bad = world.push("web.yaml", &kind.manifest("web:2", "never-ready"), "Broken");
        world.until("it is rolled", |source| !source.under_way.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.delete("api/v1/namespaces/default/configmaps/settings").await;
        for pod in world.list(PODS).await {
            if pod["spec"]["containers"][0]["image"] == "web:1" {
                world.delete(&format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap())).await;
            }
        }
        world.through(&bad).await;
        let record = world.record(&bad, &kind.object());
        assert_eq!(record.outcome, Outcome::RollbackFailed, "{record:#?}");
        if is_killed {
            world.kill().await;
            world.start();
        }
        tokio::time::sleep(Duration::from_mins(2)).await;
        // A controller that can't go back keeps the pods that it has.
        let before = (pods_of_bad(&world).await, controllers(&world).await, world.records().len());
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(30)).await;
            assert_eq!(pods_of_bad(&world).await, before.0, "killed: {is_killed}: {:#?}", world.records());
        }
        let after = (before.0.clone(), controllers(&world).await, world.records().len());
        assert_eq!(after, before, "killed: {is_killed}: {:#?}", world.records());
        // The pods of the good version come up, and those of the failed one are still there.
        world.create("api/v1/namespaces/default/configmaps", "kubectl", &settings).await;
        tokio::time::sleep(Duration::from_mins(5)).await;
        let live = world.get("api/v1/namespaces/default/replicationcontrollers/web").await.unwrap();
        assert_eq!(live["status"]["readyReplicas"], live["spec"]["replicas"], "{live:#}");
        assert!(!pods_of_bad(&world).await.is_empty());
        let record = world.record(&bad, &kind.object());
        assert_eq!(record.outcome, Outcome::RollbackFailed, "killed: {is_killed}: {record:#?}");
        let fix = world.push("web.yaml", &kind.manifest("web:3", "ready"), "Fix it");
        world.through(&fix).await;
        let record = world.record(&fix, &kind.object());
        assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
    }
}
