//! The figures: how often rollouts happen, how long they take, how often they fail, and how soon that is mended.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};

use belay_core::manifest::ObjectKey;
use belay_core::rollout::{FailureCause, Outcome};

/// The subject of the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsQuery {
    /// Only this source.
    pub source: Option<String>,
    /// Rollouts taken up at this time or later.
    pub since: Timestamp,
    /// Rollouts taken up before this time.
    pub until: Timestamp,
    /// One line for each what.
    pub by: By,
}

/// The subject of one line of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A source.
    Source,
    /// A workload: `shop: Deployment shop/web`.
    Workload,
    /// A month in UTC: `2026-11`.
    Month,
}

/// The four numbers of a delivery, for one source, workload or month. A rollout is counted where it was taken up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The source, workload or month.
    pub of: String,
    /// The number of rollouts that ended, well or not.
    pub deployments: u64,
    /// The number of them that failed, rolled back or not.
    pub failures: u64,
    /// The number of failures by cause.
    pub causes: BTreeMap<FailureCause, u64>,
    /// From the commit's author date to complete, of those that a commit set off.
    pub lead_time: Option<Spread>,
    /// The time from the beginning of a rollout that failed until the workload was healthy again: rolled back, or
    /// complete with a later commit.
    pub time_to_restore: Option<Spread>,
}

/// The distribution of durations, over many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The number of times.
    pub count: u64,
    /// The one in the middle.
    pub median: SignedDuration,
    /// Nine of ten took at most this.
    pub ninth_tenth: SignedDuration,
    /// The longest.
    pub longest: SignedDuration,
}

/// A rollout that has ended.
pub(in crate::history) struct CountedRollout {
    pub(in crate::history) source: String,
    pub(in crate::history) object: ObjectKey,
    pub(in crate::history) outcome: Outcome,
    pub(in crate::history) started: Timestamp,
    pub(in crate::history) ended: Timestamp,
    /// When its commit was written, if a commit set it off.
    pub(in crate::history) authored: Option<Timestamp>,
    /// The word of its reason.
    pub(in crate::history) reason: Option<String>,
}

#[derive(Default)]
struct Line {
    deployments: u64,
    failures: u64,
    causes: BTreeMap<FailureCause, u64>,
    lead_times: Vec<SignedDuration>,
    restores: Vec<SignedDuration>,
}

/// The counts so far, by the lines that they are of.
pub(in crate::history) struct Count {
    by: By,
    lines: BTreeMap<String, Line>,
    /// Workloads that are not well, and since when.
    failing: HashMap<(String, ObjectKey), Timestamp>,
}

impl Count {
    /// Begins with no rollout.
    pub(in crate::history) fn new(by: By) -> Count {
        Count { by, lines: BTreeMap::new(), failing: HashMap::new() }
    }

    /// Counts a rollout; they come in the order of their beginnings.
    pub(in crate::history) fn add(&mut self, rollout: CountedRollout) {
        let CountedRollout { source, object, outcome, started, ended, authored, reason } = rollout;
        let of = match self.by {
            By::Source => source.clone(),
            By::Workload => format!("{source}: {object}"),
            By::Month => started.strftime("%Y-%m").to_string(),
        };
        let failed = match outcome {
            Outcome::Complete => false,
            Outcome::Failed | Outcome::RolledBack | Outcome::RollbackFailed => true,
            _ => return,
        };
        let line = self.lines.entry(of).or_default();
        line.deployments += 1;
        line.failures += u64::from(failed);
        if failed {
            let cause = reason.map_or(FailureCause::Other, |word| FailureCause::of(&word.into()));
            *line.causes.entry(cause).or_default() += 1;
        }
        let workload = (source, object);
        let failing = match self.failing.remove(&workload) {
            None if failed => Some(started),
            earlier => earlier,
        };
        if let Some(since) = failing {
            if matches!(outcome, Outcome::Complete | Outcome::RolledBack) {
                line.restores.push(ended.duration_since(since));
            } else {
                self.failing.insert(workload, since);
            }
        }
        if let (Outcome::Complete, Some(authored)) = (outcome, authored) {
            line.lead_times.push(ended.duration_since(authored));
        }
    }

    /// Returns the numbers, by name.
    pub(in crate::history) fn stats(self) -> Vec<Stats> {
        let stats = |(of, line): (String, Line)| Stats {
            of,
            deployments: line.deployments,
            failures: line.failures,
            causes: line.causes,
            lead_time: spread(line.lead_times),
            time_to_restore: spread(line.restores),
        };
        self.lines.into_iter().map(stats).collect()
    }
}

fn spread(mut times: Vec<SignedDuration>) -> Option<Spread> {
    times.sort();
    let longest = *times.last()?;
    // The smallest that so many of ten do not exceed.
    let of_ten = |tenths: usize| times[(times.len() * tenths).div_ceil(10) - 1];
    Some(Spread { count: times.len() as u64, median: of_ten(5), ninth_tenth: of_ten(9), longest })
}
