//! Several commits in one push: each object is charged to the newest commit that changed it.

use belay_core::rollout::{Outcome, marks};

use crate::support::daemon::{World, deployment, path_of};

#[tokio::test(start_paused = true)]
async fn each_object_has_its_own() {
    let mut world = World::embedded().await;
    world
        .repository
        .write("all.yaml", format!("{}---\n{}", deployment("a", "web:1", ""), deployment("b", "web:1", "")));
    let first = world.repository.commit("Both");
    world.repository.push();
    world.start();
    world.through(&first).await;
    world
        .repository
        .write("all.yaml", format!("{}---\n{}", deployment("a", "web:2", ""), deployment("b", "web:1", "")));
    let second = world.repository.commit("Only a");
    world
        .repository
        .write("all.yaml", format!("{}---\n{}", deployment("a", "web:2", ""), deployment("b", "web:2", "")));
    let third = world.repository.commit("Only b");
    world.repository.write("README", "nothing");
    let head = world.repository.commit("Neither");
    world.repository.push();
    world.through(&head).await;
    assert_eq!(world.record(&second, "Deployment default/a").outcome, Outcome::Complete);
    assert_eq!(world.record(&third, "Deployment default/b").outcome, Outcome::Complete);
    let commit = |live: serde_json::Value| marks::annotation(&live, marks::COMMIT).map(str::to_owned);
    assert_eq!(commit(world.get(&path_of("a")).await.unwrap()), Some(second));
    assert_eq!(commit(world.get(&path_of("b")).await.unwrap()), Some(third));
    assert_eq!(world.records().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_moves_to_another_file_is_unchanged() {
    let mut world = World::embedded().await;
    let first = world.push("a.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.through(&first).await;
    let before = world.get(&path_of("web")).await.unwrap();
    world.repository.remove("a.yaml").write("deep/below/b.yaml", deployment("web", "web:1", ""));
    let moved = world.repository.commit("Move it");
    world.repository.push();
    world.through(&moved).await;
    assert_eq!(world.get(&path_of("web")).await.unwrap(), before);
    assert_eq!(world.records().len(), 1);
}
