//! The content of a folder, and differences.

use belay::git::{Change, Entry, EntryKind, GitError, Limits, Mirror};

use super::mirror::{fetch, id, location, open};
use crate::support::repository::{Kind, Repository};

fn described(changes: &[Change]) -> Vec<String> {
    let mark = |entry: Option<Entry>| match entry.map(|entry| entry.kind) {
        None => "-",
        Some(EntryKind::File) => "f",
        Some(EntryKind::Symlink) => "l",
        Some(EntryKind::Submodule) => "m",
    };
    changes.iter().map(|change| format!("{}{} {}", mark(change.before), mark(change.after), change.path)).collect()
}

#[test]
fn only_what_differs_is_named() {
    let mut repository = Repository::new();
    repository.write("production/a/one.yaml", "1").write("production/b/two.yaml", "2").write("staging/x.yaml", "x");
    repository.write("production/turns", "file").put("production/run.sh", Kind::File, "run");
    let first = repository.commit("First");
    repository.write("production/a/one.yaml", "1!").remove("production/b").write("staging/x.yaml", "y");
    repository.remove("production/turns").write("production/turns/into/folder.yaml", "folder");
    repository.put("production/link.yaml", Kind::Symlink, "/etc/shadow");
    repository.put("production/module", Kind::Submodule, &first).put("production/run.sh", Kind::Executable, "run");
    let second = repository.commit("Second");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let changes = mirror.changes(Some(&id(&first)), &id(&second), "production").unwrap();
    let expected = [
        "ff production/a/one.yaml",
        "f- production/b/two.yaml",
        "-l production/link.yaml",
        "-m production/module",
        "f- production/turns",
        "-f production/turns/into/folder.yaml",
    ];
    assert_eq!(described(&changes.changes), expected);
    assert_eq!(mirror.changes(Some(&id(&first)), &id(&second), "").unwrap().changes.len(), 7);
    assert_eq!(mirror.changes(Some(&id(&second)), &id(&second), "/production/").unwrap(), Default::default());
    let files = mirror.files(&id(&first), "production").unwrap().files;
    let names: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["production/a/one.yaml", "production/b/two.yaml", "production/run.sh", "production/turns"]);
}

#[test]
fn a_folder_that_is_not_there_is_said_with_those_that_are() {
    let mut repository = Repository::new();
    repository.write("apps/production/a.yaml", "a").write("apps/staging/b.yaml", "b").write("README", "hello");
    let first = repository.commit("First");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let said = |folder: &str| mirror.files(&id(&first), folder).unwrap_err().to_string();
    assert!(said("apps/prod").ends_with("has no folder apps/prod; it has apps/production, apps/staging"));
    assert!(said("application").ends_with("has no folder application; it has apps"));
    assert!(said("README").contains("is not a folder but a file"));
    assert!(said("../etc").contains("no folder"));
    assert!(said("apps/\0").contains("no folder"));
    // It came with a later commit: everything in it is new.
    repository.write("new/c.yaml", "c");
    let second = repository.commit("Second");
    repository.push();
    fetch(&mirror).unwrap();
    assert_eq!(described(&mirror.changes(Some(&id(&first)), &id(&second), "new").unwrap().changes), ["-f new/c.yaml"]);
    assert!(mirror.changes(Some(&id(&second)), &id(&first), "new").is_err());
}

#[test]
fn odd_names_are_told_and_left_out() {
    let mut repository = Repository::new();
    repository.write("p/fine.yaml", "fine").write(b"p/caf\xe9.yaml", "latin-1").write("p/two\nlines.yaml", "x");
    repository.write(b"p/fold\xffer/inside.yaml", "x").write("p/ünï.yaml", "fine too");
    let first = repository.commit("First");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let files = mirror.files(&id(&first), "p").unwrap();
    let names: Vec<&str> = files.files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["p/fine.yaml", "p/ünï.yaml"]);
    let odd: Vec<(&str, &str)> = files.odd.iter().map(|odd| (odd.shown.as_str(), odd.why)).collect();
    let not_utf8 = "its name is not UTF-8";
    let expected = [
        ("p/caf\\xe9.yaml", not_utf8),
        ("p/fold\\xffer", not_utf8),
        ("p/two\\nlines.yaml", "its name has control characters"),
    ];
    assert_eq!(odd, expected);
}

#[test]
fn trees_that_no_git_would_write_do_no_harm() {
    let mut repository = Repository::new();
    let (one, two) = (repository.blob("one"), repository.blob("two"));
    let inner = repository.raw_tree(&[("100644", b"f.yaml", &one)]).to_string();
    let wrong: [&[(&str, &[u8], &str)]; 5] = [
        &[("100644", b"z.yaml", &one), ("100644", b"a.yaml", &two)],
        &[("100644", b"a.yaml", &one), ("100644", b"a.yaml", &two)],
        &[("40000", b"..", &inner), ("40000", b".git", &inner), ("100644", b"a/b.yaml", &one)],
        &[("40000", b"a.yaml", &inner), ("100644", b"a.yaml", &one)],
        &[("100664", b"group.yaml", &one), ("100600", b"mine.yaml", &one)],
    ];
    let mut commits = Vec::new();
    for entries in wrong {
        let tree = repository.raw_tree(entries);
        let parents: Vec<String> = repository.tip().into_iter().collect();
        commits.push(repository.commit_tree(tree, &parents, "Odd"));
    }
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let paths = |at: &str| -> Vec<String> {
        mirror.files(&id(at), "").unwrap().files.into_iter().map(|(path, _)| path).collect()
    };
    assert_eq!(paths(&commits[0]), ["a.yaml", "z.yaml"]);
    assert_eq!(mirror.files(&id(&commits[1]), "").unwrap().files.len(), 1);
    assert_eq!(paths(&commits[2]), [".git/f.yaml"]);
    assert_eq!(mirror.files(&id(&commits[2]), "").unwrap().odd.len(), 2);
    assert_eq!(paths(&commits[3]), ["a.yaml", "a.yaml/f.yaml"]);
    assert_eq!(paths(&commits[4]), ["group.yaml", "mine.yaml"]);
    for pair in commits.windows(2) {
        mirror.changes(Some(&id(&pair[0])), &id(&pair[1]), "").unwrap();
    }
}

#[test]
fn size_is_looked_at_before_reading() {
    let mut repository = Repository::new();
    let first = repository.commit_file("big.yaml", &"x".repeat(5000), "First");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    let blob = mirror.files(&id(&first), "").unwrap().files[0].1.blob;
    assert_eq!(mirror.read(blob, 5000).unwrap().len(), 5000);
    let error = mirror.read(blob, 4999).unwrap_err();
    assert!(matches!(error, GitError::TooLarge { size: 5000, limit: 4999, .. }), "{error}");
}

#[test]
fn bombs_are_refused() {
    let mut repository = Repository::new();
    let blob = repository.blob("x");
    // Twelve levels of ten times the same folder: a million million files, in twelve objects.
    let names: Vec<String> = (0..10).map(|n| format!("f{n}")).collect();
    let mut tree = repository.raw_tree(&[("100644", b"x.yaml", &blob)]).to_string();
    for _ in 0..12 {
        let entries: Vec<(&str, &[u8], &str)> =
            names.iter().map(|name| ("40000", name.as_bytes(), tree.as_str())).collect();
        tree = repository.raw_tree(&entries).to_string();
    }
    let bomb = repository.commit_tree(git2::Oid::from_str(&tree).unwrap(), &[], "Bomb");
    let mut deep = repository.raw_tree(&[("100644", b"x.yaml", &blob)]).to_string();
    for _ in 0..100 {
        deep = repository.raw_tree(&[("40000", b"d", &deep)]).to_string();
    }
    let deep = repository.commit_tree(git2::Oid::from_str(&deep).unwrap(), std::slice::from_ref(&bomb), "Deep");
    repository.push();
    let (mirror, _) = open(&repository);
    fetch(&mirror).unwrap();
    drop(mirror);
    let limits = Limits { entries: 10_000, ..Limits::default() };
    let mirror = Mirror::read_only(&repository.beside("mirror"), location(repository.path()), limits).unwrap();
    let error = mirror.files(&id(&bomb), "").unwrap_err();
    assert!(matches!(error, GitError::TooMany { limit: 10_000, .. }), "{error}");
    let error = mirror.files(&id(&deep), "").unwrap_err();
    assert!(matches!(error, GitError::TooMany { limit: 64, .. }), "{error}");
}
