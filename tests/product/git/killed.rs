//! A process that fetches is killed at any moment: the mirror is whole afterwards, or is begun anew.
#![allow(clippy::disallowed_methods, reason = "a real process is waited for, beside any runtime with a paused clock")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use belay::git::{Credentials, Limits, Mirror};

use super::mirror::{fetch, id, location};
use crate::support::programs::write_program;
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

/// Names the program in the place of `ssh`, and the folder of the mirror, to the process that is to be killed.
const OVER_SSH: &str = "BELAY_TEST_FETCHING_OVER_SSH";

/// It heeds nothing: neither a signal that it may ignore, nor the end of its input.
const STUBBORN: &str = "#!/bin/sh\ntrap '' TERM HUP INT PIPE\necho $$ > \"$0.pid\"\nwhile :; do sleep 0.1; done\n";

#[test]
#[cfg(target_os = "linux")]
fn an_ssh_that_heeds_nothing_ends_when_belay_is_killed() {
    // Also where the shell does not become the program.
    for line in ["exec PROGRAM", "PROGRAM", "true && VARIABLE=1 PROGRAM -x"] {
        ends_when_belay_is_killed(line);
    }
}

#[cfg(target_os = "linux")]
fn ends_when_belay_is_killed(line: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("stubborn");
    write_program(&program, STUBBORN);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::fetches_over_ssh_until_it_is_killed", "--nocapture", "--test-threads", "1"])
        .env(OVER_SSH, folder.path().join("mirror"))
        .env("GIT_SSH_COMMAND", line.replace("PROGRAM", &program.display().to_string()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = std::time::Instant::now();
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(began.elapsed() < std::time::Duration::from_secs(60), "{what}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let number = || std::fs::read_to_string(folder.path().join("stubborn.pid")).ok()?.trim().parse::<u32>().ok();
    until("ssh begins", &|| number().is_some());
    let running = format!("/proc/{}/cmdline", number().unwrap());
    let runs = || std::fs::read_to_string(&running).is_ok_and(|line| line.contains("stubborn"));
    // It outlives what it is refused meanwhile.
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(runs(), "it runs while belay does");
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = std::time::Instant::now();
    while runs() && ended.elapsed() < std::time::Duration::from_secs(10) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let is_left = runs();
    if is_left {
        drop(Command::new("kill").args(["-9", &number().unwrap().to_string()]).status());
    }
    assert!(!is_left, "{line}: it is left behind");
}

/// Not a test by itself: the process that is killed.
#[test]
fn fetches_over_ssh_until_it_is_killed() {
    let Ok(folder) = std::env::var(OVER_SSH) else { return };
    let location: belay::git::Location = "ssh://localhost/deploy.git".parse().unwrap();
    let credentials = Credentials::new(&location);
    let mirror = Mirror::open(Path::new(&folder), location, credentials, Limits::default()).unwrap().0;
    drop(fetch(&mirror));
}
