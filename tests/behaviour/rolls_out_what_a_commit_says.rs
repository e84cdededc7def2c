//! A push becomes a rollout, and a record.

use belay::rollout::{Outcome, marks};

use crate::world::daemon::{World, deployment, path_of, short};

#[tokio::test(start_paused = true)]
async fn a_push_becomes_a_complete_rollout() {
    let mut world = World::embedded().await;
    world.repository.author("Ada", "ada@example.com");
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.through(&first).await;
    assert_eq!(world.outcomes(), [("Deployment default/web".to_owned(), Outcome::Complete)]);
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(live["status"]["availableReplicas"], 2);
    assert_eq!(marks::label(&live, marks::SOURCE), Some("shop"));
    assert_eq!(marks::annotation(&live, marks::COMMIT), Some(first.as_str()));
    let cause = format!("{} First version (Ada)", short(&first));
    assert_eq!(marks::annotation(&live, marks::CHANGE_CAUSE), Some(cause.as_str()));
}
