//! The ends of records that need no rollout.

use std::sync::Arc;

use tracing::{debug, error, warn};

use super::state::Source;
use super::task_result::TaskResult;
use crate::daemon::repository::prepared::Prepared;
use crate::history::{HistoryEntry, HistoryError};
use belay_core::rollout::{CommitId, Outcome, PlanStep, Reason, ReasonCode, Record, RecordId, held_reason};

impl Source {
    /// Ends a record that needs no rollout.
    pub fn finish(&mut self, id: RecordId, outcome: Outcome, reason: Option<&Reason>) {
        self.finish_all(vec![RecordEnd { id, outcome, reason: reason.cloned() }]);
    }

    /// Ends records that need no rollout, in one transaction.
    pub fn finish_all(&mut self, ends: Vec<RecordEnd>) {
        if ends.is_empty() {
            return;
        }
        let at = self.context.clock.now();
        let entry = |end: &RecordEnd| HistoryEntry::End(end.id, end.outcome, end.reason.clone(), at);
        let entries: Vec<HistoryEntry> = ends.iter().map(entry).collect();
        let Some(written) = self.context.enter_or_owe(entries) else {
            let context = Arc::clone(&self.context);
            self.tasks.spawn(async move {
                context.until_nothing_is_owed().await;
                TaskResult::EndsWritten(ends.iter().map(|end| (end.id, end.outcome)).collect())
            });
            return;
        };
        for (end, written) in ends.iter().zip(written) {
            match written {
                Ok(()) => self.context.publish_end(self.state.desired(), end.id, end.outcome),
                // A plan that is made once more, for a mirror that was lost, has the records that it had before.
                Err(HistoryError::Ended { outcome, .. })
                    if outcome == end.outcome || outcome.is_good() && end.outcome.is_good() =>
                {
                    debug!(record = end.id.0, %outcome, "had ended before");
                }
                Err(error) => error!(%error, "failed to end a record"),
            }
        }
    }

    /// Ends the record of a rollout that a newer commit, or belay's own start, has replaced. At shutdown (`by` is
    /// `None`) it stays open, to be taken up.
    pub fn supersede(&mut self, id: RecordId, by: Option<&CommitId>) {
        let Some(by) = by else { return };
        let record = self.context.history.record(id).unwrap_or_else(|error| {
            warn!(%error, "failed to read what a newer commit has taken the place of");
            None
        });
        let end = record.as_ref().map(|record| record.superseded(by));
        let (outcome, reason) = end.unwrap_or_else(|| (Outcome::Superseded, superseded_by(by)));
        self.finish(id, outcome, Some(&reason));
        if let Some(record) = record.filter(|_| outcome == Outcome::Failed) {
            self.context.status.rollout_ended(record.trigger.word(), outcome, None);
        }
    }
}

/// The end of a record that needs no rollout.
pub struct RecordEnd {
    pub id: RecordId,
    pub outcome: Outcome,
    pub reason: Option<Reason>,
}

/// Returns the end of a record for an object that needs no action.
pub fn end_of(id: RecordId, open: Option<&Record>, prepared: &Prepared) -> RecordEnd {
    let wanted = &prepared.planned.wanted;
    let (outcome, reason) = match &prepared.planned.step {
        PlanStep::Held(hold) if open.is_some() && hold.by.is_some() => {
            (Outcome::RolledBack, Some(Reason::new(ReasonCode::UndoneByHand, hold.reason.clone())))
        }
        PlanStep::Held(hold) => (Outcome::Held, Some(held_reason(hold, &wanted.commit.id, &wanted.trigger))),
        PlanStep::Suspended(why) => (Outcome::Suspended, Some(Reason::new(ReasonCode::Suspended, why.clone()))),
        PlanStep::Rejected(reason, _) if reason.code == ReasonCode::PruneRefused => {
            (Outcome::Orphaned, Some(reason.clone()))
        }
        PlanStep::Rejected(reason, _) => (Outcome::Rejected, Some(reason.clone())),
        _ if open.is_some_and(|record| record.was_applied(prepared.applied)) => (Outcome::Complete, None),
        _ => (Outcome::Unchanged, None),
    };
    RecordEnd { id, outcome, reason }
}

/// Returns the reason of an end by a newer commit.
pub fn superseded_by(commit: &CommitId) -> Reason {
    Reason::new(ReasonCode::Superseded, format!("commit {} took its place", commit.short()))
}
