//! A ReplicationController replaces no pod by itself: the record of a changed one says so, and what to do.

use belay::rollout::Outcome;

use crate::world::daemon::World;

fn controller(image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ReplicationController\nmetadata: {{name: web}}\nspec:\n  replicas: 2\n  selector: {{app: \
         web}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec: {{containers: [{{name: app, image: \
         \"{image}\"}}]}}\n"
    )
}

#[tokio::test(start_paused = true)]
async fn a_changed_template_is_told_of() {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &controller("web:1"), "First version");
    world.start();
    world.through(&first).await;
    let record = world.record(&first, "ReplicationController default/web");
    assert_eq!((record.outcome, record.reason), (Outcome::Complete, None));
    let second = world.push("web.yaml", &controller("web:2"), "Second version");
    world.through(&second).await;
    let record = world.record(&second, "ReplicationController default/web");
    assert_eq!(record.outcome, Outcome::Complete);
    let reason = record.reason.unwrap();
    assert_eq!(reason.code, "OnlyNewPods");
    assert!(reason.message.contains("belay rolling-update -n default web"), "{reason}");
}
