//! Analyses: what Prometheus, or a Job, says of a rollout, look by look, and the verdict.

mod counters;
mod error_rates;
mod guard;
mod job;
mod measurement;
mod pod_pattern;
mod power;
mod promotion;
mod query_template;
mod random;
mod rule;
mod sample;
mod verification;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use counters::CounterIncreases;
pub use error_rates::{AnswerSums, Answers, ErrorRateTest};
pub use guard::{Guard, GuardedTime, LOOKS};
pub use job::{
    JobOrigin, JobState, MadeJob, could_not_start, is_made_by, job_key, job_of, job_state, read_job, stuck_job,
    without_log_line,
};
pub use measurement::{AnalysisVerdict, Measured, Measurement, PodAnswers, by_analysis};
pub use pod_pattern::{PodPatterns, pod_patterns};
pub use power::{LookTimes, Power, Traffic, power};
pub use promotion::{PROMOTED_EARLY, PromotionProof, promoted_early};
pub use query_template::{QueryTemplate, QueryValues};
pub use rule::{AnalysisRule, JobCondition};
pub use sample::{Sample, worst_value};
pub use verification::{VerifiedAnalysis, unproved, verify};

/// The most analyses of one workload.
pub const ANALYSES: usize = 12;

/// The reaction to a look that says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnNone {
    /// The bake time goes on until there is a verdict, for at most `outage_timeout`; then it ends with a warning.
    #[default]
    Wait,
    /// It counts as a good one.
    Pass,
    /// It counts as a bad one. As many in a row as `failures` says are a failure of the version.
    Fail,
}

/// The looks between two comparisons of error rates: Prometheus may scrape as rarely as once a minute.
const LOOKS_BETWEEN_SCRAPES: u32 = 12;

/// The looks without a verdict in a row that are a failure, where they are one and nothing else is said.
const FAILURES: u32 = 3;

/// One analysis of one rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    name: String,
    /// The hash of its queries.
    queries: String,
    rule: AnalysisRule,
    on_none: OnNone,
    test: ErrorRateTest,
    /// The looks in a row that were out of bounds.
    in_a_row: u32,
    /// The looks in a row that said nothing.
    without_verdict: u32,
    /// The looks since error rates were compared last.
    since_compared: u32,
    /// The last measurement.
    last: Option<Measurement>,
    /// The step of the canary in which it looks, and what it has compared in that.
    step: Option<usize>,
    in_step: promotion::StepComparisons,
}

impl Analysis {
    /// Returns an analysis of this name, with this hash of its queries, that has measured nothing yet.
    #[must_use]
    pub fn new((name, queries): (String, String), rule: AnalysisRule, on_none: OnNone) -> Analysis {
        Analysis {
            name,
            queries,
            rule,
            on_none,
            test: ErrorRateTest::default(),
            in_a_row: 0,
            without_verdict: 0,
            since_compared: 0,
            last: None,
            step: None,
            in_step: promotion::StepComparisons::default(),
        }
    }

    /// Returns an analysis that has measured this already, in this order: of a rollout that goes on, or one that is verified.
    #[must_use]
    pub fn resume(
        names: (String, String),
        rule: AnalysisRule,
        on_none: OnNone,
        measurements: &[Measurement],
    ) -> Analysis {
        let mut analysis = Analysis::new(names.clone(), rule, on_none);
        let is_its = |known: &&Measurement| (&known.analysis, &known.queries) == (&names.0, &names.1);
        for known in measurements.iter().filter(is_its) {
            analysis.enter(known.step);
            analysis.measure(known.measured.clone(), known.at);
        }
        analysis
    }

    /// Looks in this step of the canary from now on, or in none.
    pub fn enter(&mut self, step: Option<usize>) {
        if self.step != step {
            self.step = step;
            self.in_step = promotion::StepComparisons::default();
        }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the last measurement.
    #[must_use]
    pub fn last(&self) -> Option<&Measurement> {
        self.last.as_ref()
    }

    /// Judges what a look has measured.
    pub fn measure(&mut self, measured: Measured, at: Timestamp) -> Measurement {
        let verdict = match &measured {
            Measured::Answers(answers) => self.compare(*answers),
            Measured::Value { value, requests } => self.verdict_of_value(*value, *requests),
            Measured::Job { condition, .. } => self.verdict_of_job(*condition),
            Measured::Nothing { .. } => AnalysisVerdict::None,
        };
        let (evidence, proof) = match (&measured, self.rule) {
            (Measured::Answers(_), AnalysisRule::ErrorRate { prove, .. }) => {
                (Some(self.test.evidence()), prove.map(|_| self.test.proof()))
            }
            _ => (None, None),
        };
        self.in_a_row = match verdict {
            AnalysisVerdict::Fail => self.in_a_row.saturating_add(1),
            AnalysisVerdict::Pass => 0,
            AnalysisVerdict::None => self.in_a_row,
        };
        self.without_verdict = match verdict {
            AnalysisVerdict::None => self.without_verdict.saturating_add(1),
            AnalysisVerdict::Pass | AnalysisVerdict::Fail => 0,
        };
        let measurement = Measurement {
            analysis: self.name.clone(),
            queries: self.queries.clone(),
            at,
            verdict,
            rule: self.rule,
            measured,
            evidence,
            proof,
            step: self.step,
        };
        self.last = Some(measurement.clone());
        measurement
    }

    /// Takes in the answers of a look, and returns its verdict.
    fn compare(&mut self, PodAnswers { new, old }: PodAnswers) -> AnalysisVerdict {
        // Else the analysis had another rule when this was measured.
        let AnalysisRule::ErrorRate { tolerate, false_alarm, at_least, prove } = self.rule else {
            return AnalysisVerdict::None;
        };
        let before = self.test.sums().0.total;
        let is_compared = self.test.look(new, old, tolerate, prove);
        self.since_compared = if is_compared { 0 } else { self.since_compared.saturating_add(1) };
        let compared = self.test.sums().0.total;
        self.in_step.add(is_compared, compared - before);
        if compared < at_least {
            AnalysisVerdict::None
        } else if self.test.evidence() >= 1.0 / false_alarm {
            AnalysisVerdict::Fail
        } else if self.since_compared < LOOKS_BETWEEN_SCRAPES {
            AnalysisVerdict::Pass
        } else {
            AnalysisVerdict::None
        }
    }

    fn verdict_of_value(&self, value: f64, requests: Option<f64>) -> AnalysisVerdict {
        let AnalysisRule::Bounds { min, max, at_least, .. } = self.rule else { return AnalysisVerdict::None };
        if requests.is_some_and(|requests| requests < at_least) {
            AnalysisVerdict::None
        } else if min.is_some_and(|min| value < min) || max.is_some_and(|max| value > max) {
            AnalysisVerdict::Fail
        } else {
            AnalysisVerdict::Pass
        }
    }

    fn verdict_of_job(&self, condition: JobCondition) -> AnalysisVerdict {
        match self.rule {
            AnalysisRule::Job { job } if job == condition => AnalysisVerdict::Pass,
            AnalysisRule::Job { .. } => AnalysisVerdict::Fail,
            AnalysisRule::ErrorRate { .. } | AnalysisRule::Bounds { .. } => AnalysisVerdict::None,
        }
    }

    /// Returns why the last look said nothing, if it did.
    #[must_use]
    pub fn said_nothing(&self) -> Option<&str> {
        match &self.last.as_ref()?.measured {
            Measured::Nothing { message } => Some(message),
            Measured::Answers(_) | Measured::Value { .. } | Measured::Job { .. } => None,
        }
    }

    /// Returns true when the Job of the rollout has passed: it is not made again.
    #[must_use]
    pub fn has_passed_for_good(&self) -> bool {
        matches!(self.rule, AnalysisRule::Job { .. })
            && self.last.as_ref().is_some_and(|last| last.verdict == AnalysisVerdict::Pass)
    }

    /// Returns why the version is bad, as one sentence with its numbers; `None` if that is not shown.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let last = self.last.as_ref()?;
        match last.verdict {
            AnalysisVerdict::Pass => None,
            AnalysisVerdict::Fail => self.failed(last),
            AnalysisVerdict::None => {
                let limit = match self.rule {
                    AnalysisRule::Bounds { failures, .. } => failures,
                    AnalysisRule::ErrorRate { .. } | AnalysisRule::Job { .. } => FAILURES,
                };
                let fails = self.on_none == OnNone::Fail && self.without_verdict >= limit;
                self.undecided().filter(|_| fails).map(|why| format!("{why}; on_none is fail"))
            }
        }
    }

    fn failed(&self, last: &Measurement) -> Option<String> {
        let name = &self.name;
        match (self.rule, &last.measured) {
            (AnalysisRule::ErrorRate { tolerate, false_alarm, .. }, _) => Some(format!(
                "analysis {name:?}: {}; that is more than {tolerate} times the old error rate, with a false alarm in at most {}% of \
                 harmless versions",
                self.compared(),
                rounded(false_alarm * 100.0)
            )),
            (AnalysisRule::Bounds { min, max, failures, .. }, Measured::Value { value, .. })
                if self.in_a_row >= failures =>
            {
                let bound = match (min, max) {
                    (Some(min), _) if *value < min => format!("less than its min of {min}"),
                    (_, Some(max)) => format!("more than its max of {max}"),
                    (Some(_) | None, None) => return None,
                };
                let times = if failures > 1 { format!(", at {} looks in a row", self.in_a_row) } else { String::new() };
                Some(format!("analysis {name:?}: the value is {}, {bound}{times}", rounded(*value)))
            }
            (AnalysisRule::Job { .. }, Measured::Job { message, .. }) => Some(format!("analysis {name:?}: {message}")),
            _ => None,
        }
    }

    /// Returns the answers of both sides, for people.
    fn compared(&self) -> String {
        let (new, old) = self.test.sums();
        format!("the new pods gave {}, the old ones {}", of_all(new), of_all(old))
    }

    /// Returns why it is not known yet if the version is good: the last look says nothing, or it failed, though not often enough
    /// in a row. `None` if it has passed, or counts as if it had.
    #[must_use]
    pub fn undecided(&self) -> Option<String> {
        let name = &self.name;
        let passes = self.on_none == OnNone::Pass;
        match &self.last {
            None if passes => None,
            None => Some(format!("analysis {name:?} has measured nothing yet")),
            Some(last) if last.verdict == AnalysisVerdict::None && passes => None,
            Some(last) if last.verdict == AnalysisVerdict::None => {
                Some(format!("analysis {name:?} has no verdict: {}", last.measured.nothing()))
            }
            Some(last) if last.verdict == AnalysisVerdict::Fail => {
                Some(format!("analysis {name:?} failed at its last look ({})", last.numbers()))
            }
            Some(_) => None,
        }
    }
}

/// Returns a number for people, with at most three digits behind the point.
fn rounded(number: f64) -> String {
    match number {
        number if number >= INFINITE => "+Inf".to_owned(),
        number if number <= -INFINITE => "-Inf".to_owned(),
        number if number.abs() >= 1e15 => format!("{number:e}"),
        number => ((number * 1000.0).round() / 1000.0).to_string(),
    }
}

/// The number that stands for an infinite one: JSON has none.
pub const INFINITE: f64 = 1e300;

/// Returns `35 bad answers of 400 (8.75 %)`.
fn of_all(sums: AnswerSums) -> String {
    format!("{} bad answers of {} ({}%)", rounded(sums.bad), rounded(sums.total), rounded(sums.rate() * 100.0))
}

#[cfg(test)]
mod comparison;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
