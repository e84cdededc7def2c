//! Commits as people and tools make them: merges of two and of many, empty ones, squashed ones, with several authors, with
//! huge subjects and texts that are none, with clocks that run backwards.

use belay_core::rollout::{Outcome, marks};

use crate::support::daemon::{World, deployment, path_of, short};

async fn started() -> World {
    let mut world = World::embedded().await;
    world.repository.author("Ada", "ada@example.com").at(1_700_000_000);
    for name in ["a", "b", "c"] {
        world.repository.write(format!("{name}.yaml"), deployment(name, "web:1", ""));
    }
    let first = world.repository.commit("First version");
    world.repository.push();
    world.start();
    world.through(&first).await;
    world
}

async fn mark(world: &World, name: &str, mark: &str) -> String {
    marks::annotation(&world.get(&path_of(name)).await.unwrap(), mark).unwrap().to_owned()
}

fn change(world: &mut World, name: &str, image: &str, message: &str) -> String {
    world.repository.commit_file(&format!("{name}.yaml"), &deployment(name, image, ""), message)
}

#[tokio::test(start_paused = true)]
async fn a_merge_charges_the_commits_that_it_merges() {
    let mut world = started().await;
    world.repository.branch("left");
    let left = change(&mut world, "a", "web:2", "On the left");
    world.repository.switch("main").branch("right");
    let right = change(&mut world, "b", "web:2", "On the right");
    world.repository.switch("main");
    let main = change(&mut world, "c", "web:2", "Straight on");
    let merge = world.repository.merge(&["left", "right"], "An octopus");
    world.repository.push();
    world.through(&merge).await;
    for (name, commit) in [("a", &left), ("b", &right), ("c", &main)] {
        assert_eq!(mark(&world, name, marks::COMMIT).await, *commit, "{name}");
        assert_eq!(world.record(commit, &format!("Deployment default/{name}")).outcome, Outcome::Complete);
    }
}

#[tokio::test(start_paused = true)]
async fn a_squashed_branch_is_one_commit() {
    let mut world = started().await;
    let squashed = {
        world.repository.write("a.yaml", deployment("a", "web:2", "")).write("b.yaml", deployment("b", "web:2", ""));
        world.repository.commit("Everything of a branch (#7)\n\n* One thing\n* Another\n")
    };
    world.repository.push();
    world.through(&squashed).await;
    for name in ["a", "b"] {
        assert_eq!(mark(&world, name, marks::COMMIT).await, squashed);
        let cause = mark(&world, name, marks::CHANGE_CAUSE).await;
        assert_eq!(cause, format!("{} Everything of a branch (#7) (Ada)", short(&squashed)));
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_one_changes_nothing_and_is_acted_on() {
    let mut world = started().await;
    let before = world.get(&path_of("a")).await.unwrap();
    let records = world.records().len();
    let empty = world.repository.commit("Trigger a build");
    world.repository.push();
    world.through(&empty).await;
    assert_eq!(world.get(&path_of("a")).await.unwrap(), before);
    assert_eq!(world.records().len(), records);
}

#[tokio::test(start_paused = true)]
async fn who_helped_is_no_author_and_a_huge_subject_is_cut() {
    let mut world = started().await;
    let long = "word ".repeat(40_000);
    let huge = change(&mut world, "a", "web:2", &format!("{long}\n\nCo-authored-by: Grace <grace@example.com>\n"));
    world.repository.push();
    world.through(&huge).await;
    let cause = mark(&world, "a", marks::CHANGE_CAUSE).await;
    assert!(cause.starts_with(&format!("{} word word", short(&huge))), "{cause}");
    assert!(cause.chars().count() <= 200 && !cause.contains("Grace"), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_runs_backwards_changes_no_order() {
    let mut world = started().await;
    world.repository.at(1_000_000);
    let older = change(&mut world, "a", "web:2", "Long ago, by its clock");
    world.repository.at(900_000);
    let newer = change(&mut world, "a", "web:3", "Even longer ago");
    world.repository.push();
    world.through(&newer).await;
    assert_eq!(mark(&world, "a", marks::COMMIT).await, newer);
    assert_ne!(older, newer);
    let next = change(&mut world, "a", "web:4", "And on");
    world.repository.push();
    world.through(&next).await;
    assert_eq!(world.record(&next, "Deployment default/a").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn names_and_subjects_that_are_no_text_harm_nobody() {
    let mut world = started().await;
    let parent = world.repository.tip().unwrap();
    world.repository.write("a.yaml", deployment("a", "web:2", ""));
    let tree = world.repository.tree();
    let mut raw = format!("tree {tree}\nparent {parent}\nauthor Ren\u{fffd}").into_bytes();
    raw.truncate(raw.len() - '\u{fffd}'.len_utf8());
    raw.extend(
        b"\xe9 \x1b[31m <rene@example.com> 1700000900 +0100\ncommitter Ada <ada@example.com> 1700000900 +0100\n\n",
    );
    raw.extend(b"Th\xe9 \x1b]0;title\x07subject\n");
    let odd = world.repository.commit_raw(&raw);
    world.repository.push();
    world.through(&odd).await;
    let cause = mark(&world, "a", marks::CHANGE_CAUSE).await;
    assert!(cause.starts_with(short(&odd)) && cause.contains("subject"), "{cause}");
    assert!(!cause.contains(|c: char| c.is_control()), "{cause:?}");
    assert_eq!(world.record(&odd, "Deployment default/a").outcome, Outcome::Complete);
}
