//! Simulated rollouts: how often the comparison of error rates is wrong, and how fast it is right.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::error_rates::{AnswerSums, Answers, ErrorRateTest};
use super::random::Random;
use super::{Analysis, AnalysisRule, CounterIncreases, Measured, OnNone, PodAnswers, PromotionProof, Sample};

/// Returns the size of a burst, geometric with this mean.
fn burst(random: &mut Random, mean: f64) -> f64 {
    (1.0 + random.part().max(1e-12).ln() / (1.0 - 1.0 / mean).ln()).floor().min(10_000.0)
}

/// A rollout that is simulated.
#[derive(Clone, Copy)]
pub(super) struct Simulated {
    pub new: usize,
    pub old: usize,
    /// The requests in a second, of all pods.
    pub requests: f64,
    pub old_rate: f64,
    /// The new error rate, in terms of the old one.
    pub times: f64,
    /// The bursts of a pod in a second, and how large they are.
    pub bursts: (f64, f64),
    /// True when a burst is spread over all pods of a side, as a Service does; else one pod answers all of it.
    pub is_spread: bool,
    /// The probability that a pod's counters are missing at a look.
    pub missing: f64,
    /// The probability that a pod is restarted between two looks, or that it is replaced.
    pub restarts: f64,
    pub looks: u32,
}

pub(super) const QUIET: Simulated = Simulated {
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
            for _ in 0..burst(random, self.bursts.1) as usize {
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
                    bad += burst(random, self.bursts.1);
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
    pub fn stopped_after(&self, random: &mut Random) -> Option<f64> {
        let mut test = ErrorRateTest::default();
        self.ends_after(random, |answers| {
            test.look(answers.new, answers.old, 1.25, None);
            test.evidence() >= 100.0
        })
    }

    /// Returns after how many seconds it is proved that the version is not twice as bad; `None` if it is not.
    fn proved_after(&self, random: &mut Random) -> Option<f64> {
        let rule = AnalysisRule::ErrorRate { tolerate: 1.25, false_alarm: 0.01, at_least: 20.0, prove: Some(2.0) };
        let mut analysis = Analysis::new((String::new(), String::new()), rule, OnNone::Wait);
        analysis.enter(Some(1));
        self.ends_after(random, |answers| {
            analysis.measure(Measured::Answers(answers), Timestamp::UNIX_EPOCH);
            matches!(analysis.promotion_proof(), PromotionProof::Proved(_))
        })
    }

    /// Returns the seconds until the answers of a look end it.
    fn ends_after(&self, random: &mut Random, mut ends: impl FnMut(PodAnswers) -> bool) -> Option<f64> {
        let (mut new, mut old) = (vec![Pod::default(); self.new], vec![Pod::default(); self.old]);
        let mut growth: [CounterIncreases; 2] = Default::default();
        // The first look at counters says nothing.
        for look in u32::from(self.is_plain())..=self.looks {
            let answers = PodAnswers {
                new: self.look(&mut new, &mut growth[0], self.times, random),
                old: self.look(&mut old, &mut growth[1], 1.0, random),
            };
            if ends(answers) {
                return Some(f64::from(look) * INTERVAL);
            }
        }
        None
    }
}

/// The seed of the simulations, which a failure names.
pub(super) const SEED: u64 = 88_172_645_463_325_252;

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

#[test]
fn a_version_that_is_twice_as_bad_is_promoted_early_in_one_of_a_hundred_rollouts_at_most() {
    const ROLLOUTS: u32 = 3_000;
    let twice = Simulated { times: 2.0, looks: 120, ..QUIET };
    let bursty = Simulated { old_rate: 0.001, ..twice };
    let mut random = Random(SEED);
    for (what, rollout) in [
        ("one new pod", twice),
        ("many requests", Simulated { requests: 100.0, ..twice }),
        ("side by side", Simulated { new: 5, old: 5, requests: 100.0, ..twice }),
        ("few requests", Simulated { requests: 0.5, old_rate: 0.1, ..twice }),
        ("many errors", Simulated { new: 3, old: 3, requests: 5.0, old_rate: 0.3, ..twice }),
        ("ten times as bad", Simulated { times: 10.0, ..twice }),
        ("rare bursts", Simulated { new: 5, old: 5, bursts: (0.002, 50.0), ..bursty }),
        ("rare bursts of few new pods", Simulated { bursts: (0.002, 50.0), ..bursty }),
        ("frequent bursts", Simulated { new: 5, old: 5, bursts: (0.02, 10.0), ..bursty }),
        ("small bursts", Simulated { new: 2, old: 2, requests: 50.0, bursts: (0.01, 4.0), ..bursty }),
        ("bursts over five pods", Simulated { new: 5, old: 5, bursts: (0.02, 10.0), is_spread: true, ..bursty }),
        ("scrapes that fail", Simulated { new: 2, old: 4, missing: 0.3, bursts: (0.005, 20.0), ..bursty }),
        ("pods that are restarted and replaced", Simulated { new: 3, old: 3, restarts: 0.1, missing: 0.1, ..twice }),
    ] {
        let promoted = (0..ROLLOUTS).filter(|_| rollout.proved_after(&mut random).is_some()).count();
        assert!(promoted <= ROLLOUTS as usize / 100, "{what}: {promoted} of {ROLLOUTS} were promoted (seed {SEED})");
    }
}

/// A version as good as the old one is proved so, with enough answers.
#[test]
fn a_good_version_is_promoted_early() {
    const ROLLOUTS: u32 = 200;
    let good = Simulated { new: 2, old: 8, looks: 120, ..QUIET };
    let mut random = Random(SEED);
    for (requests, times, at_least) in [(100.0, 1.0, 100), (100.0, 0.5, 180), (1_000.0, 1.0, 195), (1_000.0, 0.0, 200)]
    {
        let rollout = Simulated { requests, times, ..good };
        let promoted: Vec<f64> = (0..ROLLOUTS).filter_map(|_| rollout.proved_after(&mut random)).collect();
        let soonest = promoted.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(promoted.len() >= at_least, "{requests} {times}: {} of {ROLLOUTS} (seed {SEED})", promoted.len());
        assert!(soonest >= 4.0 * INTERVAL, "{requests} {times}: after {soonest} s (seed {SEED})");
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
        test.look(side(120.0, look % 4 == 0), side(3.0, look % 4 == 2), 1.25, None);
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
