//! The power of an analysis, before a rollout: how much worse a version must be to be found.

use std::time::Duration;

use super::error_rates::ErrorRateTest;
use super::guard::Guard;
use super::random::Random;
use super::rule::AnalysisRule;

/// The error rates that are tried, in terms of the old one.
const FACTORS: [f64; 6] = [2.0, 3.0, 5.0, 10.0, 30.0, 100.0];
/// The rollouts that are simulated of each, and how many of them are to be stopped.
const ROLLOUTS: u32 = 100;
const FOUND: u32 = 80;
/// The most looks of a simulated rollout: more are taken together.
const LOOKS: u32 = 60;
/// The most pods of a simulated side.
const PODS: i64 = 5;
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// The times between the looks of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LookTimes {
    /// From one look to the next.
    pub interval: Duration,
    /// Before the first one.
    pub warmup: Duration,
}

/// The requests to a workload before its rollout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// The requests in a second, to all of its pods.
    pub requests: f64,
    /// The part of them with bad answers.
    pub error_rate: f64,
}

/// The power of an analysis within a guard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Power {
    /// It finds nothing, however bad the version is.
    Nothing,
    /// It finds a version that is so many times worse, and nothing better.
    Worse(f64),
    /// It holds a value within bounds, and has enough looks to fail.
    Value,
}

/// Returns the least factor of 2, 3, 5, 10, 30 and 100 by which the error rate of a version must be above the old one for the
/// analysis to stop it in at least 8 of 10 rollouts before the guard is over. The rollouts are simulated with answers that fail
/// independently of each other: bursts make it worse.
#[must_use]
pub fn power(rule: AnalysisRule, looks: LookTimes, guard: &Guard, traffic: Traffic) -> Power {
    let AnalysisRule::ErrorRate { tolerate, false_alarm, at_least, .. } = rule else {
        return value_power(rule, looks, guard);
    };
    let times: Vec<_> = guard.times.iter().map(|time| (time, time.looks(looks.interval, looks.warmup))).collect();
    let all: u32 = times.iter().map(|(_, (looks, _))| *looks).sum();
    let together = all.div_ceil(LOOKS).max(1);
    let plan: Vec<SimulatedLooks> = times
        .iter()
        .map(|(time, (looks, interval))| {
            let (new, old) = time.parts();
            let requests = traffic.requests * interval * f64::from(*looks);
            let count = if *looks == 0 { 0 } else { looks.div_ceil(together).max((*looks).min(3)) };
            let each = |part: f64, pods: i64| {
                let pods = pods.clamp(1, PODS);
                SimulatedSide { pods, requests: requests * part / f64::from(count.max(1)) / pods as f64 }
            };
            SimulatedLooks { new: each(new, time.new), old: each(old, time.old), count }
        })
        .collect();
    let limit = (1.0 / false_alarm, at_least);
    let possible = FACTORS.into_iter().filter(|factor| *factor > tolerate && factor * traffic.error_rate <= 1.0);
    let found = |factor: &f64| is_found(&plan, (traffic.error_rate, *factor), tolerate, limit);
    possible.into_iter().find(found).map_or(Power::Nothing, Power::Worse)
}

fn value_power(rule: AnalysisRule, looks: LookTimes, guard: &Guard) -> Power {
    let failures = if let AnalysisRule::Bounds { failures, .. } = rule { failures } else { 1 };
    let fits = |lasts: Duration| lasts > looks.warmup;
    let times = guard.times.iter().filter(|time| fits(time.lasts));
    let count: u32 = times.map(|time| time.looks(looks.interval, looks.warmup).0 + 1).sum();
    if count >= failures { Power::Value } else { Power::Nothing }
}

/// The looks within one time.
struct SimulatedLooks {
    new: SimulatedSide,
    old: SimulatedSide,
    count: u32,
}

/// The pods of one side, and the requests to each between two looks.
struct SimulatedSide {
    pods: i64,
    requests: f64,
}

/// Returns true when enough of the simulated rollouts are stopped.
fn is_found(plan: &[SimulatedLooks], rates: (f64, f64), tolerate: f64, limit: (f64, f64)) -> bool {
    let (old_rate, factor) = rates;
    let mut random = Random(SEED);
    let mut missed = 0;
    for _ in 0..ROLLOUTS {
        let mut test = ErrorRateTest::default();
        let mut looks = plan.iter().flat_map(|time| (0..time.count).map(move |_| time));
        let is_stopped = looks.any(|time| {
            let new = random.answers(time.new.pods, time.new.requests, old_rate * factor);
            let old = random.answers(time.old.pods, time.old.requests, old_rate);
            test.look(new, old, tolerate, None);
            test.evidence() >= limit.0 && test.sums().0.total >= limit.1
        });
        missed += u32::from(!is_stopped);
        if missed > ROLLOUTS - FOUND {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{QUIET, SEED as OTHER_SEED, Simulated};
    use super::*;
    use crate::rollout::analysis::GuardedTime;

    const RULE: AnalysisRule =
        AnalysisRule::ErrorRate { tolerate: 1.25, false_alarm: 0.01, at_least: 20.0, prove: None };
    const EVERY_15_S: LookTimes = LookTimes { interval: Duration::from_secs(15), warmup: Duration::ZERO };

    fn guard(new: i64, old: i64, minutes: u64) -> Guard {
        let lasts = Duration::from_mins(minutes);
        Guard { bakes: false, times: vec![GuardedTime { new, old, is_beside: true, lasts }] }
    }

    /// Returns the part of the simulated rollouts that is stopped when the new pods' error rate is so many times the old one.
    fn stopped((new, old, minutes): (usize, usize, u64), traffic: Traffic, times: f64) -> f64 {
        const ROLLOUTS: u32 = 300;
        let rollout = Simulated {
            new,
            old,
            requests: traffic.requests,
            old_rate: traffic.error_rate,
            times,
            looks: u32::try_from(minutes * 4 - 1).unwrap(),
            ..QUIET
        };
        let mut random = Random(OTHER_SEED);
        let stopped = (0..ROLLOUTS).filter(|_| rollout.stopped_after(&mut random).is_some()).count();
        stopped as f64 / f64::from(ROLLOUTS)
    }

    #[test]
    fn the_power_is_that_of_simulated_rollouts() {
        for (new, old, minutes, requests, error_rate, expected) in [
            (1, 6, 10, 0.2, 0.005, Power::Nothing),
            (1, 6, 10, 0.5, 0.005, Power::Worse(100.0)),
            (1, 6, 10, 2.0, 0.005, Power::Worse(30.0)),
            (1, 6, 10, 10.0, 0.005, Power::Worse(5.0)),
            (1, 6, 10, 100.0, 0.005, Power::Worse(3.0)),
            (3, 6, 10, 10.0, 0.005, Power::Worse(5.0)),
            (1, 6, 60, 10.0, 0.005, Power::Worse(3.0)),
            (1, 1, 10, 1_000.0, 0.001, Power::Worse(2.0)),
            (1, 6, 10, 10.0, 0.05, Power::Worse(3.0)),
            (1, 6, 10, 2.0, 0.2, Power::Worse(3.0)),
            (1, 6, 1, 10.0, 0.005, Power::Worse(100.0)),
        ] {
            let traffic = Traffic { requests, error_rate };
            let case = format!("{new} of {} pods, {minutes} min, {requests}/s, {error_rate}", new + old);
            let found = power(RULE, EVERY_15_S, &guard(new, old, minutes), traffic);
            assert_eq!(found, expected, "{case}");
            let (all, seed) = ((usize::try_from(new).unwrap(), usize::try_from(old).unwrap(), minutes), OTHER_SEED);
            let at = |factor: f64| stopped(all, traffic, factor);
            let below = match found {
                Power::Worse(factor) => {
                    assert!(at(factor) >= 0.7, "{case}: {} are stopped (seed {seed})", at(factor));
                    FACTORS.into_iter().rfind(|smaller| *smaller < factor)
                }
                _ => FACTORS.into_iter().rfind(|factor| factor * error_rate <= 1.0),
            };
            let below = below.map_or(0.0, at);
            assert!(below <= 0.9, "{case}: {below} of less bad ones are stopped, too (seed {seed})");
        }
    }

    #[test]
    fn a_guard_without_looks_sees_nothing() {
        let much = Traffic { requests: 1_000.0, error_rate: 0.005 };
        let bounds = |failures| AnalysisRule::Bounds { min: None, max: Some(1.0), failures, at_least: 0.0 };
        let of = |rule, seconds, warmup| {
            let times = [GuardedTime { new: 1, old: 1, is_beside: true, lasts: Duration::from_secs(seconds) }];
            let looks = LookTimes { warmup: Duration::from_secs(warmup), ..EVERY_15_S };
            power(rule, looks, &Guard { bakes: false, times: times.to_vec() }, much)
        };
        assert_eq!(of(RULE, 15, 0), Power::Nothing, "counters say something from the second look on");
        assert_eq!(of(RULE, 30, 0), Power::Nothing, "one comparison may have been a burst");
        assert_ne!(of(RULE, 61, 0), Power::Nothing);
        assert_eq!(of(RULE, 600, 600), Power::Nothing, "all of it is warmup");
        assert_eq!(of(bounds(3), 30, 0), Power::Nothing);
        assert_eq!(of(bounds(3), 31, 0), Power::Value);
        assert_eq!(of(bounds(1), 5, 0), Power::Value);
        assert_eq!(of(bounds(1), 5, 5), Power::Nothing);
        let blind = AnalysisRule::ErrorRate { tolerate: 1.25, false_alarm: 0.01, at_least: 1e12, prove: None };
        assert_eq!(of(blind, 600, 0), Power::Nothing, "there are never so many requests");
        let lax = AnalysisRule::ErrorRate { tolerate: 10.0, false_alarm: 0.01, at_least: 20.0, prove: None };
        assert_eq!(of(lax, 600, 0), Power::Worse(30.0), "ten times as many errors are harmless");
    }
}
