//! Somebody replaces a ReplicationController by force (`kubectl replace --force`: deleted with its pods, and made again
//! under the same name) in the middle of belay's rolling update. The update goes on; what fails ends on the last good
//! version, held, and nothing is left in between.

use std::time::Duration;

use belay_core::rollout::{Hold, Outcome, marks};
use serde_json::{Value, json};

use crate::support::daemon::World;
use crate::support::workloads::{KINDS, Kind};

const KIND: Kind = KINDS[3];
const CONTROLLERS: &str = "api/v1/namespaces/default/replicationcontrollers";
const PODS: &str = "api/v1/namespaces/default/pods";

/// The moments at which somebody replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplacedWhen {
    Begun,
    Later(Duration),
    GoesBack,
}

/// As `kubectl replace --force -f`.
async fn replace_by_force(world: &World, manifest: &str) {
    let request = http::Request::delete(format!("/{}", KIND.path()))
        .header("Content-Type", "application/json")
        .body(
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
                .to_string()
                .into_bytes(),
        )
        .unwrap();
    world.client.request::<Value>(request).await.unwrap();
    let manifest: Value = serde_yaml::from_str(manifest).unwrap();
    world.create(CONTROLLERS, "kubectl-replace", &manifest).await;
}

async fn comes(world: &mut World, moment: ReplacedWhen) {
    match moment {
        ReplacedWhen::Begun => {
            while world.list(CONTROLLERS).await.len() < 2 {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        ReplacedWhen::Later(time) => {
            world.until("it is rolled", |source| !source.under_way.is_empty()).await;
            tokio::time::sleep(time).await;
        }
        ReplacedWhen::GoesBack => {
            let goes_back = |source: &belay::daemon::SourceStatus| {
                source.under_way.values().any(|way| way.outcome == Outcome::RollingBack)
            };
            world.until("it goes back", goes_back).await;
        }
    }
}

/// Checks that one controller is there, and as many ready pods of that image as it wants, and no others.
async fn is_whole(world: &World, image: &str, case: &str) {
    let controllers = world.list(CONTROLLERS).await;
    let names: Vec<&Value> = controllers.iter().map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(names, ["web"], "{case}: {:#?}", world.records());
    assert_eq!(controllers[0]["status"]["readyReplicas"], 2, "{case}: {:#}", controllers[0]);
    let pods = world.list(PODS).await;
    let images: Vec<&Value> = pods.iter().map(|pod| &pod["spec"]["containers"][0]["image"]).collect();
    assert_eq!(images, [image, image], "{case}");
}

#[tokio::test(start_paused = true)]
async fn what_fails_goes_back_to_the_last_good_version() {
    let (good, bad) = (KIND.manifest("web:1", "ready"), KIND.manifest("web:2", "never-ready"));
    let later = ReplacedWhen::Later(Duration::from_secs(10));
    let by_the_good = [ReplacedWhen::Begun, later, ReplacedWhen::GoesBack].map(|moment| (&good, moment));
    for (by, moment) in by_the_good.into_iter().chain([ReplacedWhen::Begun, later].map(|moment| (&bad, moment))) {
        let case = format!("{moment:?}, by the {} one", if *by == good { "good" } else { "bad" });
        let mut world = World::embedded().await;
        let first = world.push("web.yaml", &good, "First version");
        world.start();
        world.through(&first).await;
        let broken = world.push("web.yaml", &bad, "Broken");
        comes(&mut world, moment).await;
        replace_by_force(&world, by).await;
        world.through(&broken).await;
        let record = world.record(&broken, &KIND.object());
        assert_eq!(record.outcome, Outcome::RolledBack, "{case}: {record:#?}");
        is_whole(&world, "web:1", &case).await;
        let live = world.get(&KIND.path()).await.unwrap();
        assert_eq!(Hold::on(&live).map(|hold| hold.commit.to_string()), Some(broken.clone()), "{case}: {live:#}");
        assert_eq!(marks::annotation(&live, marks::COMMIT), Some(first.as_str()), "{case}: {live:#}");
        let count = world.records().len();
        tokio::time::sleep(Duration::from_mins(15)).await;
        assert_eq!(world.records().len(), count, "{case}: {:#?}", world.records());
        is_whole(&world, "web:1", &case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_good_gets_there() {
    let (old, new) = (KIND.manifest("web:1", "ready"), KIND.manifest("web:2", "ready-after=3s"));
    let moments = [ReplacedWhen::Begun, ReplacedWhen::Later(Duration::from_secs(10))];
    for (by, moment) in [&old, &new].into_iter().flat_map(|by| moments.map(|moment| (by, moment))) {
        let case = format!("{moment:?}, by the {} one", if *by == old { "old" } else { "new" });
        let mut world = World::embedded().await;
        let first = world.push("web.yaml", &old, "First version");
        world.start();
        world.through(&first).await;
        let second = world.push("web.yaml", &new, "Second version");
        comes(&mut world, moment).await;
        replace_by_force(&world, by).await;
        world.through(&second).await;
        let record = world.record(&second, &KIND.object());
        assert_eq!(record.outcome, Outcome::Complete, "{case}: {record:#?}");
        is_whole(&world, "web:2", &case).await;
    }
}

/// The controller that an update has made is gone before the record says that the workload is back.
#[tokio::test(start_paused = true)]
async fn it_is_back_when_nothing_is_left_of_the_update() {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &KIND.manifest("web:1", "ready"), "First version");
    world.start();
    world.through(&first).await;
    let broken = world.push("web.yaml", &KIND.manifest("web:2", "never-ready"), "Broken");
    comes(&mut world, ReplacedWhen::Later(Duration::from_secs(5))).await;
    // A finalizer keeps it from going, as a foreground deletion has one.
    let controllers = world.list(CONTROLLERS).await;
    let next = controllers.iter().find(|one| one["metadata"]["name"] != "web").expect("the next controller");
    let next = format!("{CONTROLLERS}/{}", next["metadata"]["name"].as_str().unwrap());
    world.patch(&next, "kubectl-edit", &json!({"metadata": {"finalizers": ["example.com/keep"]}})).await;
    let goes =
        |source: &belay::daemon::SourceStatus| source.under_way.values().any(|way| way.outcome == Outcome::RollingBack);
    world.until("it goes back", goes).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let record = world.record(&broken, &KIND.object());
    assert_eq!(record.outcome, Outcome::RollingBack, "{record:#?}");
    world.patch(&next, "kubectl-edit", &json!({"metadata": {"finalizers": null}})).await;
    world.through(&broken).await;
    assert_eq!(world.record(&broken, &KIND.object()).outcome, Outcome::RolledBack);
    is_whole(&world, "web:1", "kept").await;
}
