//! The rule by which an analysis judges what it measures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rule by which an analysis judges what it measures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AnalysisRule {
    /// The error rate of the new pods is compared with that of the old ones.
    #[serde(rename_all = "camelCase")]
    ErrorRate {
        /// So many times the old error rate is harmless.
        tolerate: f64,
        /// The probability with which a harmless version may be stopped.
        false_alarm: f64,
        /// The answers of the new pods below which nothing is known.
        at_least: f64,
        /// A step of a canary ends early once it is proved that the new error rate is not so many times the old one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prove: Option<f64>,
    },
    /// A value has bounds.
    #[serde(rename_all = "camelCase")]
    Bounds {
        /// The least value.
        #[serde(skip_serializing_if = "Option::is_none")]
        min: Option<f64>,
        /// The largest value.
        #[serde(skip_serializing_if = "Option::is_none")]
        max: Option<f64>,
        /// The number of looks in a row that must be out of bounds.
        failures: u32,
        /// The requests below which a value says nothing.
        at_least: f64,
    },
    /// A Job of the repository decides.
    Job {
        /// Its end with which the version passes.
        job: JobCondition,
    },
}

/// The end of a Job, by the name of its condition in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum JobCondition {
    /// It is complete.
    Complete,
    /// It has failed.
    Failed,
}
