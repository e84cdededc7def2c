//! The baselines of rollouts: kept, so that a daemon that starts again judges by the same measure.

use jiff::Timestamp;

use belay_core::rollout::{BakeStart, Baseline, StepKind};

/// A write whose rollout is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgedWrite {
    /// The manifest was applied.
    Applied,
    /// The earlier template, and the hold.
    WentBack,
}

/// The baseline of a write's rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedBaseline {
    /// The write.
    pub of: JudgedWrite,
    /// When that was.
    pub at: Timestamp,
    /// The baseline after it.
    pub baseline: Baseline,
}

impl JudgedWrite {
    /// Returns the step that is recorded with it.
    #[must_use]
    pub fn step(self) -> StepKind {
        match self {
            JudgedWrite::Applied => StepKind::Applied,
            JudgedWrite::WentBack => StepKind::WentBack,
        }
    }
}

/// The bake time of a write's rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedBake {
    /// The write.
    pub of: JudgedWrite,
    /// Its beginning.
    pub start: BakeStart,
}
