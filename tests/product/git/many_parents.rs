//! Commits with very many parents: each is read once, and what can't be told apart is charged to the commit itself.

use std::io::Write;
use std::sync::{Arc, Mutex};

use belay::git::{Credentials, GitError, Limits, Mirror};

use super::mirror::{fetch, id, location, open};
use crate::support::log;
use crate::support::repository::Repository;

/// The log, for a test to count in.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines_with(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap()).lines().filter(|line| line.contains(text)).count()
    }
}

/// Returns a commit, as bytes.
fn commit(tree: &str, parents: &[String], message: &str) -> Vec<u8> {
    let parents: String = parents.iter().map(|parent| format!("parent {parent}\n")).collect();
    let who = "Ada <ada@example.com> 1600000000 +0000";
    format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\n{message}\n").into_bytes()
}

/// Returns a repository with a commit of so many parents, of which the last brought a file; its first commit, and that
/// one.
fn octopus(parents: usize) -> (Repository, String, String) {
    let mut repository = Repository::new();
    let first = repository.commit_file("a.yaml", "1", "First");
    let base = repository.tree();
    let mut sides: Vec<String> = (0..parents)
        .map(|number| repository.commit_raw(&commit(&base, std::slice::from_ref(&first), &number.to_string())))
        .collect();
    let own = repository.reset(&first).commit_file("b.yaml", "1", "On the side");
    *sides.last_mut().unwrap() = own;
    let both = repository.write("c.yaml", "1").tree();
    let merge = repository.commit_raw(&commit(&both, &sides, "Merge all"));
    repository.force_push();
    (repository, first, merge)
}

/// Returns the commits that are charged with the files that differ, how many commits were read for it, and how often
/// too many parents were reported.
fn charged(repository: &Repository, first: &str, merge: &str) -> (Vec<(String, String)>, usize, usize) {
    let (mirror, _) = open(repository);
    fetch(&mirror).unwrap();
    let log = Log::default();
    let writer = log.clone();
    let listening = log::listen("belay::git=trace", move || writer.clone());
    let paths = ["b.yaml".to_owned(), "c.yaml".to_owned()];
    let chains = mirror.attribution(Some(&id(first)), &id(merge), "", &paths, 20).unwrap();
    drop(listening);
    let charged = chains.iter().map(|(path, chain)| (path.clone(), chain.links[0].commit.to_string())).collect();
    (charged, log.lines_with("a commit is read"), log.lines_with("more than 64 parents"))
}

#[test]
fn each_commit_is_read_once() {
    let (repository, first, merge) = octopus(64);
    let (charged, read, told) = charged(&repository, &first, &merge);
    let side = charged[0].1.clone();
    assert!(side != merge && side != first && charged[1].1 == merge, "{charged:?}");
    assert!((64..=66).contains(&read), "{read} commits were read");
    assert_eq!(told, 0);
}

#[test]
fn a_commit_with_too_many_parents_is_charged_with_all_of_it() {
    let (repository, first, merge) = octopus(2000);
    let (charged, read, told) = charged(&repository, &first, &merge);
    assert_eq!(charged, [("b.yaml".to_owned(), merge.clone()), ("c.yaml".to_owned(), merge.clone())]);
    assert!(read < 4 && told > 0, "{read} commits were read, told {told} times");
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    assert_eq!(mirror.commit(&id(&merge)).unwrap().parents.len(), 64);
}

#[test]
fn parents_without_end_are_refused() {
    let (mut repository, first, _) = octopus(50);
    let sides: Vec<String> = (0..50)
        .map(|number| {
            repository.commit_raw(&commit(&repository.tree(), std::slice::from_ref(&first), &format!("side {number}")))
        })
        .collect();
    let mut tip = first.clone();
    for number in 0..20 {
        let parents: Vec<String> = sides.iter().cloned().chain([tip]).collect();
        tip = repository.commit_raw(&commit(&repository.tree(), &parents, &format!("merge {number}")));
    }
    repository.force_push();
    let folder = repository.beside("mirror");
    let limits = Limits { history: 500, ..Limits::default() };
    let mirror = Mirror::open(&folder, location(repository.path()), Credentials::default(), limits).unwrap().0;
    fetch(&mirror).unwrap();
    let error = mirror.between(Some(&id(&first)), &id(&tip), 10).unwrap_err();
    assert!(
        matches!(&error, GitError::TooMany { limit: 1000, .. }) && error.to_string().contains("parents"),
        "{error}"
    );
}
