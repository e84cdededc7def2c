//! Jobs that go by themselves, on the real control plane, whose controllers delete them: each runs once.

use std::time::Duration;

use belay_core::rollout::{Outcome, SourceState};
use serde_json::json;

use super::main_job::real_world;
use crate::support::daemon::World;

/// As long as a Job would need that is made again and again.
const LONG: Duration = Duration::from_secs(8);

fn job(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n  backoffLimit: 0\n{spec}  template:\n    metadata:\n      \
         annotations: {{kubelet.belay.dev/fate: \"exit-after=1s,code=0\"}}\n    spec:\n      restartPolicy: Never\n      containers:\n      \
         - name: make\n        image: make:1\n"
    )
}

/// Returns how often the controller has made pods for a Job of that name.
async fn runs(world: &World, name: &str) -> usize {
    let events = world.list("api/v1/namespaces/default/events?limit=500").await;
    let of_it = events.iter().filter(|event| event["involvedObject"]["name"] == name);
    of_it.filter(|event| event["involvedObject"]["kind"] == "Job" && event["reason"] == "Completed").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_deletes_itself_runs_once() {
    let Some((_plane, nodes, mut world)) = real_world().await else { return };
    let first = world.push("job.yaml", &job("goes", "  ttlSecondsAfterFinished: 0\n"), "A job that goes at its end");
    world.start();
    world.through(&first).await;
    assert_eq!(world.record(&first, "Job default/goes").outcome, Outcome::Complete);
    tokio::time::sleep(LONG).await;
    assert!(world.get("apis/batch/v1/namespaces/default/jobs/goes").await.is_none());
    assert_eq!(runs(&world, "goes").await, 1);
    assert_eq!(world.status().state(), SourceState::Synced, "{:#?}", world.status());

    // A person takes one away that stays; belay is started again; the history is lost.
    let second = world.push("stays.yaml", &job("stays", ""), "A job that stays");
    world.through(&second).await;
    world.delete("apis/batch/v1/namespaces/default/jobs/stays?propagationPolicy=Background").await;
    tokio::time::sleep(LONG).await;
    world.stop().await;
    world.start();
    world.through(&second).await;
    tokio::time::sleep(LONG).await;
    world.stop().await;
    std::fs::remove_dir_all(world.repository.beside("state")).unwrap();
    world.start();
    world.through(&second).await;
    tokio::time::sleep(LONG).await;
    for name in ["goes", "stays"] {
        assert_eq!(runs(&world, name).await, 1, "{name}");
        assert!(world.get(&format!("apis/batch/v1/namespaces/default/jobs/{name}")).await.is_none(), "{name}");
    }
    let lease = world.get("apis/coordination.k8s.io/v1/namespaces/default/leases/belay-shop").await.unwrap();
    assert!(lease["metadata"]["annotations"]["belay.dev/finished-jobs"].as_str().unwrap().contains("default/goes"));
    assert_ne!(lease["spec"]["holderIdentity"], json!(""));

    // Its manifest changes, and it runs for that one.
    let text = job("goes", "  ttlSecondsAfterFinished: 0\n").replace("make:1", "make:2");
    let third = world.push("job.yaml", &text, "Another job");
    world.through(&third).await;
    assert_eq!(world.record(&third, "Job default/goes").outcome, Outcome::Complete);
    assert_eq!(runs(&world, "goes").await, 2);
    world.stop().await;
    nodes.stop().await;
}
