//! A daemon that is killed between an apply and its record: the commit that changed the object has that in its record, and not
//! that there was nothing to change.

use belay_core::rollout::Outcome;

use crate::support::daemon::{World, config_map};
use crate::support::tap::Fate;
use crate::support::workloads::KINDS;

#[tokio::test(start_paused = true)]
async fn of_every_kind() {
    let maps = (config_map("web", "1"), config_map("web", "2"), "ConfigMap default/web".to_owned());
    let workloads = KINDS.map(|kind| (kind.manifest("web:1", "ready"), kind.manifest("web:2", "ready"), kind.object()));
    for (one, other, object) in workloads.into_iter().chain([maps]) {
        let (mut world, tap) = World::tapped().await;
        let first = world.push("web.yaml", &one, "First version");
        world.start();
        world.through(&first).await;
        tap.rule(|went, _| if went.changes_an_object() { Fate::DieAfter } else { Fate::Pass });
        let second = world.push("web.yaml", &other, "Second version");
        assert!(world.through_a_kill(&tap, &second).await, "{object}");
        assert_eq!(world.record(&second, &object).outcome, Outcome::Complete, "{object}: {:#?}", world.records());
    }
}
