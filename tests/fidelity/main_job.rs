//! The main job on the real control plane, its pods driven by the embedded kubelet: a commit becomes a rollout, and a bad
//! one is taken back. Real time: these are real processes.

use belay::clock::Clock;
use belay::minicluster::{PodLogs, Random, kubelet};
use belay::rollout::{Hold, Outcome, marks};

use crate::world::control_plane::{self, ControlPlane, Controllers};
use crate::world::daemon::{World, deployment, path_of, short};

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_commit_is_taken_back_and_held() {
    let Some(assets) = control_plane::assets("the main job on the real control plane") else { return };
    let plane = ControlPlane::start(&assets, Controllers::Real).await;
    let clock = Clock::system();
    let nodes =
        kubelet::start(plane.client(), kubelet::Options::new(clock.clone(), Random::new(1), PodLogs::default()));
    let mut world = World::on(plane.client(), clock, None);
    world.repository.author("Ada", "ada@example.com");
    world.start();

    let first = world.push("web.yaml", &manifest("web:1"), "First version");
    world.through(&first).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);

    let good = world.push("web.yaml", &manifest("web:2"), "Second version");
    world.through(&good).await;
    assert_eq!(world.record(&good, "Deployment default/web").outcome, Outcome::Complete);

    let bad = world.push("web.yaml", &manifest("web:404"), "Third version");
    world.through(&bad).await;
    let record = world.record(&bad, "Deployment default/web");
    assert_eq!(record.outcome, Outcome::RolledBack, "{record:#?}");
    assert_eq!(record.back_to.unwrap().as_str(), good);
    let evidence = record.evidence.unwrap();
    assert!(evidence.pods[0].state.contains("Image"), "{evidence:#?}");
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "web:2");
    assert_eq!(live["status"]["availableReplicas"], 2);
    assert_eq!(Hold::on(&live).unwrap().commit.as_str(), bad);
    assert_eq!(marks::annotation(&live, marks::COMMIT), Some(good.as_str()));

    let history = plane.kubectl().args(["rollout", "history", "deployment/web"]).output().unwrap();
    let history = String::from_utf8_lossy(&history.stdout).into_owned();
    let failed = format!("{} Third version (Ada) — failed: ", short(&bad));
    assert!(history.contains(&failed), "{history}");
    assert!(history.contains(&format!("{} Second version (Ada)\n", short(&good))), "{history}");

    let fix = world.push("web.yaml", &manifest("web:3"), "Fix the image");
    world.through(&fix).await;
    assert_eq!(world.record(&fix, "Deployment default/web").outcome, Outcome::Complete);
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(Hold::on(&live), None);
    world.stop().await;
    nodes.stop().await;
}

fn manifest(image: &str) -> String {
    deployment("web", image, "").replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 4")
}
