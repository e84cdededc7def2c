//! Deterministic simulation: the whole daemon against the embedded cluster, in virtual time, under everything that can
//! happen to it, from one seed.
//!
//! A seed gives a scenario: workloads of several kinds, commits (images whose pods will fail, broken files, reverts,
//! force-pushes, merges), people with kubectl, storms on the way to the API server (409, 429, 500, silence, broken
//! connections, watches that end or expire, answers that come late and in another order), `kill -9` at any await, lost
//! state, clocks that are set, a second daemon by mistake. After the last of it there is a calm, in which everything must
//! come to its end. Then checkers, which share no code with the daemon, look at what was sent, what is stored, what is in
//! the history file, in Git and in the log.
//!
//! # Run
//!
//! ```text
//! cargo test --test simulation                              # 200 seeds
//! BELAY_SEEDS=5000 cargo test --test simulation seeds       # more
//! BELAY_SEEDS=201..5000 cargo test --test simulation seeds  # those that were not tried
//! BELAY_SEED=17 cargo test --test simulation seeds -- --nocapture   # one, and its whole story
//! BELAY_NO_SHRINK=1 cargo test --test simulation seeds      # without the shortest scenario of a failure, which takes minutes
//! BELAY_BUG=HoldsNothing cargo test --test simulation planted -- --nocapture   # one planted bug alone
//! ```
//!
//! A failure prints its seed, what each checker found, the shortest scenario that still fails, and its story. The same seed
//! gives the same run, byte for byte, on every machine: a test here says so. The means for that are one thread, tokio's
//! paused clock, [`belay::daemon::Daemon::repeatable`], and every draw from the seed.
//!
//! # Extend
//!
//! The events are in `events.rs`; `play.rs` makes them happen. A checker is a function from a `Run` to what it found,
//! listed in `checks/mod.rs`; for each there should be a bug in `bugs.rs` that it finds, or nobody knows that it can
//! fail. Events are data: a new one needs no care for shrinking.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "mod.rs"]
mod simulation;
#[path = "../../support/mod.rs"]
mod support;

use std::collections::BTreeSet;

use simulation::bugs::Wrong;
use simulation::perform::perform;
use simulation::scenario::Scenario;
use simulation::shrink::{judge, shrink};
use simulation::story;

/// The default number of seeds.
const SEEDS: u64 = 200;
/// Within how many seeds a planted bug must be found, those left out that have nothing that it is about.
const BUG_SEEDS: usize = 40;

#[test]
fn seeds_that_are_even() {
    search(0);
}

#[test]
fn seeds_that_are_odd() {
    search(1);
}

#[test]
fn planted_bugs_of_even_number_are_found() {
    find_planted(0);
}

#[test]
fn planted_bugs_of_odd_number_are_found() {
    find_planted(1);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [1, 7, 17, 33] {
        let (one, other) = (perform(Scenario::of(seed), None), perform(Scenario::of(seed), None));
        for (mine, theirs) in one.print.lines().zip(other.print.lines()) {
            assert_eq!(mine, theirs, "seed {seed}: the runs part here");
        }
        assert_eq!(one.print.len(), other.print.len(), "seed {seed}");
    }
}

#[test]
fn a_scenario_that_fails_is_made_shorter() {
    let (wrong, checker) = (Wrong::ForgetsTheCause, "history-by-commit");
    let long = Scenario::of(7);
    let short = shrink(&long, checker, Some(wrong));
    assert!(short.events.len() < long.events.len(), "{}", story::scenario(&short));
    assert!(judge(&short, Some(wrong)).1.iter().any(|finding| finding.checker == checker));
}

/// Tries the seeds with this remainder by two; all of them are tried before any failure is told.
fn search(remainder: u64) {
    let failed: Vec<String> = seeds()
        .filter(|seed| seed % 2 == remainder)
        .filter_map(|seed| failure(seed).map(|text| (seed, text)))
        .map(tell)
        .collect();
    assert!(failed.is_empty(), "{} seeds fail: {}", failed.len(), failed.join(", "));
}

fn tell((seed, text): (u64, String)) -> String {
    eprintln!("{text}");
    seed.to_string()
}

fn seeds() -> std::ops::RangeInclusive<u64> {
    let number = |text: &str| text.parse::<u64>().expect("a number");
    if let Ok(seed) = std::env::var("BELAY_SEED") {
        return number(&seed)..=number(&seed);
    }
    match std::env::var("BELAY_SEEDS").as_deref().map(|seeds| seeds.split_once("..").ok_or(seeds)) {
        Ok(Ok((first, last))) => number(first)..=number(last),
        Ok(Err(last)) => 1..=number(last),
        Err(_) => 1..=SEEDS,
    }
}

/// Returns the trouble with a seed, at length; `None` if there is none. The story of a single seed is told in any case.
fn failure(seed: u64) -> Option<String> {
    let scenario = Scenario::of(seed);
    let (run, findings) = judge(&scenario, None);
    if std::env::var_os("BELAY_SEED").is_some() {
        eprintln!("{}\n{}", story::scenario(&scenario), run.as_ref().map(story::whole).unwrap_or_default());
    }
    let first = findings.first()?;
    eprintln!("seed {seed}: {first}");
    let mut text = format!(
        "\nseed {seed} fails; again with: BELAY_SEED={seed} cargo test --test simulation seeds -- --nocapture\n"
    );
    for finding in &findings {
        text.push_str(&format!("  {finding}\n"));
    }
    if std::env::var_os("BELAY_NO_SHRINK").is_some() {
        return Some(text);
    }
    let short = shrink(&scenario, first.checker, None);
    text.push_str(&format!("the shortest that fails with {}:\n{}", first.checker, story::scenario(&short)));
    let story = judge(&short, None).0.as_ref().map(story::whole).unwrap_or_default();
    Some(format!("{text}{story}"))
}

/// Looks for each planted bug of this remainder with the checker that must find it.
fn find_planted(remainder: usize) {
    // One alone, by its name, if that is asked for.
    let asked = std::env::var("BELAY_BUG").ok();
    let is_asked = |wrong: &Wrong| asked.as_ref().is_none_or(|asked| *asked == format!("{wrong:?}"));
    let all = Wrong::ALL.iter().enumerate().filter(|(_, (wrong, _))| is_asked(wrong));
    let mine = all.filter(|(number, _)| number % 2 == remainder);
    let mut missed = Vec::new();
    for (_, (wrong, checker)) in mine {
        let mut others = BTreeSet::new();
        let mut fitting = (1..u64::MAX).map(Scenario::of).filter(|scenario| wrong.fits(scenario)).take(BUG_SEEDS);
        let found = fitting.find(|scenario| {
            let (_, findings) = judge(scenario, Some(*wrong));
            others.extend(findings.iter().map(|finding| finding.checker));
            findings.iter().any(|finding| finding.checker == *checker)
        });
        let seed = found.as_ref().map(|scenario| scenario.seed);
        eprintln!("{wrong:?}: found by {checker} with seed {seed:?}");
        if found.is_none() {
            missed.push(format!("{wrong:?} is not found by {checker} within {BUG_SEEDS} seeds, only by {others:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
