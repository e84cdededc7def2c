//! A first deployment has nothing to go back to.

use belay_core::rollout::{Hold, Outcome};

use crate::support::daemon::{World, broken, deployment, path_of};

#[tokio::test(start_paused = true)]
async fn it_is_reported_and_stays() {
    let mut world = World::embedded().await;
    let bad = world.push("web.yaml", &broken("web", "image-pull-error"), "First version");
    world.start();
    world.through(&bad).await;
    let record = world.record(&bad, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::Failed);
    assert!(record.reason.unwrap().message.contains("nothing to go back to"));
    assert!(!record.evidence.unwrap().pods.is_empty());
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "web:2");
    assert_eq!(Hold::on(&live), None);

    let fix = world.push("web.yaml", &deployment("web", "web:3", ""), "Fix it");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
}

/// A workload that was left because there was nothing else has failed like any other.
#[tokio::test(start_paused = true)]
async fn and_is_not_gone_back_to() {
    let mut world = World::embedded().await;
    let bad = world.push("web.yaml", &broken("web", "image-pull-error"), "First version");
    world.start();
    world.through(&bad).await;
    let worse = broken("web", "never-ready").replace("web:2", "web:3");
    let worse = world.push("web.yaml", &worse, "Fails, too");
    world.through(&worse).await;
    let record = world.record(&worse, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::Failed, "{record:#?}");
    assert!(record.reason.unwrap().message.contains("every earlier one has failed"));
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "web:3");
    assert_eq!(Hold::on(&live), None);
}
