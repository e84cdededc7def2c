//! A newer commit that touches a workload replaces whatever is under way, at once: a rollout, or a rollback.

use belay::rollout::{Hold, Outcome};

use crate::world::daemon::{World, broken, deployment, path_of};

#[tokio::test(start_paused = true)]
async fn a_stuck_rollout_does_not_keep_its_fix_waiting() {
    let (mut world, _) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Stuck");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    let before = world.clock.now();
    let fix = world.push("web.yaml", &deployment("web", "web:3", ""), "Fix it");
    world.through(&fix).await;
    assert!(world.clock.now().duration_since(before).as_secs() < 20, "long before the deadline");
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::Superseded);
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_under_way_is_replaced_too() {
    let mut world = World::embedded().await;
    let slow = deployment("web", "web:1", "").replace(
        "    spec:\n      containers",
        "      annotations: {kubelet.belay.dev/fate: ready-after=20s}\n    spec:\n      containers",
    );
    let recreate = |manifest: String| manifest.replace("  selector:", "  strategy: {type: Recreate}\n  selector:");
    let good = world.push("web.yaml", &recreate(slow), "First version, slow to start");
    world.start();
    world.through(&good).await;
    let bad = world.push("web.yaml", &recreate(broken("web", "never-ready")), "Broken");
    world
        .until("it is going back", |source| source.under_way.values().any(|way| way.outcome == Outcome::RollingBack))
        .await;
    let before = world.clock.now();
    let fix = world.push("web.yaml", &recreate(deployment("web", "web:3", "")), "Fix it");
    world.through(&fix).await;
    assert!(world.clock.now().duration_since(before).as_secs() < 60);
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::Superseded);
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(Hold::on(&world.get(&path_of("web")).await.unwrap()), None);
}
