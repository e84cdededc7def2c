//! Pushes come faster than rollouts: only the newest head is planned, what was under way is superseded, and the commits
//! that were skipped are known by the head that they came with. A slow rollout delays nobody.

use belay_core::rollout::{CommitId, Outcome};

use crate::support::daemon::{World, broken, deployment, image, path_of};
use crate::support::tap::Fate;

#[tokio::test(start_paused = true)]
async fn skipped_commits_are_recorded_with_their_head() {
    let (mut world, _) = World::with_web().await;
    let skipped: Vec<String> = (2..6)
        .map(|version| {
            world.repository.commit_file("web.yaml", &deployment("web", &format!("web:{version}"), ""), "Another")
        })
        .collect();
    let head = world.push("web.yaml", &deployment("web", "web:6", ""), "The last one");
    world.through(&head).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:6");
    assert_eq!(world.records().len(), 2, "none of the others was planned");
    for commit in skipped {
        let arrivals = world.history().arrivals(&commit.parse::<CommitId>().unwrap()).unwrap();
        assert_eq!(arrivals[0].head.as_str(), head, "superseded by it");
    }
}

#[tokio::test(start_paused = true)]
async fn each_push_takes_the_place_of_what_is_under_way() {
    let (mut world, _) = World::with_web().await;
    let mut commits = Vec::new();
    for version in 2..6 {
        let slow = broken("web", "ready-after=20s").replace("web:2", &format!("web:{version}"));
        let commit = world.push("web.yaml", &slow, "Another");
        let planned = commit.clone();
        world
            .until("it is under way", move |source| source.under_way.values().any(|way| way.commit.as_str() == planned))
            .await;
        commits.push(commit);
    }
    let last = commits.pop().unwrap();
    world.through(&last).await;
    assert_eq!(world.record(&last, "Deployment default/web").outcome, Outcome::Complete);
    for commit in commits {
        assert_eq!(world.record(&commit, "Deployment default/web").outcome, Outcome::Superseded);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_head_said_whose_plan_was_never_finished_is_in_the_next() {
    let (mut world, tap) = World::tapped().await;
    world.with_first_version().await;
    tap.rule(|_, _| Fate::Fail(503));
    world.push("api.yaml", &deployment("api", "api:1", ""), "One more");
    world.push("broken.yaml", "kind: [Deployment\n", "A broken one");
    world
        .until("it is being planned", |source| source.obstacles.trouble.values().any(|text| text.contains("disturbed")))
        .await;
    let last = world.push("web.yaml", &deployment("web", "web:2", ""), "The last one");
    let head = last.clone();
    world.until("it is heard", move |source| source.head.as_ref().is_some_and(|at| at.as_str() == head)).await;
    tap.rule(|_, _| Fate::Pass);
    world.through(&last).await;
    let outcome = |object: &str| {
        let all = world.outcomes();
        all.iter().rev().find(|(name, _)| name == object).map(|(_, outcome)| *outcome)
    };
    assert_eq!(outcome("Deployment default/web"), Some(Outcome::Complete));
    assert_eq!(outcome("Deployment default/api"), Some(Outcome::Complete));
    assert_eq!(outcome("File broken.yaml"), Some(Outcome::Rejected));
    let records = world.records();
    assert!(records.iter().all(|record| record.trigger.is_commit()), "{records:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_one_delays_nobody() {
    let mut world = World::embedded().await;
    world.repository.write("slow.yaml", deployment("slow", "web:1", ""));
    for number in 0..40 {
        world.repository.write(format!("{number}.yaml"), deployment(&format!("app{number}"), "web:1", ""));
    }
    world.with_all_of_them().await;
    world.repository.write("slow.yaml", broken("slow", "never-ready"));
    for number in 0..40 {
        world.repository.write(format!("{number}.yaml"), deployment(&format!("app{number}"), "web:2", ""));
    }
    let second = world.repository.commit("All of them again");
    world.repository.push();
    world.through(&second).await;
    for number in 0..40 {
        let record = world.record(&second, &format!("Deployment default/app{number}"));
        assert_eq!(record.outcome, Outcome::Complete);
        assert!(record.ended.unwrap().duration_since(record.started).as_secs() < 25, "{record:#?}");
    }
    assert_eq!(world.record(&second, "Deployment default/slow").outcome, Outcome::RolledBack);
}
