//! The bake time on the real control plane: a pod that crashes after its workload was complete takes it back, and a restart by a
//! person does not.

use belay_core::rollout::{Outcome, ReasonCode, StepKind};

use super::main_job::real_world;
use crate::support::daemon::{World, deployment, image, path_of};

fn web(name: &str, version: &str, fate: &str, bake: &str) -> String {
    let fate = format!("      annotations: {{kubelet.belay.dev/fate: \"{fate}\"}}\n    spec:\n      containers");
    deployment(name, version, "").replace("    spec:\n      containers", &fate).replace(
        &format!("name: {name}\nspec"),
        &format!("name: {name}\n  annotations: {{belay.dev/bake: {bake}}}\nspec"),
    )
}

/// Pushes both workloads at one version.
fn push(world: &mut World, version: &str, fate: &str) -> String {
    for name in ["good", "bad"] {
        let fate = if name == "bad" { fate } else { "ready" };
        world.repository.write(format!("{name}.yaml"), web(name, version, fate, "15s"));
    }
    let commit = world.repository.commit(&format!("Both at {version}"));
    world.repository.push();
    commit
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_baked_version_stays() {
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    world.start();
    let first = push(&mut world, "web:1", "ready");
    world.through(&first).await;
    let second = push(&mut world, "web:2", "crash-after=6s,code=3");
    world
        .until("the good one bakes", |source| {
            source.under_way.iter().any(|(key, way)| key.name == "good" && way.outcome == Outcome::Baking)
        })
        .await;
    let deleted = plane.kubectl().args(["delete", "pod", "-l", "app=good", "--wait=false"]).output().unwrap();
    assert!(deleted.status.success(), "{deleted:?}");
    world.through(&second).await;
    let good = world.record(&second, "Deployment default/good");
    assert_eq!(good.outcome, Outcome::Complete, "{good:#?}");
    let steps = world.history().steps(good.id).unwrap();
    assert!(steps.iter().any(|step| step.kind == StepKind::Baking), "{steps:#?}");
    let bad = world.record(&second, "Deployment default/bad");
    let reason = bad.reason.clone().unwrap();
    assert_eq!((bad.outcome, reason.code), (Outcome::RolledBack, ReasonCode::BakeFailed), "{bad:#?}");
    assert!(reason.message.contains("exit code 3"), "{}", reason.message);
    let live = world.get(&path_of("bad")).await.unwrap();
    assert_eq!(image(&live), "web:1");
    world.stop().await;
    nodes.stop().await;
}
