//! A newer commit that touches a workload replaces whatever is under way, at once: a rollout, or a rollback.

use belay_core::rollout::{Hold, Outcome};

use crate::support::daemon::{World, broken, deployment, path_of, short};

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

/// Several commits come at once: the record names the one that touched the workload.
#[tokio::test(start_paused = true)]
async fn the_commit_that_took_its_place_is_named() {
    for restarted in [false, true] {
        let (mut world, _) = World::with_web().await;
        let bad = world.push("web.yaml", &broken("web", "never-ready"), "Stuck");
        world.until("it is under way", |source| !source.under_way.is_empty()).await;
        if restarted {
            world.stop().await;
        }
        let fix = world.repository.commit_file("web.yaml", &deployment("web", "web:3", ""), "Fix it");
        let head = world.push("other.yaml", &deployment("other", "web:1", ""), "Something else");
        if restarted {
            world.start();
        }
        world.through(&head).await;
        let record = world.record(&bad, "Deployment default/web");
        let reason = record.reason.unwrap().message;
        assert_eq!(record.outcome, Outcome::Superseded, "{restarted}");
        assert_eq!(reason, format!("commit {} took its place", short(&fix)), "{restarted}");
    }
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
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::Failed);
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(Hold::on(&world.get(&path_of("web")).await.unwrap()), None);
}

/// The changes of a commit to a workload besides its pod template: one that the cluster sees, and one of the object
/// alone.
const BESIDES: [(&str, &str); 3] = [
    ("replicas: 2", "replicas: 3"),
    ("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 40"),
    ("replicas: 2", "replicas: 2\n  revisionHistoryLimit: 10"),
];

#[tokio::test(start_paused = true)]
async fn a_broken_template_is_judged_on_though_a_newer_commit_leaves_it_alone() {
    for (from, to) in BESIDES {
        let mut world = World::embedded().await;
        let good = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
        world.start();
        world.through(&good).await;
        let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
        world.until("it is under way", |source| !source.under_way.is_empty()).await;
        let besides = world.push("web.yaml", &broken("web", "never-ready").replace(from, to), "Something else");
        world.through(&besides).await;
        assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::Superseded, "{to}");
        let record = world.record(&besides, "Deployment default/web");
        assert_eq!((record.outcome, record.rolls_out), (Outcome::RolledBack, true), "{to}");
        let reason = record.reason.map(|reason| reason.message).unwrap_or_default();
        assert!(reason.ends_with(&format!("; the pod template is of commit {}", short(&bad))), "{to}: {reason}");
        let live = world.get(&path_of("web")).await.unwrap();
        assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "web:1", "{to}");
        assert_eq!(Hold::on(&live).map(|hold| hold.commit.to_string()), Some(besides), "{to}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_newer_commit_leaves_alone_is_good_when_it_is_there() {
    for (from, to) in BESIDES {
        let mut world = World::embedded().await;
        let slow = |image: &str| {
            let fate = "      annotations: {kubelet.belay.dev/fate: ready-after=20s}\n    spec:\n      containers";
            deployment("web", image, "").replace("    spec:\n      containers", fate)
        };
        let first = world.push("web.yaml", &slow("web:1"), "First version");
        world.start();
        world.through(&first).await;
        world.push("web.yaml", &slow("web:2"), "Second version");
        world.until("it is under way", |source| !source.under_way.is_empty()).await;
        let before = world.clock.now();
        let besides = world.push("web.yaml", &slow("web:2").replace(from, to), "Something else");
        world.through(&besides).await;
        assert!(world.clock.now().duration_since(before).as_secs() >= 10, "{to}: only when its pods are there");
        assert_eq!(world.record(&besides, "Deployment default/web").outcome, Outcome::Complete, "{to}");
        let bad = world.push("web.yaml", &broken("web", "never-ready").replace(from, to), "Broken");
        world.through(&bad).await;
        assert_eq!(
            world.record(&bad, "Deployment default/web").back_to.map(|to| to.to_string()),
            Some(besides),
            "{to}"
        );
        let live = world.get(&path_of("web")).await.unwrap();
        assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "web:2", "{to}");
    }
}

#[tokio::test(start_paused = true)]
async fn so_it_is_after_a_restart() {
    let mut world = World::embedded().await;
    let good = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.through(&good).await;
    world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.until("it is under way", |source| !source.under_way.is_empty()).await;
    world.stop().await;
    let besides =
        world.push("web.yaml", &broken("web", "never-ready").replace("replicas: 2", "replicas: 3"), "More of them");
    world.start();
    world.through(&besides).await;
    assert_eq!(world.record(&besides, "Deployment default/web").outcome, Outcome::RolledBack);
}
