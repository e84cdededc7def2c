//! A push is noticed at once; looking is not taken for a push; what is replaced is watched anew.
//!
//! These wait for the kernel, in real time, and never for longer than it takes.

use std::fs;
use std::process::Command;
use std::time::Duration;

use belay::git::{Wake, Watching};

use super::mirror::{fetch, location, open};
use crate::support::repository::Repository;

/// Far longer than any notice takes; only a test that fails waits so long.
const LONG: Duration = Duration::from_secs(20);
/// Long enough for a notice that should not come.
const SHORT: Duration = Duration::from_millis(600);

async fn wakes(wake: &Wake) {
    tokio::time::timeout(LONG, wake.moved()).await.expect("a notice");
}

async fn sleeps_on(wake: &Wake) {
    assert!(tokio::time::timeout(SHORT, wake.moved()).await.is_err(), "a notice of nothing");
}

#[tokio::test]
async fn a_push_is_noticed_and_looking_is_not_one() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "1", "First");
    repository.push();
    let wake = Wake::new(&location(repository.path())).unwrap();
    assert_eq!(wake.mend(), Watching::Yes);
    sleeps_on(&wake).await;
    let (mirror, _) = open(&repository);
    for number in 0..3 {
        repository.commit_file("a.yaml", &number.to_string(), "More");
        repository.push();
        wakes(&wake).await;
        fetch(&mirror).unwrap();
        assert_eq!(wake.mend(), Watching::Yes);
        // Neither fetching nor mending is a move, and all of the push was one.
        sleeps_on(&wake).await;
    }
}

#[tokio::test]
async fn branches_in_folders_packed_references_and_deletions_are_noticed() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "1", "First");
    repository.push();
    let wake = Wake::new(&location(repository.path())).unwrap();
    drop(wake.mend());
    repository.branch("feature/deep/inside").push();
    wakes(&wake).await;
    repository.tag("v1", None);
    wakes(&wake).await;
    if Command::new("git").arg("--version").output().is_ok() {
        let packed =
            Command::new("git").arg("--git-dir").arg(repository.path()).args(["pack-refs", "--all"]).status().unwrap();
        assert!(packed.success());
        wakes(&wake).await;
    }
    repository.commit_file("a.yaml", "2", "Second");
    repository.push();
    wakes(&wake).await;
    repository.delete_pushed("main");
    wakes(&wake).await;
}

#[tokio::test]
async fn a_repository_that_was_replaced_is_watched_anew() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "1", "First");
    repository.push();
    let wake = Wake::new(&location(repository.path())).unwrap();
    drop(wake.mend());
    let old = repository.beside("old.git");
    fs::rename(repository.path(), &old).unwrap();
    wakes(&wake).await;
    let Watching::No(why) = wake.mend() else { panic!("nothing is there to be watched") };
    assert!(!why.is_empty());

    copy(&old, repository.path());
    assert_eq!(wake.mend(), Watching::Yes);
    repository.commit_file("a.yaml", "2", "Second");
    repository.push();
    wakes(&wake).await;

    // Replaced in one go, between two looks.
    let newer = repository.beside("newer.git");
    copy(repository.path(), &newer);
    fs::remove_dir_all(&old).unwrap();
    fs::rename(repository.path(), &old).unwrap();
    fs::rename(&newer, repository.path()).unwrap();
    wakes(&wake).await;
    assert_eq!(wake.mend(), Watching::Yes);
    wakes(&wake).await;
    repository.commit_file("a.yaml", "3", "Third");
    repository.push();
    wakes(&wake).await;
}

#[tokio::test]
async fn a_working_copy_is_watched_where_its_branches_are() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "1", "First");
    repository.push();
    let folder = repository.clone_to("work");
    let wake = Wake::new(&location(&folder)).unwrap();
    assert_eq!(wake.mend(), Watching::Yes);
    // Its files and its index move all the time; its branches do not.
    let work = git2::Repository::open(&folder).unwrap();
    fs::write(folder.join("a.yaml"), "2").unwrap();
    let mut index = work.index().unwrap();
    index.add_path(std::path::Path::new("a.yaml")).unwrap();
    index.write().unwrap();
    sleeps_on(&wake).await;
    let who = git2::Signature::now("Ada", "ada@example.com").unwrap();
    let tree = work.find_tree(index.write_tree().unwrap()).unwrap();
    let head = work.head().unwrap().peel_to_commit().unwrap();
    work.commit(Some("HEAD"), &who, &who, "Second", &tree, &[&head]).unwrap();
    wakes(&wake).await;
}

#[tokio::test]
async fn a_call_that_is_given_up_loses_no_notice() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "1", "First");
    repository.push();
    let wake = Wake::new(&location(repository.path())).unwrap();
    drop(wake.mend());
    repository.commit_file("a.yaml", "2", "Second");
    repository.push();
    for _ in 0..30 {
        // Given up while it waits for calm.
        assert!(tokio::time::timeout(Duration::from_millis(20), wake.moved()).await.is_err());
    }
    wakes(&wake).await;
    assert!(Wake::new(&"https://git.example.com/deploy.git".parse().unwrap()).is_none());
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
