//! The history's facts about planned objects that decide which rollouts begin: read beside the loop, and handed over
//! with the plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tracing::warn;

use crate::daemon::repository::prepared::Prepared;
use crate::daemon::shared::context::Context;
use crate::daemon::shared::live::applied_at;
use crate::history::{JudgedWrite, Query};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{
    Outcome, PlanStep, ReasonCode, Record, RecordId, RecordedFacts, Trigger, has_settled, is_broken_off,
};

/// The number of records of a workload that are searched for its last rollout.
const RECORDS: u32 = 50;

impl Context {
    /// Asks the history for the necessary facts about these objects, of which some have open records.
    pub async fn with_recorded_facts(
        self: &Arc<Context>,
        mut prepared: Vec<Prepared>,
        open: BTreeMap<ObjectKey, RecordId>,
    ) -> Vec<Prepared> {
        let context = Arc::clone(self);
        let ask = move || {
            for one in &mut prepared {
                let open = open.get(&one.planned.wanted.key).copied();
                one.recorded = context.recorded_facts(one, open);
            }
            prepared
        };
        self.repository.blocking_pool.run(ask).await
    }

    /// Returns true when an open record is about a change of the number of pods alone, and was applied. It blocks.
    pub fn was_scaling(&self, record: &Record) -> bool {
        let applied = self.baseline(record.id, JudgedWrite::Applied);
        applied.is_some_and(|baseline| baseline.only_size)
    }

    /// Returns true when the newest record of a workload says that it was suspended, which it is no longer; or, unless it
    /// `is_through`, that it went back. It blocks.
    pub fn was_broken_off(&self, key: &ObjectKey, is_through: bool) -> bool {
        let newest = self.newest_record(key).map(|record| record.outcome);
        newest == Some(Outcome::Suspended) || !is_through && newest.is_some_and(is_broken_off)
    }

    fn recorded_facts(&self, prepared: &Prepared, open: Option<RecordId>) -> RecordedFacts {
        let wanted = &prepared.planned.wanted;
        let unfinished = prepared.is_unfinished(&self.config.name);
        let is_held = matches!(prepared.planned.step, PlanStep::Held(_));
        let asks = unfinished || is_held || wanted.trigger == Trigger::Retry;
        let newest = asks.then(|| self.newest_record(&wanted.key)).flatten();
        let was_undone = newest.as_ref().is_some_and(|newest| {
            newest.outcome == Outcome::RolledBack
                && newest.reason.as_ref().is_some_and(|reason| reason.code == ReasonCode::UndoneByHand)
        });
        let was_suspended = newest.as_ref().is_some_and(|newest| newest.outcome == Outcome::Suspended);
        let canary = prepared.live.as_ref().and_then(|live| live.canary);
        let last = (unfinished || canary.is_some()).then(|| self.last_rollout(&wanted.key)).flatten();
        // A canary whose way back was refused stays at its step.
        let is_left = |last: &Record| {
            let outcome = last.outcome;
            (outcome == Outcome::Failed || canary.is_some() && outcome == Outcome::RollbackFailed)
                && last.manifest_hash.as_ref() == Some(&wanted.hash)
        };
        let is_left_failed = wanted.trigger != Trigger::Retry
            && (canary.is_some_and(|mark| mark.failed) || last.as_ref().is_some_and(is_left));
        RecordedFacts {
            newest: newest.map(|record| (record.outcome, record.started)),
            was_undone,
            has_ended: last
                .filter(|_| unfinished)
                .is_some_and(|last| last.outcome.is_final() && last.outcome != Outcome::Superseded),
            is_left_failed,
            applied: open.and_then(|record| self.baseline(record, JudgedWrite::Applied)),
            went_back: open.and_then(|record| self.baseline(record, JudgedWrite::WentBack)),
            // One that was suspended meanwhile goes back with its commit as soon as it is taken up again.
            commit_failed: (open.is_some() && wanted.trigger.is_commit() || was_suspended)
                .then(|| self.failure_of(&wanted.commit.id))
                .flatten(),
        }
    }

    /// Returns true when the rollout of a live workload's template was over long ago.
    pub fn has_settled(&self, key: &ObjectKey, live: &Value) -> bool {
        let limit = self.config.outage_timeout.signed();
        has_settled(key, live, applied_at(live), self.clock.now(), limit)
    }

    fn last_rollout(&self, key: &ObjectKey) -> Option<Record> {
        let query = Query { limit: Some(RECORDS), ..Query::of(&self.config.name, key) };
        match self.history.records(&query) {
            Ok(records) => records.into_iter().find(|record| record.rolls_out && record.object == *key),
            Err(error) => {
                warn!(object = %key, %error, "failed to ask the history whether a rollout is over; it is judged on");
                None
            }
        }
    }
}
