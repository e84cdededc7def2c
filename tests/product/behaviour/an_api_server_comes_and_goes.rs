//! An API server that comes and goes, as behind a balancer with a member that flaps: each outage puts a verdict off by the time
//! that it lasted, and by no more.

use std::time::Duration;

use belay_core::rollout::{Outcome, StepKind};

use crate::support::daemon::World;
use crate::support::tap::Fate;
use crate::support::workloads::KINDS;

#[tokio::test(start_paused = true)]
async fn the_verdict_comes_all_the_same() {
    for kind in KINDS {
        for (away, there) in [(8, 12), (3, 4), (25, 20)] {
            let case = format!("{} away {away} s of {} s", kind.name, away + there);
            let (mut world, tap) = World::tapped().await;
            let first = world.push("web.yaml", &kind.manifest("web:1", "ready"), "First version");
            world.start();
            world.through(&first).await;
            let bad = world.push("web.yaml", &kind.manifest("web:2", "never-ready"), "Broken");
            world.until("it is under way", |source| !source.under_way.is_empty()).await;
            let (began, mut silent) = (tokio::time::Instant::now(), 0);
            let steps = |world: &World| {
                let record = world.record(&bad, &kind.object());
                world.history().steps(record.id).unwrap()
            };
            while !steps(&world).iter().any(|step| step.kind == StepKind::Verdict) {
                assert!(began.elapsed() < Duration::from_secs(3600), "{case}: {:#?}", steps(&world));
                tap.rule(|_, _| Fate::Fail(503));
                tap.refuse_watches(true);
                tokio::time::sleep(Duration::from_secs(away)).await;
                silent += away;
                tap.rule(|_, _| Fate::Pass);
                tap.refuse_watches(false);
                tokio::time::sleep(Duration::from_secs(there)).await;
            }
            // A deadline, belay's grace, one look at the pods, and one period of the flapping.
            let limit = Duration::from_secs(30 + 15 + 30 + silent + away + there);
            assert!(began.elapsed() <= limit, "{case}: {:?} of {limit:?}", began.elapsed());
            world.through(&bad).await;
            assert_eq!(world.record(&bad, &kind.object()).outcome, Outcome::RolledBack, "{case}");
        }
    }
}
