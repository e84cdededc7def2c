//! A push becomes a rollout, and a record.

use belay_core::rollout::{Outcome, StepKind, marks};

use crate::support::daemon::{World, deployment, path_of, short};

#[tokio::test(start_paused = true)]
async fn a_push_becomes_a_complete_rollout() {
    let mut world = World::embedded().await;
    world.repository.author("Ada", "ada@example.com");
    let first = world.with_first_version().await;
    assert_eq!(world.outcomes(), [("Deployment default/web".to_owned(), Outcome::Complete)]);
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(live["status"]["availableReplicas"], 2);
    assert_eq!(marks::label(&live, marks::SOURCE), Some("shop"));
    assert_eq!(marks::annotation(&live, marks::COMMIT), Some(first.as_str()));
    let cause = format!("{} First version (Ada)", short(&first));
    assert_eq!(marks::annotation(&live, marks::CHANGE_CAUSE), Some(cause.as_str()));

    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    let record = world.record(&second, "Deployment default/web");
    assert_eq!((record.outcome, record.revision), (Outcome::Complete, Some(2)));
    let steps: Vec<StepKind> = world.history().steps(record.id).unwrap().iter().map(|step| step.kind).collect();
    let milestones = [StepKind::Applying, StepKind::Applied, StepKind::Ended];
    let seen: Vec<&StepKind> = steps.iter().filter(|step| milestones.contains(step)).collect();
    assert_eq!(seen, milestones.iter().collect::<Vec<_>>(), "{steps:?}");
}

#[tokio::test(start_paused = true)]
async fn only_what_a_commit_changed_is_touched() {
    let mut world = World::embedded().await;
    for name in ["one", "two", "three"] {
        world.repository.write(format!("{name}/web.yaml"), deployment(name, "web:1", ""));
    }
    let first = world.repository.commit("Three of them");
    world.repository.push();
    world.start();
    world.through(&first).await;
    let before = world.get(&path_of("one")).await.unwrap();
    let second = world.push("two/web.yaml", &deployment("two", "web:2", ""), "Only the second");
    world.through(&second).await;
    let touched: Vec<String> = world
        .records()
        .iter()
        .filter(|record| record.commit.as_str() == second)
        .map(|record| record.object.to_string())
        .collect();
    assert_eq!(touched, ["Deployment default/two"]);
    let after = world.get(&path_of("one")).await.unwrap();
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_begins_nothing_anew() {
    let (mut world, first) = World::with_web().await;
    let (records, live) = (world.records(), world.get(&path_of("web")).await.unwrap());
    world.stop().await;
    world.start();
    world.through(&first).await;
    assert_eq!(world.records(), records);
    assert_eq!(world.get(&path_of("web")).await.unwrap(), live);
}
