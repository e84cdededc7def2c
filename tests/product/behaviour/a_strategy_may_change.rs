//! A commit may change how a workload is rolled out, also to a strategy that the server's defaults forbid.

use belay_core::rollout::Outcome;
use serde_json::{Value, json};

use super::every_kind_of_workload::{STATEFUL, stateful};
use crate::support::daemon::{World, broken, deployment, image};

const DEPLOYMENT: &str = "apis/apps/v1/namespaces/default/deployments/web";

pub fn with_strategy(manifest: &str, strategy: &str) -> String {
    manifest.replacen("spec:\n", &format!("spec:\n  {strategy}\n"), 1)
}

async fn after(world: &mut World, path: &str, content: &str) -> (String, Outcome) {
    let key = if path == "db.yaml" { "StatefulSet default/db" } else { "Deployment default/web" };
    let commit = world.push(path, content, "Another strategy");
    world.through(&commit).await;
    let outcome = world.record(&commit, key).outcome;
    (commit, outcome)
}

async fn strategy(world: &World) -> Value {
    world.get(DEPLOYMENT).await.unwrap()["spec"]["strategy"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_recreated_and_rolled_again() {
    let mut world = World::embedded().await;
    let rolling = deployment("web", "web:1", "");
    let first = world.push("web.yaml", &rolling, "First version");
    world.start();
    world.through(&first).await;

    // Only the strategy changes.
    let recreated = with_strategy(&rolling, "strategy: {type: Recreate}");
    assert_eq!(after(&mut world, "web.yaml", &recreated).await.1, Outcome::Complete);
    assert_eq!(strategy(&world).await, json!({"type": "Recreate"}));

    let partly = with_strategy(&rolling, "strategy: {rollingUpdate: {maxSurge: 1}}");
    assert_eq!(after(&mut world, "web.yaml", &partly).await.1, Outcome::Complete);
    let expected = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}});
    assert_eq!(strategy(&world).await, expected);

    // With a new image; what somebody else owns of the strategy is in the way, too.
    let patch = json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": 0}}}});
    world.patch(DEPLOYMENT, "somebody", &patch).await;
    let both = recreated.replace("web:1", "web:2");
    assert_eq!(after(&mut world, "web.yaml", &both).await.1, Outcome::Complete);
    let live = world.get(DEPLOYMENT).await.unwrap();
    assert_eq!((image(&live), &live["spec"]["strategy"]), ("web:2", &json!({"type": "Recreate"})));

    // Without any strategy it is the default again: nobody else owns what belay sent.
    assert_eq!(after(&mut world, "web.yaml", &rolling).await.1, Outcome::Complete);
    assert_eq!(strategy(&world).await["type"], "RollingUpdate");
}

#[tokio::test(start_paused = true)]
async fn a_failed_commit_takes_its_strategy_back() {
    let mut world = World::embedded().await;
    let recreated = with_strategy(&deployment("web", "web:1", ""), "strategy: {type: Recreate}");
    let first = world.push("web.yaml", &recreated, "First version");
    world.start();
    world.through(&first).await;
    // The template goes back; the strategy stays as the held manifest says, and is not put right again and again.
    let (_, outcome) = after(&mut world, "web.yaml", &broken("web", "web:2")).await;
    assert_eq!(outcome, Outcome::RolledBack);
    let live = world.get(DEPLOYMENT).await.unwrap();
    assert_eq!(image(&live), "web:1");
    let (_, outcome) = after(&mut world, "web.yaml", &recreated.replace("web:1", "web:3")).await;
    assert_eq!(outcome, Outcome::Complete);
    let live = world.get(DEPLOYMENT).await.unwrap();
    assert_eq!((image(&live), &live["spec"]["strategy"]), ("web:3", &json!({"type": "Recreate"})));
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_may_wait_for_its_pods_to_be_deleted() {
    let mut world = World::embedded().await;
    let rolling = stateful("db:1", "ready");
    let first = world.push("db.yaml", &rolling, "First version");
    world.start();
    world.through(&first).await;
    let on_delete = with_strategy(&rolling, "updateStrategy: {type: OnDelete}");
    assert_eq!(after(&mut world, "db.yaml", &on_delete).await.1, Outcome::Complete);
    let live = world.get(STATEFUL).await.unwrap();
    assert_eq!(live["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
}
