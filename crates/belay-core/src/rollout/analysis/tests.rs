//! The verdicts of analyses, and how often the comparison of error rates is wrong and right, by simulation.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

const COMPARES: AnalysisRule = AnalysisRule::ErrorRate { tolerate: 1.25, false_alarm: 0.01, at_least: 20.0 };

fn names(name: &str) -> (String, String) {
    (name.to_owned(), "1a2b".to_owned())
}

fn answered(new: (f64, f64), old: (f64, f64)) -> Measured {
    let sums = |(bad, total): (f64, f64)| AnswerSums::of([Answers { bad, total }]);
    Measured::Answers(PodAnswers { new: sums(new), old: sums(old) })
}

fn value(value: f64, requests: Option<f64>) -> Measured {
    Measured::Value { value, requests }
}

#[test]
fn a_value_is_out_of_bounds_so_often_in_a_row() {
    let bounds = |min, max, failures| AnalysisRule::Bounds { min, max, failures, at_least: 20.0 };
    let nothing = || Measured::Nothing { message: "no data".to_owned() };
    for (what, rule, looks, failure) in [
        ("within", bounds(None, Some(500.0), 1), vec![value(500.0, None)], None),
        (
            "above",
            bounds(None, Some(500.0), 1),
            vec![value(812.5, None)],
            Some("analysis \"a\": the value is 812.5, more than its max of 500"),
        ),
        (
            "below",
            bounds(Some(0.99), None, 1),
            vec![value(0.5, None)],
            Some("analysis \"a\": the value is 0.5, less than its min of 0.99"),
        ),
        ("not in a row", bounds(None, Some(1.0), 2), vec![value(2.0, None), value(1.0, None), value(2.0, None)], None),
        (
            "looks without data are left out",
            bounds(None, Some(1.0), 2),
            vec![value(2.0, None), nothing(), value(3.0, None)],
            Some("analysis \"a\": the value is 3, more than its max of 1, at 2 looks in a row"),
        ),
        ("no verdict at the end", bounds(None, Some(1.0), 1), vec![value(2.0, Some(19.0))], None),
        (
            "enough requests",
            bounds(None, Some(1.0), 1),
            vec![value(2.0, Some(20.0))],
            Some("analysis \"a\": the value is 2, more than its max of 1"),
        ),
    ] {
        let mut analysis = Analysis::new(names("a"), rule, OnNone::Wait);
        let measured: Vec<Measurement> = looks.into_iter().map(|look| analysis.measure(look, at(0))).collect();
        assert_eq!(analysis.failure().as_deref(), failure, "{what}");
        assert_eq!(Analysis::resume(names("a"), rule, OnNone::Wait, &measured), analysis, "{what}");
    }
}

#[test]
fn an_analysis_without_a_verdict_says_why() {
    let mut analysis = Analysis::new(names("errors"), COMPARES, OnNone::Wait);
    assert_eq!(analysis.undecided().unwrap(), "analysis \"errors\" has measured nothing yet");
    for (measured, why) in [
        (Measured::Nothing { message: "Prometheus did not answer".to_owned() }, "Prometheus did not answer"),
        (answered((0.0, 0.0), (1.0, 100.0)), "the new pods have answered no request"),
        (answered((1.0, 10.0), (1.0, 10.0)), "the new pods have answered too few requests"),
        (answered((1.0, 10.0), (0.0, 0.0)), "the old pods have answered no request"),
        (value(1.0, None), "there were only 0 requests"),
    ] {
        assert_eq!(analysis.measure(measured, at(0)).verdict, AnalysisVerdict::None);
        assert_eq!(analysis.undecided().unwrap(), format!("analysis \"errors\" has no verdict: {why}"));
        assert_eq!(analysis.failure(), None);
    }
    analysis.measure(answered((0.0, 100.0), (0.0, 100.0)), at(0));
    assert_eq!((analysis.undecided(), analysis.last().unwrap().verdict), (None, AnalysisVerdict::Pass));
}

#[test]
fn looks_without_a_verdict_count_as_is_asked_for() {
    let after = |on_none: OnNone, looks: usize| {
        let mut analysis = Analysis::new(names("errors"), COMPARES, on_none);
        for _ in 0..looks {
            analysis.measure(Measured::Nothing { message: "the query has no data".to_owned() }, at(0));
        }
        (analysis.failure(), analysis.undecided().is_some())
    };
    let why = "analysis \"errors\" has no verdict: the query has no data; on_none is fail".to_owned();
    assert_eq!(after(OnNone::Wait, 9), (None, true));
    assert_eq!(after(OnNone::Pass, 9), (None, false));
    assert_eq!(after(OnNone::Fail, 2), (None, true));
    assert_eq!(after(OnNone::Fail, 3), (Some(why), true));
}

#[test]
fn the_error_rates_are_told_with_their_numbers() {
    let mut analysis = Analysis::new(names("errors"), COMPARES, OnNone::Wait);
    let mut measured = vec![];
    for second in 0..3 {
        measured.push(analysis.measure(answered((20.0, 100.0), (1.0, 200.0)), at(second)));
    }
    assert_eq!(
        analysis.failure().unwrap(),
        "analysis \"errors\": the new pods gave 60 bad answers of 300 (20%), the old ones 3 bad answers of 600 (0.5%); that is \
         more than 1.25 times the old error rate, with a false alarm in at most 1% of harmless versions"
    );
    let kept = serde_json::to_string(&measured).unwrap();
    assert!(kept.contains("\"newBad\":20.0"), "{kept}");
    let read: Vec<Measurement> = serde_json::from_str(&kept).unwrap();
    assert_eq!(
        Analysis::resume(names("errors"), COMPARES, OnNone::Wait, &read),
        analysis,
        "anybody can compute the verdict again"
    );
}

#[test]
fn a_verdict_that_was_not_computed_is_found() {
    let mut analysis = Analysis::new(names("errors"), COMPARES, OnNone::Wait);
    let mut measured: Vec<Measurement> =
        (0..3).map(|second| analysis.measure(answered((20.0, 100.0), (1.0, 200.0)), at(second))).collect();
    let failure = analysis.failure();
    let found = verify(&measured);
    assert_eq!(found, [VerifiedAnalysis { name: "errors".to_owned(), looks: 3, differs: None, failure }]);
    // The tolerated rate was changed meanwhile: all looks are judged by it.
    let stricter = AnalysisRule::ErrorRate { tolerate: 1.0, false_alarm: 0.01, at_least: 20.0 };
    let mut changed = Analysis::resume(names("errors"), stricter, OnNone::Wait, &measured);
    measured.push(changed.measure(answered((0.0, 100.0), (1.0, 200.0)), at(3)));
    assert_eq!(verify(&measured)[0].differs, None);
    measured[1].verdict = AnalysisVerdict::Pass;
    measured[1].evidence = Some(1.0);
    assert_eq!(verify(&measured)[0].differs.as_ref().unwrap().at, at(1));
}

#[test]
fn one_look_of_one_pod_is_never_enough() {
    let mut analysis = Analysis::new(names("errors"), COMPARES, OnNone::Wait);
    analysis.measure(answered((10_000.0, 10_000.0), (0.0, 10_000.0)), at(0));
    assert_eq!(analysis.failure(), None, "it may have been one client's burst");
}

/// A generator of random numbers, which is the same on every machine.
struct Random(u64);

impl Random {
    fn part(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number of independent events of which so many are expected.
    fn events(&mut self, mean: f64) -> f64 {
        if mean > 50.0 {
            let (one, other) = (self.part().max(1e-300), self.part());
            let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
            return (mean + mean.sqrt() * normal).round().max(0.0);
        }
        let (limit, mut product, mut events) = ((-mean).exp(), self.part(), 0.0);
        while product > limit {
            product *= self.part();
            events += 1.0;
        }
        events
    }

    /// Returns the size of a burst, geometric with this mean.
    fn burst(&mut self, mean: f64) -> f64 {
        (1.0 + self.part().max(1e-12).ln() / (1.0 - 1.0 / mean).ln()).floor().min(10_000.0)
    }
}

/// A rollout that is simulated.
#[derive(Clone, Copy)]
struct Simulated {
    new: usize,
    old: usize,
    /// The requests in a second, of all pods.
    requests: f64,
    old_rate: f64,
    /// The new error rate, in terms of the old one.
    times: f64,
    /// The bursts of a pod in a second, and how large they are.
    bursts: (f64, f64),
    /// True when a burst is spread over all pods of a side, as a Service does; else one pod answers all of it.
    is_spread: bool,
    /// The probability that a pod's counters are missing at a look.
    missing: f64,
    /// The probability that a pod is restarted between two looks, or that it is replaced.
    restarts: f64,
    looks: u32,
}

const QUIET: Simulated = Simulated {
    new: 1,
    old: 9,
    requests: 10.0,
    old_rate: 0.005,
    times: 1.0,
    bursts: (0.0, 2.0),
    is_spread: false,
    missing: 0.0,
    restarts: 0.0,
    looks: 40,
};
/// The seconds between two looks.
const INTERVAL: f64 = 15.0;

/// The counters of a pod.
#[derive(Clone, Copy, Default)]
struct Pod {
    bad: f64,
    total: f64,
}

impl Simulated {
    /// Returns true when what counters have grown by is what was counted: no restarts, and no failing scrapes.
    fn is_plain(&self) -> bool {
        self.missing == 0.0 && self.restarts == 0.0
    }

    /// Returns the bad answers of each pod to bursts that a Service spreads over all of them.
    fn spread_bursts(&self, pods: usize, times: f64, random: &mut Random) -> Vec<f64> {
        let mut spread = vec![0.0; pods];
        let bursts = if self.is_spread { random.events(self.bursts.0 * INTERVAL * times) as usize } else { 0 };
        for _ in 0..bursts {
            for _ in 0..random.burst(self.bursts.1) as usize {
                spread[(random.part() * pods as f64) as usize] += 1.0;
            }
        }
        spread
    }

    /// Returns the answers of some pods between two looks.
    fn look(&self, pods: &mut [Pod], growth: &mut CounterIncreases, times: f64, random: &mut Random) -> AnswerSums {
        let each = self.requests / (self.new + self.old) as f64 * INTERVAL;
        let is_plain = self.is_plain();
        let spread = self.spread_bursts(pods.len(), times, random);
        let mut counted = AnswerSums::default();
        let mut seen: [Vec<Sample>; 2] = [Vec::new(), Vec::new()];
        for (number, pod) in pods.iter_mut().enumerate() {
            if self.restarts > 0.0 && random.part() < self.restarts {
                *pod = Pod::default();
            }
            let total = random.events(each);
            let mut bad = random.events(total * (self.old_rate * times).min(1.0)).min(total);
            if !self.is_spread {
                for _ in 0..random.events(self.bursts.0 * INTERVAL * times) as usize {
                    bad += random.burst(self.bursts.1);
                }
            }
            bad += spread.get(number).copied().unwrap_or_default();
            if is_plain {
                counted.add(AnswerSums::of([Answers { bad, total }]));
                continue;
            }
            (pod.bad, pod.total) = (pod.bad + bad, pod.total + total.max(bad));
            if random.part() >= self.missing {
                let sample = |value| Sample { labels: number.to_string(), pod: number.to_string(), value };
                seen[0].push(sample(pod.bad));
                seen[1].push(sample(pod.total));
            }
        }
        if is_plain {
            return counted;
        }
        AnswerSums::of(growth.increase(&seen[0], &seen[1]).into_values())
    }

    /// Returns after how many seconds the version is stopped; `None` if it is not.
    fn stopped_after(&self, random: &mut Random) -> Option<f64> {
        let mut test = ErrorRateTest::default();
        let (mut new, mut old) = (vec![Pod::default(); self.new], vec![Pod::default(); self.old]);
        let mut growth: [CounterIncreases; 2] = Default::default();
        // The first look at counters says nothing.
        for look in u32::from(self.is_plain())..=self.looks {
            let answers = (
                self.look(&mut new, &mut growth[0], self.times, random),
                self.look(&mut old, &mut growth[1], 1.0, random),
            );
            test.look(answers.0, answers.1, 1.25);
            if test.evidence() >= 100.0 {
                return Some(f64::from(look) * INTERVAL);
            }
        }
        None
    }
}

/// The seed of the simulations, which a failure names.
const SEED: u64 = 88_172_645_463_325_252;

#[test]
fn a_harmless_version_is_stopped_in_one_of_a_hundred_rollouts_at_most() {
    const ROLLOUTS: u32 = 10_000;
    let bursty = Simulated { old_rate: 0.001, ..QUIET };
    let mut random = Random(SEED);
    for (what, rollout) in [
        ("as before", QUIET),
        ("a little worse, which is tolerated", Simulated { new: 5, old: 5, times: 1.25, requests: 100.0, ..QUIET }),
        ("few requests", Simulated { requests: 0.5, old_rate: 0.05, ..QUIET }),
        ("rare bursts", Simulated { new: 5, old: 5, bursts: (0.002, 50.0), ..bursty }),
        ("rare bursts of few new pods", Simulated { bursts: (0.002, 50.0), ..bursty }),
        ("frequent bursts", Simulated { new: 5, old: 5, bursts: (0.02, 10.0), ..bursty }),
        ("small bursts", Simulated { new: 2, old: 2, requests: 50.0, bursts: (0.01, 4.0), ..bursty }),
        ("huge bursts", Simulated { new: 3, old: 3, requests: 100.0, bursts: (0.001, 500.0), ..bursty }),
        ("bursts over five pods", Simulated { new: 5, old: 5, bursts: (0.02, 10.0), is_spread: true, ..bursty }),
        ("bursts over ten pods", Simulated { new: 10, old: 10, bursts: (0.001, 100.0), is_spread: true, ..bursty }),
        (
            "bursts where nothing else fails",
            Simulated { new: 10, old: 10, old_rate: 0.0, bursts: (0.0005, 100.0), is_spread: true, ..bursty },
        ),
        ("scrapes that fail", Simulated { new: 2, old: 4, missing: 0.3, bursts: (0.005, 20.0), ..bursty }),
        ("pods that are restarted and replaced", Simulated { new: 3, old: 3, restarts: 0.1, missing: 0.1, ..QUIET }),
    ] {
        let stopped = (0..ROLLOUTS).filter(|_| rollout.stopped_after(&mut random).is_some()).count();
        assert!(stopped <= ROLLOUTS as usize / 100, "{what}: {stopped} of {ROLLOUTS} were stopped (seed {SEED})");
    }
}

/// Counters that are scraped once a minute grow at every fourth look, of new and of old pods at different ones.
#[test]
fn a_bad_version_is_found_however_rarely_it_is_scraped() {
    let mut test = ErrorRateTest::default();
    let side = |bad: f64, grows: bool| match grows {
        true => AnswerSums::of([Answers { bad, total: 600.0 }]),
        false => AnswerSums::default(),
    };
    let stopped = (1..40).find(|look| {
        test.look(side(120.0, look % 4 == 0), side(3.0, look % 4 == 2), 1.25);
        test.evidence() >= 100.0
    });
    assert!(stopped.is_some_and(|look| look <= 12), "{stopped:?}: {test:?}");
}

/// The table of `docs/analysis.md`.
#[test]
fn the_documentation_says_what_is_found_and_how_fast() {
    const ROLLOUTS: usize = 400;
    let mut random = Random(SEED);
    let mut table =
        String::from("| requests a second | 1 % bad | 2 % bad | 5 % bad | 20 % bad |\n|---|---|---|---|---|\n");
    for requests in [1.0, 10.0, 100.0] {
        write!(table, "| {requests} |").unwrap();
        for rate in [0.01, 0.02, 0.05, 0.2] {
            // As many old pods with as many requests, before the rollout.
            let rollout = Simulated { requests: 2.0 * requests, new: 5, old: 5, times: rate / QUIET.old_rate, ..QUIET };
            let mut found: Vec<f64> = (0..ROLLOUTS).filter_map(|_| rollout.stopped_after(&mut random)).collect();
            found.sort_by(f64::total_cmp);
            match found.get(ROLLOUTS / 2) {
                Some(seconds) => write!(table, " {seconds} s |").unwrap(),
                None => write!(table, " under {} % |", 10 * (found.len() * 10 / ROLLOUTS + 1)).unwrap(),
            }
        }
        table.push('\n');
    }
    let docs = include_str!("../../../../../docs/analysis.md");
    assert!(docs.contains(&table), "docs/analysis.md has another table than this:\n{table}");
}
