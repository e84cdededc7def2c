//! A repository that is beyond a limit, or whose reading has brought belay down, is told as blocked with the reason; the
//! other sources of the same daemon go on being rolled out.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::time::Duration;

use belay::config::Span;
use belay::daemon::{Obstacle, SourceStatus};
use belay_core::rollout::{Outcome, SourceState};

use crate::support::daemon::{World, config_map, deployment};
use crate::support::repository::Repository;

/// `shop`, complete at its first version, and beside it `bad`, which follows `repository` from now on.
async fn beside(repository: &Repository) -> World {
    let mut world = before_the_start(repository).await;
    world.start();
    world
}

/// The same before belay is started with `bad`.
async fn before_the_start(repository: &Repository) -> World {
    let (mut world, _) = World::with_web().await;
    world.stop().await;
    let mut bad = world.config.clone();
    bad.name = "bad".to_owned();
    bad.repository = repository.path().display().to_string();
    // Each look at it takes its time.
    bad.interval = Span(Duration::from_mins(1));
    world.more.push(bad);
    world
}

/// Waits until belay says so of `bad`.
async fn until_bad(world: &World, what: &str, met: impl Fn(&SourceStatus) -> bool) {
    let mut status = world.listen();
    let met = status.wait_for(|status| status.sources.get("bad").is_some_and(&met));
    let within = tokio::time::timeout(Duration::from_mins(10), met).await.is_ok();
    assert!(within, "not within ten minutes: {what}: {:#?}", world.whole_status().sources["bad"]);
}

/// Returns true when a source is blocked for this reason.
fn is_blocked(source: &SourceStatus, why: &str) -> bool {
    source.state() == SourceState::Blocked
        && source.obstacles.trouble.get(&Obstacle::Repository).is_some_and(|told| told.contains(why))
}

/// The other source's next version is rolled out.
async fn goes_on(world: &mut World, image: &str) {
    let commit = world.push("web.yaml", &deployment("web", image, ""), image);
    world.through(&commit).await;
    assert_eq!(world.record(&commit, "Deployment default/web").outcome, Outcome::Complete);
    assert_eq!(world.status().state(), SourceState::Synced);
}

/// Once it is mended it is followed like any other.
async fn mended(world: &World, repository: &mut Repository) {
    let fine = repository.commit_file("fine.yaml", &config_map("fine", "1"), "Mended");
    repository.push();
    let is_planned = |source: &SourceStatus| source.planned.as_ref().is_some_and(|planned| planned.as_str() == fine);
    until_bad(world, "it is followed", |source| is_planned(source) && source.state() == SourceState::Synced).await;
}

#[tokio::test(start_paused = true)]
async fn folders_inside_folders_without_end() {
    let mut repository = Repository::new();
    let blob = repository.blob(config_map("a", "1"));
    let mut tree = repository.raw_tree(&[("100644", b"a.yaml", &blob)]).to_string();
    for _ in 0..12 {
        let names: Vec<String> = (0..10).map(|number| format!("folder-{number}")).collect();
        let entries: Vec<_> = names.iter().map(|name| ("40000", name.as_bytes(), tree.as_str())).collect();
        tree = repository.raw_tree(&entries).to_string();
    }
    repository.commit_tree(tree.parse().unwrap(), &[], "10^12 files");
    repository.push();
    let mut world = beside(&repository).await;
    until_bad(&world, "it is refused", |source| is_blocked(source, "more than")).await;
    goes_on(&mut world, "web:2").await;
    mended(&world, &mut repository).await;
    goes_on(&mut world, "web:3").await;
}

#[tokio::test(start_paused = true)]
async fn manifests_that_take_too_much_memory_together() {
    let mut repository = Repository::new();
    // All of one content, which Git stores once.
    let large = config_map("large", &"a".repeat(2_500_000));
    for number in 0..28 {
        repository.write(format!("large/{number}.yaml"), &large);
    }
    repository.commit("Too much");
    repository.push();
    let mut world = beside(&repository).await;
    until_bad(&world, "it is refused", |source| is_blocked(source, "split the change into several sources")).await;
    goes_on(&mut world, "web:2").await;
}

/// A process was killed while it read the repository: the next ones leave it alone for longer and longer, and read it
/// again after that.
#[tokio::test(start_paused = true)]
async fn one_that_brought_belay_down_is_left_alone_for_a_while() {
    let mut repository = Repository::new();
    let commit = repository.commit_file("a.yaml", &config_map("a", "1"), "First");
    repository.push();
    let mut world = beside(&repository).await;
    for (unended, times, rest) in [(1, "once", 30_u64), (2, "2 times in a row", 120)] {
        until_bad(&world, "it is followed", |source| source.state() == SourceState::Synced).await;
        world.kill().await;
        let attempt = world.repository.beside("state/sources/bad/attempt");
        assert!(!attempt.exists(), "a kill while nothing is new is not the repository's doing");
        fs::write(&attempt, format!("{unended}\n")).unwrap();
        world.start();
        let why = format!("quarantined: belay ended {times} while it fetched or read this repository");
        until_bad(&world, "it is told", |source| is_blocked(source, &why)).await;
        let began = tokio::time::Instant::now();
        goes_on(&mut world, &format!("web:{}", unended + 1)).await;
        assert!(began.elapsed().as_secs() < rest, "the other one does not wait for it");
        until_bad(&world, "it is tried again", |source| source.state() == SourceState::Synced).await;
        let waited = began.elapsed().as_secs();
        assert!((rest - 2..rest + 5).contains(&waited), "{waited} s");
        let status = world.whole_status();
        assert_eq!(status.sources["bad"].planned.as_ref().map(|planned| planned.as_str()), Some(commit.as_str()));
        assert!(!attempt.exists(), "it was read");
    }
}

/// Its folder belongs to another user, or something else is in the place of it.
#[tokio::test(start_paused = true)]
async fn one_whose_folder_can_not_be_used_is_blocked_until_it_can() {
    type Spoil = fn(&Path);
    let file: Spoil = |folder| fs::write(folder, "").unwrap();
    let foreign: Spoil = |folder| {
        fs::create_dir(folder).unwrap();
        chown(folder, Some(1000), None).unwrap();
    };
    // Only root can give a folder away.
    let is_root = rustix::process::geteuid().is_root();
    let spoils = [(file, "exists")].into_iter().chain(is_root.then_some((foreign, "belongs to user 1000")));
    for (spoil, why) in spoils {
        let mut repository = Repository::new();
        repository.commit_file("a.yaml", &config_map("a", "1"), "First");
        repository.push();
        let mut world = before_the_start(&repository).await;
        let folder = world.repository.beside("state/sources/bad");
        spoil(&folder);
        world.start();
        until_bad(&world, "it is told", |source| is_blocked(source, why)).await;
        goes_on(&mut world, "web:2").await;
        if folder.is_dir() { fs::remove_dir(&folder) } else { fs::remove_file(&folder) }.unwrap();
        mended(&world, &mut repository).await;
        goes_on(&mut world, "web:3").await;
    }
}

/// An older version of a file is read, or the present one again: if belay is killed for that, the repository is the cause.
#[tokio::test(start_paused = true)]
async fn whatever_is_read_is_an_attempt() {
    let (mut world, _) = World::with_web().await;
    let settings = world.push("settings.yaml", &config_map("settings", "1"), "Settings");
    world.through(&settings).await;
    // The memory of files that were read lately is emptied.
    tokio::time::sleep(Duration::from_hours(1)).await;
    let folder = world.repository.beside("state/sources/shop");
    let changed = || fs::metadata(&folder).unwrap().modified().unwrap();
    let before = changed();
    let path = "api/v1/namespaces/default/configmaps/settings";
    world.patch(path, "somebody", &serde_json::json!({"data": {"A": "other"}})).await;
    world.until("it is corrected", |source| source.settled && source.under_way.is_empty()).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let live = world.get(path).await.unwrap();
    assert_eq!(live["data"]["A"], "1", "{live}");
    assert_ne!(changed(), before, "its manifest was read again, and that was noted");
    assert!(!folder.join("attempt").exists());
}

/// Hours of looks that find nothing new: none of them is noted as an attempt.
#[tokio::test(start_paused = true)]
async fn a_kill_while_nothing_is_new_costs_nothing() {
    let (mut world, _) = World::with_web().await;
    let folder = world.repository.beside("state/sources/shop");
    let changed = || fs::metadata(&folder).unwrap().modified().unwrap();
    let before = changed();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(changed(), before);
    world.kill().await;
    world.start();
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second");
    let began = tokio::time::Instant::now();
    world.through(&second).await;
    assert!(began.elapsed().as_secs() < 20, "{} s", began.elapsed().as_secs());
}
