//! A newer commit changes the steps of a canary while one is under way.

use std::time::Duration;

use belay_core::rollout::canary::CanaryMark;
use belay_core::rollout::{Outcome, marks};
use serde_json::Value;

use crate::support::canary::{PodSampling, of_kind, on_four_nodes, until_step, web};
use crate::support::daemon::World;
use crate::support::workloads::{KINDS, Kind};

const OF: [Kind; 3] = [KINDS[0], KINDS[1], KINDS[2]];

struct CanaryRollout {
    world: World,
    kind: Kind,
    sampling: PodSampling,
}

impl CanaryRollout {
    /// Returns a workload whose second version is at this step of its canary.
    async fn at(kind: Kind, steps: &str, step: &str) -> CanaryRollout {
        let (mut world, _) = on_four_nodes().await;
        let first = world.push("web.yaml", &of(kind, steps, "web:1"), "First version");
        world.start();
        world.through(&first).await;
        let sampling = PodSampling::of(world.cluster.as_ref().unwrap().client_as("admin"));
        let second = world.push("web.yaml", &of(kind, steps, "web:2"), "Second version");
        until_step(&mut world, &second, step).await;
        CanaryRollout { world, kind, sampling }
    }

    fn push(&mut self, steps: &str) -> String {
        self.world.push("web.yaml", &of(self.kind, steps, "web:2"), &format!("The steps are {steps}"))
    }

    /// Waits until the rollout under a commit is complete, and returns how long it took.
    async fn through(&mut self, commit: &str) -> i64 {
        self.world.through(commit).await;
        let record = self.world.record(commit, &self.kind.object());
        assert_eq!(record.outcome, Outcome::Complete, "{record:#?}");
        let live = self.world.get(&self.kind.path()).await.unwrap();
        assert_eq!((CanaryMark::on(&live), marks::annotation(&live, marks::CANARY_STEP)), (None, None), "{live:#}");
        record.ended.unwrap().duration_since(record.started).as_secs()
    }
}

fn of(kind: Kind, steps: &str, image: &str) -> String {
    if kind == KINDS[0] { web(steps, image) } else { of_kind(kind, steps, image, "ready") }
}

async fn new_pods(stage: &CanaryRollout) -> usize {
    let pods = stage.world.list("api/v1/namespaces/default/pods").await;
    let is_new = |pod: &&Value| {
        pod["spec"]["containers"][0]["image"] == "web:2" && pod["metadata"].get("deletionTimestamp").is_none()
    };
    pods.iter().filter(is_new).count()
}

#[tokio::test(start_paused = true)]
async fn a_step_takes_its_new_time_from_then_on() {
    for kind in OF {
        for (steps, expected) in [("1 1m", 60..120), ("1 9m", 540..600)] {
            let mut stage = CanaryRollout::at(kind, "1 5m", "1 of 1 new pods are ready; watched until").await;
            tokio::time::sleep(Duration::from_mins(2)).await;
            let edit = stage.push(steps);
            until_step(&mut stage.world, &edit, "canary step 1 of 1: 1 of 1 new pods are ready; watched until").await;
            assert_eq!(stage.sampling.most_new(), 1, "{kind:?} {steps}");
            let took = stage.through(&edit).await;
            assert!(expected.contains(&took), "{kind:?} {steps}: {took}");
        }
        let mut stage = CanaryRollout::at(kind, "1 5m", "1 of 1 new pods are ready; watched until").await;
        let edit = stage.push("1 0");
        until_step(&mut stage.world, &edit, "waits for belay promote or belay abort").await;
        tokio::time::sleep(Duration::from_mins(30)).await;
        assert_eq!(stage.sampling.most_new(), 1, "{kind:?}: it waits for a person now");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_takes_its_new_number_of_pods_and_none_away() {
    for kind in OF {
        let mut stage = CanaryRollout::at(kind, "1 5m, 3 5m", "canary step 1 of 2: 1 of 1 new pods").await;
        let more = stage.push("2 5m, 3 5m");
        until_step(&mut stage.world, &more, "canary step 1 of 2: 2 of 2 new pods are ready; watched until").await;
        assert_eq!(stage.sampling.most_new(), 2, "{kind:?}");
        let fewer = stage.push("1 5m, 3 5m, 3 5m");
        until_step(&mut stage.world, &fewer, "canary step 1 of 3: ").await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(new_pods(&stage).await, 2, "{kind:?}: none is taken away");
        until_step(&mut stage.world, &fewer, "canary step 2 of 3: 3 of 3 new pods are ready; watched until").await;
        stage.through(&fewer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_canary_beyond_its_last_step_goes_on_to_all_pods() {
    for kind in OF {
        let mut stage = CanaryRollout::at(kind, "1 1m, 2 9m", "canary step 2 of 2: 2 of 2 new pods are ready").await;
        let edit = stage.push("1 9m");
        let took = stage.through(&edit).await;
        assert!(took < 120, "{kind:?}: {took}");
        assert_eq!(new_pods(&stage).await, 4, "{kind:?}");
    }
}
