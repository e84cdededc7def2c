//! A rollout that failed: what is to be taken back, and how it ends where that can't be.

use serde_json::Value;
use tracing::warn;

use super::rollout_task::{Cancelled, RolloutTask};
use crate::cluster::{EventKind, Scene};
use belay_core::rollout::{Baseline, Evidence, Outcome, Reason};

/// A failed rollout that is to be taken back.
pub(super) struct TakeBack {
    /// Why it failed.
    pub reason: Reason,
    /// What was to be seen; `None` where it was saved before a restart.
    pub scene: Option<Box<Scene>>,
    /// The baseline of the write that went back, where it was made before a restart.
    pub went: Option<Baseline>,
}

/// Ends a rollout that failed and is left as it is.
pub(super) async fn fail(work: &mut RolloutTask, live: &Value, reason: Reason) -> Result<Outcome, Cancelled> {
    let key = work.planned.wanted.key.clone();
    let message = format!("{}: {reason}", work.planned.wanted.commit.change_cause());
    work.context.tell(&key, live, EventKind::Warning, "RolloutFailed", message);
    work.end(Outcome::Failed, Some(reason)).await
}

/// Ends a rollout whose rollback failed, too.
pub(super) async fn rollback_failed(
    work: &mut RolloutTask,
    live: &Value,
    reason: Reason,
) -> Result<Outcome, Cancelled> {
    let key = work.planned.wanted.key.clone();
    warn!(object = %key, %reason, "the rollback failed");
    work.context.tell(&key, live, EventKind::Warning, "RollbackFailed", reason.message.clone());
    work.end(Outcome::RollbackFailed, Some(reason)).await
}

/// What was seen when it failed, as it is recorded.
pub(super) fn evidence_so_far(work: &RolloutTask) -> Evidence {
    let record = work.context.history.record(work.record).ok().flatten();
    record.and_then(|record| record.evidence).unwrap_or_default()
}

/// What was to be seen of the failed rollout, and of the failed way back.
pub(super) fn both(mut first: Evidence, second: Evidence) -> Evidence {
    let back = |line: String| format!("on the way back: {line}");
    first.conditions.extend(second.conditions.into_iter().map(back));
    first.pods.extend(second.pods.into_iter().map(|mut pod| {
        pod.message = back(pod.message).trim_end_matches(": ").to_owned();
        pod
    }));
    first.events.extend(second.events.into_iter().filter(|event| !first.events.contains(event)).collect::<Vec<_>>());
    first.missing.extend(second.missing.into_iter().map(back));
    first
}
