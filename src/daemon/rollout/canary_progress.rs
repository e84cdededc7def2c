//! The canary of a rollout: its steps, the one that is under way, and the bodies that are sent.

use belay_core::manifest::Compact;
use belay_core::rollout::canary::{CanaryKind, CanaryLock, CanaryStep, CanarySteps};

/// The canary of a rollout.
pub struct CanaryProgress {
    pub steps: CanarySteps,
    /// The locks of the step that is under way.
    pub lock: CanaryLock,
    /// The body that is sent after the last step.
    pub whole: Compact,
}

impl CanaryProgress {
    /// Returns the canary at a step of a workload that is to have so many pods.
    pub fn at(kind: CanaryKind, steps: CanarySteps, step: usize, replicas: i64, whole: Compact) -> CanaryProgress {
        CanaryProgress { lock: CanaryLock::of_step(kind, &steps, step, replicas), steps, whole }
    }

    /// Returns the body of the step.
    pub fn body(&self) -> Compact {
        Compact::of(&self.lock.onto(self.whole.read()))
    }

    /// Returns the step; `None` where a newer manifest has fewer steps.
    pub fn step(&self) -> Option<CanaryStep> {
        self.steps.step(self.lock.mark.step)
    }

    /// Returns the words for the step: `step 1 of 2`.
    pub fn words(&self) -> String {
        self.lock.mark.words()
    }

    /// Returns the time for which the ready pods of the step are watched, in words.
    pub fn watched(&self) -> String {
        match self.step().and_then(|step| step.time) {
            Some(time) => format!("{}, watched for {time}", self.words()),
            None => format!("{}, watched until a person promotes it", self.words()),
        }
    }
}
