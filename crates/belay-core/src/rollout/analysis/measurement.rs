//! A measurement, as the history keeps it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error_rates::AnswerSums;
use super::rounded;
use super::rule::{AnalysisRule, JobCondition};

/// The verdict of one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnalysisVerdict {
    /// Nothing is wrong.
    Pass,
    /// The value is out of bounds, the error rate is higher than is tolerated, or the Job has failed.
    Fail,
    /// It says nothing: no data, too few requests, Prometheus did not answer, or the Job can't start.
    None,
}

impl AnalysisVerdict {
    /// Returns the word, the same for people and programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            AnalysisVerdict::Pass => "pass",
            AnalysisVerdict::Fail => "fail",
            AnalysisVerdict::None => "none",
        }
    }
}

/// The answers of the new and of the old pods between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "FlatAnswers", into = "FlatAnswers")]
#[schemars(with = "FlatAnswers")]
pub struct PodAnswers {
    /// The new pods' ones.
    pub new: AnswerSums,
    /// The old pods' ones.
    pub old: AnswerSums,
}

/// The answers of the new and of the old pods between two looks, as they are written.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FlatAnswers {
    /// The bad answers of the new pods.
    new_bad: f64,
    /// All answers of the new pods.
    new_total: f64,
    /// The sum of the squares of the bad answers of each new pod.
    new_squares: f64,
    /// The number of new pods that have answered.
    new_samples: f64,
    /// The bad answers of the old pods.
    old_bad: f64,
    /// All answers of the old pods.
    old_total: f64,
    /// The sum of the squares of the bad answers of each old pod.
    old_squares: f64,
    /// The number of old pods that have answered.
    old_samples: f64,
}

impl From<FlatAnswers> for PodAnswers {
    fn from(flat: FlatAnswers) -> PodAnswers {
        let FlatAnswers { new_bad, new_total, new_squares, new_samples, old_bad, old_total, old_squares, old_samples } =
            flat;
        PodAnswers {
            new: AnswerSums { bad: new_bad, total: new_total, squares: new_squares, samples: new_samples },
            old: AnswerSums { bad: old_bad, total: old_total, squares: old_squares, samples: old_samples },
        }
    }
}

impl From<PodAnswers> for FlatAnswers {
    fn from(PodAnswers { new, old }: PodAnswers) -> FlatAnswers {
        FlatAnswers {
            new_bad: new.bad,
            new_total: new.total,
            new_squares: new.squares,
            new_samples: new.samples,
            old_bad: old.bad,
            old_total: old.total,
            old_squares: old.squares,
            old_samples: old.samples,
        }
    }
}

/// The numbers of one look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Measured {
    /// The answers of the new and of the old pods since the look before.
    Answers(PodAnswers),
    /// A value.
    Value {
        /// The value.
        value: f64,
        /// The requests that it is made of, if they are counted.
        #[serde(skip_serializing_if = "Option::is_none")]
        requests: Option<f64>,
    },
    /// The end of a Job.
    Job {
        /// Its name.
        job: String,
        /// Its condition.
        condition: JobCondition,
        /// The end in one sentence.
        message: String,
    },
    /// Nothing, and why.
    Nothing {
        /// The reason.
        message: String,
    },
}

/// Returns the looks of each analysis, in their order, by its name.
#[must_use]
pub fn by_analysis(measurements: &[Measurement]) -> BTreeMap<&str, Vec<&Measurement>> {
    let mut looks: BTreeMap<&str, Vec<&Measurement>> = BTreeMap::new();
    for look in measurements {
        looks.entry(&look.analysis).or_default().push(look);
    }
    looks
}

impl Measurement {
    /// Returns the numbers of the look, for people.
    #[must_use]
    pub fn numbers(&self) -> String {
        match &self.measured {
            Measured::Answers(PodAnswers { new, old }) => {
                let shown = |name: &str, number: Option<f64>| {
                    number.map(|number| ratio_for_people(name, number)).unwrap_or_default()
                };
                let (evidence, proof) = (shown("evidence", self.evidence), shown("proof", self.proof));
                let of = |sums: &AnswerSums| format!("{} bad of {}", rounded(sums.bad), rounded(sums.total));
                format!("{} new, {} old{evidence}{proof}", of(new), of(old))
            }
            Measured::Value { value, requests: Some(requests) } => {
                format!("{}, of {} requests", rounded(*value), rounded(*requests))
            }
            Measured::Value { value, requests: None } => rounded(*value),
            Measured::Job { message, .. } | Measured::Nothing { message } => message.clone(),
        }
    }
}

fn ratio_for_people(name: &str, ratio: f64) -> String {
    if ratio < 1e6 { format!(", {name} {ratio:.2}") } else { format!(", {name} {ratio:.0e}") }
}

impl Measured {
    /// Returns why numbers say nothing.
    #[must_use]
    pub(super) fn nothing(&self) -> String {
        match self {
            Measured::Job { message, .. } | Measured::Nothing { message } => message.clone(),
            Measured::Value { requests, .. } => {
                format!("there were only {} requests", rounded(requests.unwrap_or_default()))
            }
            Measured::Answers(PodAnswers { new, .. }) if new.total <= 0.0 => {
                "the new pods have answered no request".to_owned()
            }
            Measured::Answers(PodAnswers { old, .. }) if old.total <= 0.0 => {
                "the old pods have answered no request".to_owned()
            }
            Measured::Answers(_) => "the new pods have answered too few requests".to_owned(),
        }
    }
}

/// One look of an analysis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// The name of the analysis.
    pub analysis: String,
    /// The hash of its queries: numbers of others say nothing about these.
    pub queries: String,
    /// When it looked.
    pub at: Timestamp,
    /// The verdict of this look.
    pub verdict: AnalysisVerdict,
    /// The rule.
    pub rule: AnalysisRule,
    /// The numbers.
    #[serde(flatten)]
    pub measured: Measured,
    /// The evidence that the new pods are worse than is tolerated, of all looks until then; the version is bad from
    /// `1 / false_alarm` on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<f64>,
    /// The proof that the new pods are not `prove` times worse, of all looks until then; it is proved from `1 / false_alarm` on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<f64>,
    /// The step of the canary in which it looked; absent within the bake time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
}
