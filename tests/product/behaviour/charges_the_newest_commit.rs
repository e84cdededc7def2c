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

#[tokio::test(start_paused = true)]
async fn a_deletion_is_not_charged_to_a_commit_that_only_moved_the_object() {
    let mut world = World::embedded().await;
    world.config.prune = true;
    world.config.prune_limit = "2".to_owned();
    world.repository.write("a.yaml", deployment("a", "web:1", "")).write("c.yaml", deployment("c", "web:1", ""));
    let first = world.push("b.yaml", &deployment("b", "web:1", ""), "All");
    world.start();
    world.through(&first).await;
    let both = format!("{}---\n{}", deployment("a", "web:1", ""), deployment("b", "web:1", ""));
    world.repository.remove("a.yaml").remove("b.yaml").write("both.yaml", &both);
    world.repository.commit("Move them");
    world.repository.remove("both.yaml").write("later.yaml", &both);
    world.repository.commit("Move them again");
    world.repository.write("later.yaml", deployment("b", "web:1", ""));
    let without_a = world.repository.commit("Remove a");
    world.repository.remove("later.yaml");
    let without_b = world.repository.commit("Remove b");
    world.repository.write("README", "nothing");
    let head = world.repository.commit("Nothing");
    world.repository.push();
    world.through(&head).await;
    for (commit, object) in [(&without_a, "Deployment default/a"), (&without_b, "Deployment default/b")] {
        assert_eq!(world.record(commit, object).outcome, Outcome::Pruned);
    }
}
