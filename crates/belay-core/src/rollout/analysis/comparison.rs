//! The verdicts of an analysis beside those of fixed thresholds, on the same simulated answers: the tables of `docs/analysis.md`.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::error_rates::AnswerSums;
use super::random::Random;
use super::{Analysis, AnalysisRule, AnalysisVerdict, Measured, OnNone, PodAnswers};

/// The pods of the canary and the old ones beside it, and the requests in a second to all of them.
const NEW: i64 = 2;
const OLD: i64 = 8;
const REQUESTS: [f64; 3] = [1.0, 10.0, 100.0];
/// The requests for which each version has a row.
const SHOWN: f64 = 10.0;
/// The looks of the canary, and the seconds between two: ten minutes.
const LOOKS: u32 = 40;
const INTERVAL: u32 = 15;
/// The looks of a minute.
const MINUTE: u32 = 60 / INTERVAL;
const ROLLOUTS: u32 = 100;
const SEED: u64 = 0x2545_F491_4F6C_DD1D;
/// The factor by which a harmless version may be worse.
const TOLERATED: f64 = 1.25;

/// A version whose error rates are known.
struct Planted {
    name: &'static str,
    old: f64,
    /// The error rate of its pods so many seconds after the beginning.
    new: fn(f64) -> f64,
    is_bad: bool,
}

const fn bad(name: &'static str, old: f64, new: fn(f64) -> f64) -> Planted {
    Planted { name, old, new, is_bad: true }
}

const fn harmless(name: &'static str, old: f64, new: fn(f64) -> f64) -> Planted {
    Planted { name, old, new, is_bad: false }
}

const VERSIONS: [Planted; 30] = [
    harmless("0.01% bad, as before", 0.0001, |_| 0.0001),
    harmless("0.1% bad, as before", 0.001, |_| 0.001),
    harmless("0.1%, then 0.125%", 0.001, |_| 0.00125),
    harmless("0.5% bad, as before", 0.005, |_| 0.005),
    harmless("0.5%, then 0.25%", 0.005, |_| 0.0025),
    harmless("0.5%, then none", 0.005, |_| 0.0),
    harmless("0.8%, then 1%", 0.008, |_| 0.01),
    harmless("1% bad, as before", 0.01, |_| 0.01),
    harmless("3% bad, as before", 0.03, |_| 0.03),
    harmless("6% bad, as before", 0.06, |_| 0.06),
    bad("0.01%, then 0.1%", 0.0001, |_| 0.001),
    bad("0.01%, then 0.5%", 0.0001, |_| 0.005),
    bad("0.01%, then 5%", 0.0001, |_| 0.05),
    bad("0.1%, then 0.3%", 0.001, |_| 0.003),
    bad("0.1%, then 0.5%", 0.001, |_| 0.005),
    bad("0.1%, then 0.9%", 0.001, |_| 0.009),
    bad("0.1%, then 2%", 0.001, |_| 0.02),
    bad("0.1%, then 10%", 0.001, |_| 0.1),
    bad("0.5%, then 1%", 0.005, |_| 0.01),
    bad("0.5%, then 1.5%", 0.005, |_| 0.015),
    bad("0.5%, then 2.5%", 0.005, |_| 0.025),
    bad("0.5%, then 5%", 0.005, |_| 0.05),
    bad("0.5%, then 10%", 0.005, |_| 0.1),
    bad("0.5%, then 20%", 0.005, |_| 0.2),
    bad("0.5%, then 50%", 0.005, |_| 0.5),
    bad("0.5%, then all", 0.005, |_| 1.0),
    bad("3%, then 6%", 0.03, |_| 0.06),
    bad("3%, then 15%", 0.03, |_| 0.15),
    bad("0.5%, then up to 20% within 10 minutes", 0.005, |second| 0.005 + 0.195 * second / 600.0),
    bad("0.5%, then 50% from minute 5 on", 0.005, |second| if second < 300.0 { 0.005 } else { 0.5 }),
];

/// The judges of a canary.
const JUDGES: [&str; 3] = ["belay", "99% a minute, 5 failures", "95% a minute, 4 failures"];

/// A judge that demands a part of good answers of each minute, and stops at so many minutes with less.
struct Threshold {
    least: f64,
    failures: u32,
    minute: AnswerSums,
    failed: u32,
}

impl Threshold {
    fn new(least: f64, failures: u32) -> Threshold {
        Threshold { least, failures, minute: AnswerSums::default(), failed: 0 }
    }

    /// Returns true when a look stops the version.
    fn look(&mut self, new: AnswerSums, look: u32) -> bool {
        self.minute.add(new);
        if look.is_multiple_of(MINUTE) {
            let minute = std::mem::take(&mut self.minute);
            self.failed += u32::from(minute.total > 0.0 && 1.0 - minute.rate() < self.least);
        }
        self.failed >= self.failures
    }
}

/// The end of one canary under one judge.
#[derive(Clone, Copy, Default)]
struct Ended {
    /// The seconds until it was stopped.
    stopped: Option<u32>,
    /// The bad answers of the new pods until then, or in all.
    failed: f64,
}

/// Returns the end of a version's canary under each judge: all of them see the same answers.
fn canary(version: &Planted, requests: f64, random: &mut Random) -> [Ended; 3] {
    let rule = AnalysisRule::ErrorRate { tolerate: TOLERATED, false_alarm: 0.01, at_least: 20.0, prove: None };
    let mut analysis = Analysis::new(("errors".to_owned(), String::new()), rule, OnNone::Wait);
    let mut thresholds = [Threshold::new(0.99, 5), Threshold::new(0.95, 4)];
    let mut ended = [Ended::default(); 3];
    for look in 1..=LOOKS {
        let seconds = look * INTERVAL;
        let rate = (version.new)(f64::from(seconds));
        let each = requests / (NEW + OLD) as f64 * f64::from(INTERVAL);
        let (new, old) = (random.answers(NEW, each, rate), random.answers(OLD, each, version.old));
        let measured = analysis.measure(Measured::Answers(PodAnswers { new, old }), Timestamp::UNIX_EPOCH);
        let [strict, lax] = &mut thresholds;
        let stops = [measured.verdict == AnalysisVerdict::Fail, strict.look(new, look), lax.look(new, look)];
        for (ended, stops) in ended.iter_mut().zip(stops).filter(|(ended, _)| ended.stopped.is_none()) {
            ended.failed += new.bad;
            ended.stopped = stops.then_some(seconds);
        }
    }
    ended
}

/// Returns the part that was stopped, in percent, and the median of the seconds until then.
fn stopped<'e>(ends: impl Iterator<Item = &'e Ended>) -> (String, String) {
    let all: Vec<&Ended> = ends.collect();
    let mut seconds: Vec<u32> = all.iter().filter_map(|ended| ended.stopped).collect();
    seconds.sort_unstable();
    let part = 100.0 * seconds.len() as f64 / all.len() as f64;
    let median = seconds.get(seconds.len() / 2).map_or_else(|| "–".to_owned(), |median| format!("{median} s"));
    (format!("{part:.1}%").replace(".0%", "%"), median)
}

/// Returns the two tables.
fn tables() -> [String; 2] {
    let mut random = Random(SEED);
    let mut sums = String::from(
        "| requests a second | judge | bad versions stopped | harmless ones stopped | median time until a bad one is stopped | failed answers \
         of a bad one |\n|---|---|---|---|---|---|\n",
    );
    let mut each = format!("| version | {} |\n|---|---|---|---|\n", JUDGES.join(" | "));
    for requests in REQUESTS {
        let of_version =
            |version: &Planted| (0..ROLLOUTS).map(|_| canary(version, requests, &mut random)).collect::<Vec<_>>();
        let ends: Vec<Vec<[Ended; 3]>> = VERSIONS.iter().map(of_version).collect();
        let of_kind = |is_bad: bool, judge: usize| {
            let versions = VERSIONS.iter().zip(&ends).filter(move |(version, _)| version.is_bad == is_bad);
            versions.flat_map(|(_, ends)| ends).map(move |ends| &ends[judge])
        };
        for (judge, name) in JUDGES.iter().enumerate() {
            let (bad, median) = stopped(of_kind(true, judge));
            let (harmless, _) = stopped(of_kind(false, judge));
            let failed: f64 = of_kind(true, judge).map(|ended| ended.failed).sum();
            let failed = failed / of_kind(true, judge).count() as f64;
            writeln!(sums, "| {requests} | {name} | {bad} | {harmless} | {median} | {failed:.0} |").unwrap();
        }
        for (version, ends) in VERSIONS.iter().zip(&ends).filter(|_| requests == SHOWN) {
            let kind = if version.is_bad { "bad" } else { "harmless" };
            write!(each, "| {kind}: {} |", version.name).unwrap();
            for judge in 0..JUDGES.len() {
                match stopped(ends.iter().map(|ends| &ends[judge])) {
                    (part, _) if part == "0%" => each.push_str(" 0% |"),
                    (part, median) => write!(each, " {part}, {median} |").unwrap(),
                }
            }
            each.push('\n');
        }
    }
    [sums, each]
}

/// The tables of `docs/analysis.md` are what this prints. `BELAY_BLESS=1` writes them.
#[test]
fn the_documentation_compares_the_verdicts_with_those_of_thresholds() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/analysis.md");
    let mut docs = std::fs::read_to_string(path).unwrap();
    for table in tables() {
        eprintln!("{table}");
        let (header, _) = table.split_once('\n').unwrap();
        let begins = docs.find(header).unwrap_or_else(|| panic!("docs/analysis.md has no table {header:?}"));
        let ends = docs[begins..].find("\n\n").map_or(docs.len(), |length| begins + length + 1);
        if std::env::var_os("BELAY_BLESS").is_some() {
            docs.replace_range(begins..ends, &table);
            std::fs::write(path, &docs).unwrap();
        }
        assert_eq!(
            docs[begins..begins + table.len()],
            table,
            "docs/analysis.md is old: run this test with BELAY_BLESS=1"
        );
    }
}

/// A version counts as bad when its error rate is more than is tolerated, at some time.
#[test]
fn planted_versions_are_what_they_are_said_to_be() {
    for Planted { name, old, new, is_bad } in VERSIONS {
        let worst = (1..=LOOKS).map(|look| new(f64::from(look * INTERVAL))).fold(0.0, f64::max);
        assert_eq!(worst > old * TOLERATED * 1.000_001, is_bad, "{name}");
    }
    assert_eq!(VERSIONS.iter().filter(|version| version.is_bad).count(), 20);
}
