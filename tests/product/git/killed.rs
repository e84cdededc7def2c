//! A process that fetches is killed at any moment: the mirror is whole afterwards, or is begun anew.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use belay::git::{Credentials, Limits, Mirror};

use super::mirror::{fetch, id, location};
use crate::support::repository::Repository;

/// Names the repository and the folder of the mirror to the process that is to be killed.
const WHERE: &str = "BELAY_TEST_FETCHING";

fn open(repository: &Path, folder: &Path) -> Mirror {
    let limits = Limits { packs: 3, ..Limits::default() };
    Mirror::open(folder, location(repository), Credentials::default(), limits).unwrap().0
}

#[test]
fn a_mirror_survives_any_kill() {
    let mut repository = Repository::new();
    for number in 0..60 {
        repository.commit_file(&format!("folder-{}/file.yaml", number % 9), &"line\n".repeat(number * 7), "More");
    }
    repository.push();
    let folder = repository.beside("mirror");
    for round in 0..25_usize {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::fetches_until_it_is_killed", "--nocapture", "--test-threads", "1"])
            .env(WHERE, format!("{} {}", repository.path().display(), folder.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Killed after so many steps, wherever it then is.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in lines.map_while(Result::ok).filter(|line| line.starts_with("step")).take(1 + round % 7) {
            if line == "step: fetched" {
                repository.commit_file("a.yaml", &format!("{round}"), "More");
                repository.push();
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mirror = open(repository.path(), &folder);
        let head = fetch(&mirror).unwrap().head;
        assert_eq!(head, id(&repository.tip().unwrap()));
        for commit in mirror.between(None, &head, 1000).unwrap() {
            for (_, entry) in mirror.files(&commit, "").unwrap().files {
                mirror.read(entry.blob, 100_000).unwrap();
            }
        }
    }
}

/// Not a test by itself: the process that is killed.
#[test]
fn fetches_until_it_is_killed() {
    let Ok(told) = std::env::var(WHERE) else { return };
    let (repository, folder) = told.split_once(' ').unwrap();
    let say = |what: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "step: {what}").unwrap();
        out.flush().unwrap();
    };
    loop {
        let mirror = open(Path::new(repository), Path::new(folder));
        say("opened");
        fetch(&mirror).unwrap();
        say("fetched");
        fetch(&mirror).unwrap();
        say("fetched again");
        mirror.start_over().unwrap();
        say("started over");
    }
}
