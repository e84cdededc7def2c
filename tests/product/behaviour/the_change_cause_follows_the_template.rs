//! The change-cause and the commit annotation are written only when the pod template changes.

use belay_core::rollout::{Outcome, marks};

use crate::support::daemon::{World, deployment, path_of};

#[tokio::test(start_paused = true)]
async fn more_replicas_are_no_new_revision() {
    let (mut world, _) = World::with_web().await;
    let before = world.get(&path_of("web")).await.unwrap();
    let more = deployment("web", "web:1", "").replace("replicas: 2", "replicas: 4");
    let second = world.push("web.yaml", &more, "More of them");
    world.through(&second).await;
    let after = world.get(&path_of("web")).await.unwrap();
    assert_eq!(after["spec"]["replicas"], 4);
    for mark in [marks::CHANGE_CAUSE, marks::COMMIT, marks::REVISION] {
        assert_eq!(marks::annotation(&before, mark), marks::annotation(&after, mark), "{mark}");
    }
    let record = world.record(&second, "Deployment default/web");
    assert_eq!((record.outcome, record.rolls_out), (Outcome::Complete, false));
}

#[tokio::test(start_paused = true)]
async fn a_new_comment_changes_nothing_at_all() {
    let (mut world, first) = World::with_web().await;
    let before = world.get(&path_of("web")).await.unwrap();
    let commented = format!("# The shop's front.\n{}", deployment("web", "web:1", ""));
    let second = world.push("web.yaml", &commented, "Say what it is");
    world.through(&second).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap(), before);
    assert!(world.records().iter().all(|record| record.commit.as_str() == first), "{:#?}", world.records());
}

#[tokio::test(start_paused = true)]
async fn a_default_that_is_written_out_is_unchanged() {
    let (mut world, first) = World::with_web().await;
    let explicit = format!("{}      restartPolicy: Always\n", deployment("web", "web:1", ""));
    let second = world.push("web.yaml", &explicit, "Say the restart policy");
    world.through(&second).await;
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(marks::annotation(&live, marks::COMMIT), Some(first.as_str()), "no new revision");
    assert_eq!(marks::revision(&live), Some(1));
}

/// Each of them replaces the pods, and is a revision of its own with the commit as its cause.
#[tokio::test(start_paused = true)]
async fn every_change_of_the_template_is_a_new_revision() {
    let (mut world, _) = World::with_web().await;
    let mut manifest = String::new();
    for (number, subject, line) in [
        (2, "Image", "image: web:2"),
        (3, "Variable", "image: web:2\n        env: [{name: MODE, value: fast}]"),
        (4, "Port", "image: web:2\n        ports: [{containerPort: 8080}]"),
        (
            5,
            "Volume",
            "image: web:2\n        volumeMounts: [{name: tmp, mountPath: /tmp}]\n      volumes: [{name: tmp, emptyDir: {}}]",
        ),
        (6, "Resources", "image: web:2\n        resources: {requests: {cpu: 10m}}"),
    ] {
        manifest = deployment("web", "web:1", "").replace("image: web:1", line);
        let commit = world.push("web.yaml", &manifest, subject);
        world.through(&commit).await;
        assert_eq!(world.record(&commit, "Deployment default/web").outcome, Outcome::Complete, "{subject}");
        let live = world.get(&path_of("web")).await.unwrap();
        assert_eq!(marks::revision(&live), Some(number), "{subject}");
        assert!(marks::annotation(&live, marks::CHANGE_CAUSE).unwrap().contains(subject), "{subject}");
    }
    let labelled = manifest.replace("metadata:\n  name: web", "metadata:\n  labels: {tier: front}\n  name: web");
    let commit = world.push("web.yaml", &labelled, "Label of the Deployment");
    world.through(&commit).await;
    assert_eq!(marks::revision(&world.get(&path_of("web")).await.unwrap()), Some(6), "its own labels replace no pod");
}
