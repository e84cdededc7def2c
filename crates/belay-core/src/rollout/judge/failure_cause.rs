//! The cause of a failed rollout, as it is counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fail_fast::is_given_up_for;
use crate::rollout::ReasonCode;

/// The cause of a failed rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureCause {
    /// It made no progress within its deadline.
    Deadline,
    /// Its pods could not start or crashed, and it was given up before its deadline.
    Crash,
    /// Its pods failed within its bake time.
    Bake,
    /// Its pods failed within a step of its canary.
    Canary,
    /// An analysis has shown that it is bad.
    Analysis,
    /// A person took it back.
    ByHand,
    /// Another object of its commit failed.
    Commit,
    /// Anything else, like a fault of the infrastructure that lasted.
    Other,
}

impl FailureCause {
    /// Returns the cause that a reason stands for.
    #[must_use]
    pub fn of(code: &ReasonCode) -> FailureCause {
        match code {
            ReasonCode::ProgressDeadlineExceeded => FailureCause::Deadline,
            ReasonCode::BakeFailed => FailureCause::Bake,
            ReasonCode::CanaryFailed => FailureCause::Canary,
            ReasonCode::AnalysisFailed => FailureCause::Analysis,
            ReasonCode::UndoneByHand => FailureCause::ByHand,
            ReasonCode::CommitFailed => FailureCause::Commit,
            code if is_given_up_for(code.as_str()) => FailureCause::Crash,
            _ => FailureCause::Other,
        }
    }

    /// Returns the word, the same for people and programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            FailureCause::Deadline => "deadline",
            FailureCause::Crash => "crash",
            FailureCause::Bake => "bake",
            FailureCause::Canary => "canary",
            FailureCause::Analysis => "analysis",
            FailureCause::ByHand => "by-hand",
            FailureCause::Commit => "commit",
            FailureCause::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_counts_for_one_cause() {
        for (code, cause) in [
            ("ProgressDeadlineExceeded", FailureCause::Deadline),
            ("CrashLoopBackOff", FailureCause::Crash),
            ("ImagePullBackOff", FailureCause::Crash),
            ("InvalidImageName", FailureCause::Crash),
            ("BakeFailed", FailureCause::Bake),
            ("CanaryFailed", FailureCause::Canary),
            ("AnalysisFailed", FailureCause::Analysis),
            ("UndoneByHand", FailureCause::ByHand),
            ("CommitFailed", FailureCause::Commit),
            ("NodeNotReady", FailureCause::Other),
            ("Forbidden", FailureCause::Other),
            ("SomethingNew", FailureCause::Other),
        ] {
            assert_eq!(FailureCause::of(&code.into()), cause, "{code}");
        }
        let json = serde_json::to_value(FailureCause::ByHand).unwrap();
        assert_eq!(json, FailureCause::ByHand.word());
    }
}
