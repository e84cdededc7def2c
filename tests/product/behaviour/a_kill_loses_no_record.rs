//! A daemon that is killed between an apply and its record: the commit that changed the object has that in its record, and not
//! that there was nothing to change.

use belay::config::OnFailure;
use belay_core::rollout::{Outcome, Record};

use crate::support::daemon::{World, broken, config_map, deployment};
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

#[tokio::test(start_paused = true)]
async fn so_that_the_whole_commit_goes_back() {
    let (mut world, tap) = World::tapped().await;
    world.config.on_failure = OnFailure::RollBackCommit;
    world.repository.write("settings.yaml", config_map("settings", "1"));
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.through(&first).await;
    let applies = |path: &str| path.contains("/configmaps/settings");
    tap.rule(move |went, _| if went.changes_an_object() && applies(&went.path) { Fate::DieAfter } else { Fate::Pass });
    world.repository.write("settings.yaml", config_map("settings", "2"));
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    assert!(world.through_a_kill(&tap, &bad).await);
    assert_eq!(world.record(&bad, "Deployment default/web").outcome, Outcome::RolledBack, "{:#?}", world.records());
    let records = world.records();
    let of = |record: &&Record| record.commit.as_str() == bad && record.object.name == "settings";
    let outcomes: Vec<Outcome> = records.iter().filter(of).map(|record| record.outcome).collect();
    // It was applied, and went back together with the workload.
    assert_eq!(outcomes, [Outcome::Complete, Outcome::RolledBack], "{records:#?}");
    let settings = world.get("api/v1/namespaces/default/configmaps/settings").await.unwrap();
    assert_eq!(settings["data"]["A"], "1");
}
