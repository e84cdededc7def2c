//! A rollout that failed: the known facts, and its end.

use serde_json::Value;
use tracing::warn;

use crate::cluster::{ClusterError, EventKind, ObservedWorkload};
use crate::daemon::publish::queued_events::about;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutTask};
use belay_core::rollout::rollback::{Rollback, RollbackKind};
use belay_core::rollout::{Baseline, Evidence, Outcome, Reason, ReasonCode};

/// The number of times that others may change or delete it during a rollback before the rollback fails.
pub const DISTURBANCES: usize = 8;

/// The reason of a hold that is in no answer to its write.
pub const HOLD_NOT_KEPT: &str = "the API server answered that the hold is written, but did not keep the hold; a webhook or a proxy may be in between";

/// A rollout that failed, and that is rolled back if that is wanted.
pub struct FailedRollout {
    /// The reason of the failure.
    pub reason: Reason,
    /// The observed workload; `None` if it was saved before a restart.
    pub observed: Option<Box<ObservedWorkload>>,
    /// The baseline of the write that went back, if it was made before a restart.
    pub written: Option<Baseline>,
}

/// The end of a failed rollout.
pub struct RollbackEnd {
    outcome: Outcome,
    reason: Reason,
    event: Option<ToldEnd>,
}

/// The content of the Event about it.
struct ToldEnd {
    /// The fields of the object that identify it in an Event.
    live: Value,
    reason: &'static str,
    message: String,
}

impl RollbackEnd {
    /// Returns the end of a rollout that failed, or is back, without an Event.
    pub fn untold(outcome: Outcome, reason: Reason) -> RollbackEnd {
        RollbackEnd { outcome, reason, event: None }
    }

    /// Returns the end of a rollout that somebody asked to leave alone: it rests until it is taken up again.
    pub fn suspended(why: String) -> RollbackEnd {
        RollbackEnd::untold(Outcome::Suspended, Reason::new(ReasonCode::Suspended, why))
    }

    /// Returns the end of a rollout that failed, and is left as it is.
    pub fn stays(work: &RolloutTask, reason: Reason, live: &Value) -> RollbackEnd {
        let message = format!("{}: {reason}", work.planned.wanted.commit.change_cause());
        let event = Some(ToldEnd { live: about(live), reason: "RolloutFailed", message });
        RollbackEnd { outcome: Outcome::Failed, reason, event }
    }

    /// Returns the end of a rollout that is back.
    pub fn back(work: &RolloutTask, to: &str, reason: Reason, live: &Value) -> RollbackEnd {
        let message = format!("back on {to}; {} is held: {reason}", work.planned.wanted.commit.change_cause());
        let event = Some(ToldEnd { live: about(live), reason: "RolledBack", message });
        RollbackEnd { outcome: Outcome::RolledBack, reason, event }
    }

    /// Returns the end of a rollout that is back, and whose hold somebody has taken off meanwhile: it is tried again.
    pub fn released(reason: Reason) -> RollbackEnd {
        RollbackEnd::untold(Outcome::RolledBack, reason.and("somebody asked for another try on the way back"))
    }

    /// Returns the end of a rollout that a person has undone.
    pub fn undone(reason: Reason, live: &Value) -> RollbackEnd {
        let event = Some(ToldEnd { live: about(live), reason: "UndoneByHand", message: reason.message.clone() });
        RollbackEnd { outcome: Outcome::RolledBack, reason, event }
    }

    /// Returns the end of a rollout whose rollback failed, too.
    pub fn failed_too(reason: Reason, live: &Value) -> RollbackEnd {
        let event = Some(ToldEnd { live: about(live), reason: "RollbackFailed", message: reason.message.clone() });
        RollbackEnd { outcome: Outcome::RollbackFailed, reason, event }
    }

    /// Returns the end of a rollout that is back, and whose hold the server did not keep.
    pub fn hold_not_kept(reason: Reason, live: &Value) -> RollbackEnd {
        RollbackEnd::failed_too(reason.and(HOLD_NOT_KEPT), live)
    }

    /// Returns the end of a rollout whose rollback the server refuses.
    pub fn refused(reason: Reason, error: &str, live: &Value) -> RollbackEnd {
        RollbackEnd::failed_too(reason.and(format!("the way back was refused: {error}")), live)
    }

    /// Returns the end of a rollout whose rollback the server refused to write.
    pub fn refused_write(rollback: Rollback, error: &ClusterError, live: &Value) -> RollbackEnd {
        match rollback.kind {
            RollbackKind::ByHand => {
                RollbackEnd::failed_too(rollback.reason.and(format!("the hold was refused: {error}")), live)
            }
            RollbackKind::Workload | RollbackKind::Configuration => {
                RollbackEnd::refused(rollback.reason, &error.to_string(), live)
            }
        }
    }

    /// Returns true when the failed version stays live.
    pub fn leaves_it(&self) -> bool {
        matches!(self.outcome, Outcome::Failed | Outcome::RollbackFailed)
    }

    /// Tells it, and ends the record.
    pub async fn conclude(self, work: &RolloutTask) -> Result<Outcome, Cancelled> {
        let RollbackEnd { outcome, reason, event } = self;
        let key = &work.planned.wanted.key;
        if let Some(ToldEnd { live, reason: about, message }) = event {
            if outcome == Outcome::RollbackFailed {
                warn!(object = %key, %reason, "the rollback failed");
            }
            work.context.tell(key, &live, EventKind::Warning, about, message);
        }
        work.end(outcome, Some(reason)).await
    }
}

/// Adds the observations of a failed rollback to the evidence of the failed rollout.
pub async fn save_second_evidence(work: &RolloutTask, why: &Reason, second: Evidence) {
    let record = work.context.history.record(work.record).ok().flatten();
    let first = record.and_then(|record| record.evidence).unwrap_or_default();
    work.context.save_evidence(work.record, why, &both(first, second)).await;
}

/// Returns the evidence of the failed rollout together with that of the failed rollback.
fn both(mut first: Evidence, second: Evidence) -> Evidence {
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
