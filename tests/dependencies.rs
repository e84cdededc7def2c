//! The dependencies of belay: licences, sources, versions, and crates that are not wanted; as `.deny.toml` says,
//! without cargo-deny. Needs no network: the lock file and the registry's crates are there once belay is built.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn file(name: &str) -> toml::Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap().parse().unwrap()
}

fn rules() -> toml::Table {
    file(".deny.toml")
}

/// Returns a list of texts, or of tables with the text under this key.
fn texts(list: &toml::Value, key: &str) -> BTreeSet<String> {
    let text = |item: &toml::Value| item.as_str().or_else(|| item.get(key)?.as_str()).unwrap().to_owned();
    list.as_array().unwrap().iter().map(text).collect()
}

/// Returns the packages of a lock file: name, version, source.
fn locked(name: &str) -> Vec<(String, String, Option<String>)> {
    let lock = file(name);
    let text = |package: &toml::Value, key: &str| package.get(key).and_then(|value| value.as_str()).map(str::to_owned);
    let packages = lock["package"].as_array().unwrap().iter();
    packages
        .map(|package| (text(package, "name").unwrap(), text(package, "version").unwrap(), text(package, "source")))
        .collect()
}

#[test]
fn every_crate_comes_from_a_known_registry() {
    let allowed = texts(&rules()["sources"]["allow-registry"], "");
    for lock in ["Cargo.lock", "fuzz/Cargo.lock"] {
        if !Path::new(env!("CARGO_MANIFEST_DIR")).join(lock).exists() {
            eprintln!("not looked at: there is no {lock}");
            continue;
        }
        for (name, version, source) in locked(lock) {
            // A package without a source is one of this repository.
            let known = source.as_deref().is_none_or(|source| {
                source.strip_prefix("registry+").is_some_and(|registry| allowed.contains(registry))
            });
            assert!(known, "{lock}: {name} {version} comes from {source:?}");
        }
    }
}

#[test]
fn no_unwanted_crate_is_used_and_no_second_version_without_being_named() {
    let bans = &rules()["bans"];
    let unwanted = texts(&bans["deny"], "crate");
    let named = texts(&bans["skip"], "crate");
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, version, _) in locked("Cargo.lock") {
        assert!(!unwanted.contains(&name), "{name} is not wanted: .deny.toml says why");
        versions.entry(name).or_default().insert(version);
    }
    let mut several = BTreeSet::new();
    for (name, all) in versions.iter().filter(|(_, all)| all.len() > 1) {
        let unnamed: Vec<&String> =
            all.iter().filter(|version| !named.contains(&format!("{name}@{version}"))).collect();
        assert_eq!(
            unnamed.len(),
            1,
            "{name} is there in the versions {all:?}: use one, or name the older ones in .deny.toml"
        );
        several.extend(all.iter().map(|version| format!("{name}@{version}")));
    }
    let stale: Vec<&String> = named.difference(&several).collect();
    assert!(stale.is_empty(), ".deny.toml names {stale:?}, of which there are no two versions any more");
}

#[test]
fn every_licence_is_one_that_is_allowed() {
    let allowed = texts(&rules()["licenses"]["allow"], "");
    let cargo = |args: &[&str]| {
        let output = Command::new(env!("CARGO")).args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    let told = cargo(&["-vV"]).unwrap();
    let host = told.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let told = cargo(&["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", host]);
    let Some(told) = told else {
        eprintln!("licences are not looked at: not every crate is here (cargo fetch)");
        return;
    };
    let metadata: serde_json::Value = serde_json::from_str(&told).unwrap();
    let used: BTreeSet<&str> =
        metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let packages: Vec<_> = packages.filter(|package| used.contains(package["id"].as_str().unwrap())).collect();
    assert!(packages.len() > 100, "{}", packages.len());
    for package in packages {
        let (name, licence) = (&package["name"], package["license"].as_str().unwrap_or_default());
        assert!(Licence(licence).is_allowed(&allowed), "{name}: {licence:?} is not allowed; see .deny.toml");
    }
}

/// A licence as crates write it: `MIT OR Apache-2.0`, `(A OR B) AND C`, and the older `MIT/Apache-2.0`.
struct Licence<'t>(&'t str);

impl Licence<'_> {
    fn is_allowed(&self, allowed: &BTreeSet<String>) -> bool {
        let text = self.0.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut rest = words.as_slice();
        any(&mut rest, allowed) && rest.is_empty()
    }
}

fn any(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut fine = all(words, allowed);
    while let [first, rest @ ..] = *words
        && *first == "OR"
    {
        *words = rest;
        fine |= all(words, allowed);
    }
    fine
}

fn all(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut fine = one(words, allowed);
    while let [first, rest @ ..] = *words
        && *first == "AND"
    {
        *words = rest;
        fine &= one(words, allowed);
    }
    fine
}

fn one(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let fine = any(words, allowed);
            *words = words.strip_prefix(&[")"]).unwrap_or_default();
            fine
        }
        [name, "WITH", exception, rest @ ..] => {
            *words = rest;
            allowed.contains(&format!("{name} WITH {exception}"))
        }
        [name, rest @ ..] => {
            *words = rest;
            allowed.contains(*name)
        }
        [] => false,
    }
}

#[test]
fn licences_are_read_as_they_are_written() {
    let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "ISC"].map(str::to_owned).into();
    for (text, fine) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND ISC", true),
        ("ISC AND (GPL-3.0 OR LGPL-2.1)", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("MIT WITH Classpath-exception", false),
        ("", false),
        ("MIT )", false),
    ] {
        assert_eq!(Licence(text).is_allowed(&allowed), fine, "{text:?}");
    }
}
