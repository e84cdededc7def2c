//! Controllers that are away for longer than all limits: every workload has a verdict. When they are back, and a workload is
//! complete on its last good revision, the verdict is corrected, and that is told.

use std::time::Duration;

use belay_core::rollout::{Hold, Outcome};
use minicluster::Part;
use serde_json::Value;

use crate::support::daemon::{World, image};
use crate::support::workloads::KINDS;

#[tokio::test(start_paused = true)]
async fn a_verdict_that_the_world_has_overtaken_is_corrected() {
    let [deployment, stateful_set, daemon_set, controller] = KINDS;
    let cases =
        [(deployment, false), (stateful_set, true), (daemon_set, false), (controller, false), (controller, true)];
    for (kind, restarts) in cases {
        let case = format!("{} restarts: {restarts}", kind.name);
        let mut world = World::embedded().await;
        let first = world.push("web.yaml", &kind.manifest("web:1", "ready"), "First version");
        world.start();
        world.through(&first).await;
        world.cluster.as_mut().unwrap().stop_part(Part::Controllers).await;
        let second = world.push("web.yaml", &kind.manifest("web:2", "ready"), "Second version");
        world.through(&second).await;
        let record = world.record(&second, &kind.object());
        let took = record.ended.unwrap().duration_since(record.started).as_secs();
        // A deadline and outage_timeout forth, and the same with the budget back.
        assert!(took < 2 * (30 + 15 + 600) + 300 + 120, "{case}: {took} s: {record:#?}");
        assert!(matches!(record.outcome, Outcome::RollbackFailed | Outcome::RolledBack), "{case}: {record:#?}");
        if restarts {
            world.kill().await;
            world.start();
        }
        tokio::time::sleep(Duration::from_mins(5)).await;
        world.cluster.as_mut().unwrap().start_part(Part::Controllers);
        tokio::time::sleep(Duration::from_mins(5)).await;
        world.until("all is quiet", |source| source.settled).await;
        let live = world.get(&kind.path()).await.unwrap();
        let hold = Hold::on(&live).unwrap_or_else(|| panic!("{case}: it is held: {:#?}", world.records()));
        assert_eq!((image(&live), hold.commit.as_str()), ("web:1", second.as_str()), "{case}");
        let record = world.record(&second, &kind.object());
        assert_eq!(record.outcome, Outcome::RolledBack, "{case}: {record:#?}");
        assert_eq!(world.status().summary(), "degraded (1 held)", "{case}");
        for pod in world.list("api/v1/namespaces/default/pods").await {
            assert_eq!(pod["spec"]["containers"][0]["image"], "web:1", "{case}");
        }
        let events = world.list("api/v1/namespaces/default/events").await;
        let told = events.iter().filter(|event| event["reason"] == "RolledBack" && event["type"] == "Normal");
        assert!(
            told.count() > 0,
            "{case}: {:#?}",
            events.iter().map(|event| &event["reason"]).collect::<Vec<&Value>>()
        );
    }
}
