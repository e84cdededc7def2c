//! A repository on this machine that does not stand still, and one that is somebody else's.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use belay::git::{Credentials, GitError, Limits, Mirror};
use belay_core::rollout::CommitId;

use super::mirror::{fetch, id, location, main, open};
use crate::support::programs::write_program;
use crate::support::repository::Repository;

fn git_is_there(skipped: &str) -> bool {
    let there = Command::new("git").arg("--version").output().is_ok();
    if !there {
        eprintln!("git is not installed: skipped: {skipped}");
    }
    there
}

fn git(repository: &Path, arguments: &[&str]) {
    let done = Command::new("git").arg("--git-dir").arg(repository).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Everything that a commit has can be read, and everything that it comes from.
fn is_complete(mirror: &Mirror, head: &CommitId) {
    for commit in mirror.between(None, head, 10_000).unwrap() {
        for (_, entry) in mirror.files(&commit, "").unwrap().files {
            mirror.read(entry.blob, 1_000_000).unwrap();
        }
    }
}

#[test]
fn what_is_fetched_while_the_repository_is_written_and_packed_is_complete() {
    if !git_is_there("fetching while the repository is packed") {
        return;
    }
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let path = repository.path().to_owned();
    let beside = repository.beside("mirrors");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..40 {
                let file = format!("folder-{}/file-{number}.yaml", number % 7);
                repository.commit_file(&file, &format!("{number}\n").repeat(50), "More");
                repository.push();
                match number % 4 {
                    0 => git(&path, &["gc", "-q", "--prune=now"]),
                    1 => git(&path, &["repack", "-q", "-a", "-d"]),
                    2 => {
                        // From one pack to loose objects and back.
                        let unpack = "for p in objects/pack/*.pack; do mv $p . && git --git-dir=. unpack-objects -q < \
                                      $(basename $p); rm -f $(basename $p); done; rm -f objects/pack/*";
                        assert!(
                            Command::new("sh").arg("-c").arg(unpack).current_dir(&path).status().unwrap().success()
                        );
                    }
                    _ => git(&path, &["pack-refs", "--all"]),
                }
            }
            done.store(true, Ordering::Release);
        });
        let mut number = 0;
        let kept =
            Mirror::open(&beside.join("kept"), location(&path), Credentials::default(), Limits::default()).unwrap().0;
        while !done.load(Ordering::Acquire) {
            number += 1;
            let folder = beside.join(number.to_string());
            let fresh = Mirror::open(&folder, location(&path), Credentials::default(), Limits::default()).unwrap().0;
            for mirror in [&kept, &fresh] {
                match fetch(mirror) {
                    Ok(fetched) => is_complete(mirror, &fetched.head),
                    // While its packs are away, a repository can't be read; it is not taken for an empty one.
                    Err(GitError::DamagedSource { .. } | GitError::Unreachable { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    });
    let (mirror, _) = open(&repository);
    let last = fetch(&mirror).unwrap().head;
    assert_eq!(last, id(&repository.tip().unwrap()));
    is_complete(&mirror, &last);
}

#[test]
fn objects_of_another_repository_are_not_brought() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let borrower = repository.beside("borrower.git");
    let borrowing = git2::Repository::init_bare(&borrower).unwrap();
    let objects = repository.path().join("objects");
    fs::write(borrower.join("objects/info/alternates"), format!("{}\n", objects.display())).unwrap();
    let tip = git2::Oid::from_str(&repository.tip().unwrap()).unwrap();
    git2::Repository::open(&borrower).unwrap().reference("refs/heads/main", tip, true, "").unwrap();
    drop(borrowing);
    let folder = repository.beside("mirror");
    let mirror = Mirror::open(&folder, location(&borrower), Credentials::default(), Limits::default()).unwrap().0;
    let error = fetch(&mirror).unwrap_err();
    let says = matches!(&error, GitError::Unsupported { what, .. } if what.contains("objects/info/alternates"));
    assert!(says && mirror.head(&main()).unwrap().is_none(), "{error}");
    // With objects of its own it is followed.
    let packs = borrower.join("objects/pack");
    let borrowing = git2::Repository::open(&borrower).unwrap();
    let mut builder = borrowing.packbuilder().unwrap();
    builder.insert_commit(tip).unwrap();
    builder.write(&packs, 0o444).unwrap();
    drop(builder);
    fs::remove_file(borrower.join("objects/info/alternates")).unwrap();
    let head = fetch(&mirror).unwrap().head;
    fs::remove_dir_all(repository.path()).unwrap();
    fs::remove_dir_all(&borrower).unwrap();
    is_complete(&mirror, &head);
}

#[test]
fn garbage_that_was_copied_is_not_taken_for_whole() {
    // A pack may hold a tree whose files are nowhere: what is left of a branch that was thrown away. When that branch is
    // pushed again, with all of it, the mirror must not think that it has it.
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let tree = {
        let blob = repository.blob("two");
        repository.raw_tree(&[("100644", b"b.yaml", &blob)])
    };
    let source = git2::Repository::open(repository.path()).unwrap();
    let garbage = source.odb().unwrap();
    let blob = repository.blob("two");
    let bytes = [b"100644 b.yaml\0".as_slice(), git2::Oid::from_str(&blob).unwrap().as_bytes()].concat();
    let outer = [b"40000 folder\0".as_slice(), tree.as_bytes()].concat();
    git2::opts::strict_object_creation(false);
    assert_eq!(garbage.write(git2::ObjectType::Tree, &bytes).unwrap(), tree);
    garbage.write(git2::ObjectType::Tree, &outer).unwrap();
    let mut pack = source.packbuilder().unwrap();
    pack.insert_object(tree, None).unwrap();
    pack.write(&repository.path().join("objects/pack"), 0o444).unwrap();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    assert!(git2::Repository::open_bare(mirror.path()).unwrap().find_tree(tree).is_ok(), "it was copied");

    repository.write("folder/b.yaml", "two");
    repository.commit("Second");
    repository.push();
    let head = fetch(&mirror).unwrap().head;
    is_complete(&mirror, &head);
}

#[test]
fn many_fetches_leave_few_packs() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.push();
    let limits = Limits { packs: 5, ..Limits::default() };
    let folder = repository.beside("mirror");
    let mirror = Mirror::open(&folder, location(repository.path()), Credentials::default(), limits).unwrap().0;
    let reader = || Mirror::read_only(&folder, location(repository.path()), Limits::default()).unwrap();
    fetch(&mirror).unwrap();
    let beside = reader();
    let mut heads = Vec::new();
    for number in 0..40 {
        heads.push(repository.commit_file("a.yaml", &format!("{number}"), "More"));
        repository.push();
        fetch(&mirror).unwrap();
        // Somebody who has it open all the time goes on reading.
        beside.files(&id(&heads[number / 2]), "").unwrap();
        let packs = fs::read_dir(mirror.path().join("objects/pack")).unwrap();
        assert!(packs.count() <= 2 * 6, "at most six packs with their indexes");
    }
    is_complete(&mirror, &id(heads.last().unwrap()));
    drop(mirror);
    let (mirror, _) = open(&repository);
    is_complete(&mirror, &id(heads.last().unwrap()));
}

#[test]
fn a_repository_of_another_user_is_refused_with_what_to_do() {
    let mut repository = Repository::new();
    repository.commit_file("a.yaml", "one", "First");
    repository.push();
    // Only root can give files away.
    if std::os::unix::fs::chown(repository.path(), Some(65_534), None).is_err() {
        eprintln!("not root: skipped: a repository of another user");
        return;
    }
    let (mirror, _) = open(&repository);
    let error = fetch(&mirror).unwrap_err();
    assert!(matches!(error, GitError::ForeignOwner { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("safe.directory") && said.contains(&repository.path().display().to_string()), "{said}");
    std::os::unix::fs::chown(repository.path(), Some(0), None).unwrap();
    fetch(&mirror).unwrap();
}

/// Whatever a repository has for Git to run, nothing of it runs: neither hooks nor programs that its settings name.
#[test]
fn nothing_of_a_repository_is_run() {
    let mut repository = Repository::new();
    repository.write(".gitattributes", "*.yaml filter=evil diff=evil\n").commit_file("a.yaml", "one", "First");
    repository.push();
    let trace = repository.beside("was-run");
    let program = repository.beside("evil");
    write_program(&program, &format!("#!/bin/sh\ntouch '{}'\ncat\n", trace.display()));
    let run = program.display();
    let settings = format!(
        "[uploadpack]\n\tpackObjectsHook = {run}\n[core]\n\tfsmonitor = {run}\n\thooksPath = {0}\n\tsshCommand = {run}\n\
         [filter \"evil\"]\n\tsmudge = {run}\n\tclean = {run}\n\trequired = true\n[diff \"evil\"]\n\ttextconv = {run}\n",
        repository.beside("hooks").display()
    );
    let config = repository.path().join("config");
    fs::write(&config, fs::read_to_string(&config).unwrap() + &settings).unwrap();
    for folder in [repository.beside("hooks"), repository.path().join("hooks")] {
        fs::create_dir_all(&folder).unwrap();
        for hook in ["post-checkout", "post-update", "reference-transaction", "pre-auto-gc", "post-index-change"] {
            fs::copy(&program, folder.join(hook)).unwrap();
        }
    }
    let (mirror, _) = open(&repository);
    let head = fetch(&mirror).unwrap().head;
    is_complete(&mirror, &head);
    let second = repository.commit_file("a.yaml", "two", "Second");
    repository.push();
    assert_eq!(fetch(&mirror).unwrap().head, id(&second));
    is_complete(&mirror, &id(&second));
    assert!(!trace.exists(), "something was run");
}
