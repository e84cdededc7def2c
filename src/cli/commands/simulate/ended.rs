//! The end of a rollout, and of its rollback.

use std::time::Duration;

use serde_json::Value;

use belay_core::rollout::Reason;

/// The end of the rollout.
#[derive(Clone, Debug)]
pub(super) enum SimulationEnd {
    /// It was complete.
    Complete { at: Duration },
    /// It failed; belay takes it back, if it has something to go back to.
    Failed {
        at: Duration,
        reason: Reason,
        /// The workload's own condition then: `Progressing=False, ProgressDeadlineExceeded`.
        condition: Option<String>,
    },
    /// It did not get on, for a reason that is not the workload's; belay would wait and say so.
    Stuck { at: Duration, reason: Reason },
    /// It was watched long enough.
    Unfinished { at: Duration },
}

impl SimulationEnd {
    /// Returns when it was over.
    pub(super) fn at(&self) -> Duration {
        match self {
            SimulationEnd::Complete { at }
            | SimulationEnd::Failed { at, .. }
            | SimulationEnd::Stuck { at, .. }
            | SimulationEnd::Unfinished { at } => *at,
        }
    }
}

/// The rollback of a failed rollout.
#[derive(Clone, Debug)]
pub(super) struct Back {
    /// When the way back began.
    pub began: Duration,
    /// The workload right after that.
    pub written: Value,
    /// The revision that it goes back to, by the number that it had.
    pub revision: Option<i64>,
    /// The end of the rollback.
    pub end: SimulationEnd,
}

/// Returns the condition by which a workload says that it does not get on.
pub(super) fn failed_condition(live: &Value) -> Option<String> {
    let conditions = live["status"]["conditions"].as_array()?;
    let failed =
        conditions.iter().find(|condition| condition["type"] == "Progressing" && condition["status"] == "False")?;
    Some(format!("Progressing=False, {}", failed["reason"].as_str().unwrap_or_default()))
}
