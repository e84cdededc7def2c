//! The walls of the house: who may name whom, which words have one home, and no clock in a pure room.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

/// Which rooms a room may import. `kinds` and `clock` are leaves.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("kinds", &[]),
    ("clock", &[]),
    ("telemetry", &[]),
    ("config", &[]),
    ("manifest", &["kinds"]),
    ("rollout", &["manifest", "kinds"]),
    ("git", &["rollout", "manifest"]),
    ("cluster", &["rollout", "manifest", "kinds", "clock"]),
    ("history", &["rollout", "manifest"]),
    ("daemon", &["git", "cluster", "history", "rollout", "manifest", "config", "clock"]),
    ("web", &["daemon", "history", "rollout", "manifest", "clock"]),
    ("minicluster", &["kinds", "clock"]),
];

/// Words that have one home.
const HOMES: &[(&str, &[&str])] = &[
    ("git2::", &["git"]),
    ("rusqlite::", &["history"]),
    ("println!", &["cli"]),
    ("notify::", &["git"]),
    ("kube::Client", &["cluster", "minicluster", "daemon", "cli"]),
];

/// Words that a pure room may not say: it takes facts and the time as arguments.
const NOT_IN_PURE_ROOMS: &[&str] = &[
    "std::fs",
    "std::env",
    "std::net",
    "tokio::",
    "kube::",
    "async fn",
    "Clock",
    "Timestamp::now",
    "Instant",
    "SystemTime",
];

const PURE: &[&str] = &["manifest", "rollout", "kinds"];

struct Source {
    path: PathBuf,
    room: String,
    /// The code without comment lines and without unit tests, which stand at the end of a file.
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(&root).unwrap();
                let first = relative.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
                let text = fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                let code =
                    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
                sources.push(Source { room: first.trim_end_matches(".rs").to_owned(), path, code });
            }
        }
    }
    sources
}

#[test]
fn imports_run_one_way() {
    for source in sources() {
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(room, _)| *room == source.room) else { continue };
        assert!(
            !source.code.contains("use crate::{"),
            "{}: name each room in an import of its own",
            source.path.display()
        );
        for after in source.code.split("crate::").skip(1) {
            let named: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let fine = named == source.room || allowed.contains(&named.as_str());
            assert!(fine, "{}: the room {} may not import {named}", source.path.display(), source.room);
        }
    }
}

#[test]
fn words_have_one_home() {
    for source in sources().iter().filter(|source| source.room != "main") {
        for (word, homes) in HOMES {
            let fine = homes.contains(&source.room.as_str()) || !contains_word(&source.code, word);
            assert!(fine, "{}: {word} belongs to {homes:?}", source.path.display());
        }
    }
}

#[test]
fn pure_rooms_touch_nothing() {
    for source in sources().iter().filter(|source| PURE.contains(&source.room.as_str())) {
        for word in NOT_IN_PURE_ROOMS {
            assert!(!contains_word(&source.code, word), "{}: {word} in a pure room", source.path.display());
        }
    }
}

#[test]
fn no_cupboards() {
    for source in sources() {
        let path = source.path.display().to_string();
        for name in ["util", "utils", "common", "helper", "helpers", "misc"] {
            assert!(
                !path.contains(&format!("/{name}.rs")) && !path.contains(&format!("/{name}/")),
                "{path}: a cupboard"
            );
        }
    }
}

/// The simulation's checkers judge the daemon: they read raw requests, objects, rows and lines, and share no code with it.
#[test]
fn the_checkers_share_no_code_with_the_daemon() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation");
    let mut files: Vec<PathBuf> = ["books.rs", "findings.rs", "run.rs"].map(|name| root.join(name)).to_vec();
    files.extend(fs::read_dir(root.join("checks")).unwrap().map(|entry| entry.unwrap().path()));
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains("belay::"), "{}: a checker uses belay's own code", file.display());
    }
}

#[test]
fn the_map_names_every_room() {
    let map = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    for source in sources().iter().filter(|source| !["lib", "main"].contains(&source.room.as_str())) {
        assert!(map.contains(&format!("| [`{}`] |", source.room)), "src/lib.rs: the map does not name {}", source.room);
    }
}

fn contains_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    })
}
