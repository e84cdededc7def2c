//! Whatever a repository holds: one clear error, nothing applied that should not be, and the daemon goes on.

use belay::daemon::Obstacle;
use belay_core::rollout::{Outcome, SourceState};

use crate::support::daemon::{World, deployment, path_of};
use crate::support::repository::Kind;

/// Commits something odd beside a good file; the good one is applied, the odd one is named.
async fn odd(path: impl AsRef<[u8]>, kind: Kind, content: impl AsRef<[u8]>, says: &str) {
    let mut world = World::embedded().await;
    world.repository.write("good.yaml", deployment("web", "web:1", ""));
    let first = world.repository.commit("Good");
    world.repository.push();
    world.start();
    world.through(&first).await;
    world.repository.put(path, kind, content);
    let second = world.repository.commit("Odd");
    world.repository.push();
    world.through(&second).await;
    let rejected: Vec<_> = world.records().into_iter().filter(|record| record.outcome == Outcome::Rejected).collect();
    assert_eq!(rejected.len(), 1, "{rejected:#?}");
    let text: String = rejected[0].complaints.iter().map(ToString::to_string).collect();
    assert!(text.contains(says), "{text:?} does not say {says:?}");
    assert!(text.len() < 2000, "one clear error: {text}");
    let third = world.push("good.yaml", &deployment("web", "web:2", ""), "It goes on");
    world.through(&third).await;
    assert_eq!(world.record(&third, "Deployment default/web").outcome, Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn broken_yaml() {
    odd("odd.yaml", Kind::File, "a: [1, 2\nb: }\n", "odd.yaml:").await;
}

#[tokio::test(start_paused = true)]
async fn a_file_of_a_hundred_megabytes() {
    odd("odd.yaml", Kind::File, vec![b'#'; 100 << 20], "bytes").await;
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_nested_lists() {
    odd("odd.yaml", Kind::File, "[".repeat(10_000), "odd.yaml:").await;
}

#[tokio::test(start_paused = true)]
async fn an_alias_bomb() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![below; 10].join(", ")));
    }
    odd("odd.yaml", Kind::File, bomb, "alias").await;
}

#[tokio::test(start_paused = true)]
async fn an_api_group_that_makes_no_path() {
    let odd_one = "apiVersion: \"ex.ample com/v1\"\nkind: Thing\nmetadata: {name: a}\n";
    odd("odd.yaml", Kind::File, odd_one, "odd.yaml:1:13: the API group").await;
}

#[tokio::test(start_paused = true)]
async fn a_version_with_a_query() {
    let odd_one = "apiVersion: ex.ample.com/v1?a=b\nkind: Thing\nmetadata: {name: a}\n";
    odd("odd.yaml", Kind::File, odd_one, "the version, behind the /,").await;
}

#[tokio::test(start_paused = true)]
async fn a_binary() {
    let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
    odd("odd.yaml", Kind::File, bytes, "odd.yaml").await;
}

#[tokio::test(start_paused = true)]
async fn a_symbolic_link() {
    odd("odd.yaml", Kind::Symlink, "/etc/passwd", "symbolic link").await;
}

/// A link to a folder is named where somebody may mean what is there; nothing is read through it.
#[tokio::test(start_paused = true)]
async fn a_link_to_a_folder_with_manifests() {
    let mut world = World::embedded().await;
    world.config.path = ".live".into();
    world.repository.write("shared/odd.yaml", deployment("odd", "web:1", "")).write("docs/a.md", "text");
    world.repository.put(".live/docs", Kind::Symlink, "../docs");
    let first = world.push(".live/good.yaml", &deployment("web", "web:1", ""), "A folder whose name begins with a dot");
    world.start();
    world.through(&first).await;
    assert_eq!(world.record(&first, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(world.status().state(), SourceState::Synced, "{:#?}", world.records());
    world.repository.put(".live/shared", Kind::Symlink, "../shared");
    let second = world.repository.commit("A link");
    world.repository.push();
    world.through(&second).await;
    let rejected: Vec<_> = world.records().into_iter().filter(|record| record.outcome == Outcome::Rejected).collect();
    let [rejected] = &rejected[..] else { panic!("{rejected:#?}") };
    let said: String = rejected.complaints.iter().map(ToString::to_string).collect();
    assert!(said.starts_with(".live/shared:1:1: the folder is a symbolic link"), "{said}");
    assert!(world.get(&path_of("odd")).await.is_none());
    world.repository.remove(".live/shared");
    let third = world.repository.commit("No link");
    world.repository.push();
    world.through(&third).await;
    assert_eq!(world.status().state(), SourceState::Synced, "{:#?}", world.records());
}

#[tokio::test(start_paused = true)]
async fn a_submodule() {
    odd("odd.yaml", Kind::Submodule, "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d", "submodule").await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_not_utf_8() {
    odd(b"odd\xff.yaml", Kind::File, deployment("odd", "web:1", ""), "\\xff").await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_repository_waits_for_its_first_commit() {
    let mut world = World::embedded().await;
    world.start();
    world.until("it says so", |source| source.obstacles.trouble.contains_key(&Obstacle::Repository)).await;
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.through(&first).await;
    assert!(world.status().obstacles.trouble.is_empty(), "{:?}", world.status().obstacles.trouble);
}

#[tokio::test(start_paused = true)]
async fn a_missing_branch_is_named_with_those_there_are() {
    let mut world = World::embedded().await;
    world.config.branch = "production".to_owned();
    world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.until("it says so", |source| source.obstacles.trouble.contains_key(&Obstacle::Repository)).await;
    let trouble = world.status().obstacles.trouble[&Obstacle::Repository].clone();
    assert!(trouble.contains("production") && trouble.contains("main"), "{trouble}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_folder_is_named() {
    let mut world = World::embedded().await;
    world.config.path = "production".into();
    world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    world.until("it says so", |source| source.obstacles.trouble.contains_key(&Obstacle::Repository)).await;
    assert!(
        world.status().obstacles.trouble[&Obstacle::Repository].contains("production"),
        "{:?}",
        world.status().obstacles.trouble
    );
    let second = world.push("production/web.yaml", &deployment("web", "web:1", ""), "Move it there");
    world.through(&second).await;
    assert!(world.get(&path_of("web")).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_history_rewritten_by_force_is_followed() {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.start();
    let second = world.repository.tip().unwrap();
    world.through(&second).await;
    world.repository.reset(&first).write("web.yaml", deployment("web", "web:3", ""));
    let other = world.repository.commit("Another second version");
    world.repository.force_push();
    world.through(&other).await;
    assert_eq!(world.record(&other, "Deployment default/web").outcome, Outcome::Complete);
    let live = world.get(&path_of("web")).await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "web:3");
}
