//! The fuzz targets of `fuzz/`, over their corpora and over mutations of these, with nothing but `cargo test`.
//!
//! `BELAY_FUZZ=1000000` tries that many mutations of each corpus instead of some; `BELAY_SEED=n` others. An input that
//! fails is kept, and the message says where: put it into the corpus when what it found is mended.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod mutate;
mod targets;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use fastrand::Rng;

use targets::{ALL, Target};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Texts that are there for other tests, and are good beginnings here too.
fn borrowed(name: &str) -> &'static [&'static str] {
    match name {
        "yaml" => &["tests/cases/yaml", "tests/cases/manifests", "tests/cases/manifests/valid"],
        "manifest_set" => &["tests/cases/manifests", "tests/cases/manifests/valid"],
        _ => &[],
    }
}

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let own = root().join("fuzz/corpus").join(name);
    let folders = borrowed(name).iter().map(|folder| root().join(folder)).chain([own]);
    let entries =
        folders.flat_map(|folder| fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}")));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    paths.retain(|path| path.extension().is_none_or(|ending| ending != "kubectl" && ending != "txt"));
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
}

/// The corpus as it is, then mutations of it.
fn run(name: &str, mutations: u64) {
    let target: Target = ALL.iter().find(|(known, _)| *known == name).unwrap().1;
    let corpus = corpus(name);
    assert!(corpus.len() >= 3, "{name} has a corpus");
    for (path, bytes) in &corpus {
        assert!(catch_unwind(|| target(bytes)).is_ok(), "{} fails", path.display());
    }
    let (seed, mutations) = (number("BELAY_SEED", 1), number("BELAY_FUZZ", mutations));
    let beginnings: Vec<Vec<u8>> = corpus.into_iter().map(|(_, bytes)| bytes).collect();
    let mut random = Rng::with_seed(seed);
    for nth in 0..mutations {
        let bytes = mutate::mutated(&beginnings, &mut random);
        if catch_unwind(|| target(&bytes)).is_err() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{seed}-{nth}"));
            fs::write(&kept, &bytes).unwrap();
            panic!("{name}: mutation {nth} of BELAY_SEED={seed} fails; it is kept in {}", kept.display());
        }
    }
}

#[test]
fn yaml() {
    run("yaml", 2000);
}

#[test]
fn manifest_set() {
    run("manifest_set", 1000);
}

#[test]
fn configuration() {
    run("configuration", 2000);
}

#[test]
fn live_object() {
    run("live_object", 1000);
}

#[test]
fn tree() {
    run("tree", 1000);
}

#[test]
fn commit() {
    run("commit", 2000);
}

#[test]
fn host() {
    run("host", 5000);
}

#[test]
fn answer() {
    run("answer", 2000);
}

#[test]
fn patterns() {
    run("patterns", 2000);
}

#[test]
fn redaction() {
    run("redaction", 2000);
}

#[test]
fn address() {
    run("address", 3000);
}

#[test]
fn hook() {
    run("hook", 2000);
}

#[test]
fn api_answer() {
    run("api_answer", 500);
}

#[test]
fn units() {
    run("units", 1000);
}

#[test]
fn rendered() {
    run("rendered", 1000);
}

/// Each begins with a new API server, which takes longer.
#[test]
fn request() {
    run("request", 150);
}

/// The crate in `fuzz/` is not built here: at least it names every target, and nothing else.
#[test]
fn the_fuzzer_has_every_target() {
    let manifest: toml::Table = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap().parse().unwrap();
    let binaries = manifest["bin"].as_array().unwrap();
    let mut named: Vec<(&str, &str)> =
        binaries.iter().map(|one| (one["name"].as_str().unwrap(), one["path"].as_str().unwrap())).collect();
    named.sort_unstable();
    let mut known: Vec<(&str, String)> =
        ALL.iter().map(|(name, _)| (*name, format!("fuzz_targets/{name}.rs"))).collect();
    known.sort_unstable();
    assert!(named.iter().copied().eq(known.iter().map(|(name, path)| (*name, path.as_str()))), "{named:?}");
    for (name, path) in named {
        let text = fs::read_to_string(root().join("fuzz").join(path)).unwrap();
        assert!(text.contains(&format!("targets::{name}(data)")), "{path} runs the target of its name");
    }
}
