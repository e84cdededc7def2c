//! Where a rollout is taken up, and how it ended.

use super::queued_events::QueuedEvent;
use belay_core::manifest::Compact;
use belay_core::rollout::{Apply, Baseline, LeftAlone, Outcome, Reason, TemplateMarks, Wanted, Workload, body};

/// What a workload was seen to be: exactly as it was applied, and complete.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InSync {
    /// The live object's digest.
    pub digest: u64,
    /// The hash of the manifest.
    pub hash: String,
    /// What was left alone of it.
    pub left_alone: LeftAlone,
}

/// Where a rollout is taken up.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) enum ResumePoint {
    /// It begins.
    #[default]
    Fresh,
    /// Somebody else has changed the object: perhaps taken it back by hand, which is respected.
    Drifted,
    /// It was applied before a restart, and is watched since.
    UnderWay(Baseline),
    /// It had failed before a restart, and was on its way back: whether the write that goes back was made.
    GoingBack {
        /// Why it failed.
        reason: Reason,
        /// The baseline of the write that went back; `None` where it was not made, or not known to be.
        went: Option<Baseline>,
    },
    /// Its manifest has left the repository: it is deleted.
    Prune,
}

/// How a rollout ended, and what else its source is to know of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RolloutEnd {
    pub end: End,
    pub findings: Findings,
}

/// What a rollout has found out by its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Findings {
    /// What is to be told of it.
    pub told: Option<QueuedEvent>,
    /// What the object is known to be.
    pub well: Option<InSync>,
}

/// How a rollout ended, for the source that began it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Its record is final.
    Recorded(Outcome),
    /// It was told to stop; its record is open.
    Stopped,
    /// It panicked, which is belay's own fault; its record is open.
    Fault(String),
}

/// What would be sent for a rollout that is taken up again.
pub(super) fn resumed_apply(wanted: &Wanted, source: &str) -> Apply {
    let marks = TemplateMarks::of(&wanted.commit);
    let marks = if Workload::of(&wanted.key).is_some() { marks } else { TemplateMarks::default() };
    let body = body(&wanted.value(), source, &marks, None);
    let rolls_out = Workload::of(&wanted.key).is_some();
    let (creates, scales, restores_held, takes_over, changes) = (false, false, false, false, Vec::new());
    Apply { body: Compact::of(&body), creates, rolls_out, scales, restores_held, takes_over, changes }
}
