//! A rollout that goes on under a newer commit: one that was under way when a commit came that leaves the pod template alone
//! is judged on as that commit's. Else a broken template would stay because of a change beside it.

use tracing::warn;

use super::context::Context;
use super::driver::WorkloadDriver;
use super::planner::{Prepared, Standing};
use super::state::Source;
use crate::history::{JudgedWrite, Query};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, Record, Trigger};

/// How many records of a workload are looked through for its last rollout.
const RECORDS: u32 = 50;

impl Source {
    /// Whether what is planned for a workload takes the place of a rollout that was under way, here or, before a restart or
    /// a move, elsewhere. Where belay replaces the pods, the rollout finds by itself where it is.
    pub(super) fn carries_on(&self, prepared: &Prepared) -> bool {
        let key = &prepared.planned.wanted.key;
        let Some(standing) = &prepared.standing else { return false };
        if WorkloadDriver::of_object(key).replaces_pods() {
            return false;
        }
        let known = self.planning.interrupted.contains(key)
            || self.rollouts.resumed.get(key).is_some_and(|record| record.rolls_out);
        known || (self.is_unfinished(prepared, standing) && !self.has_ruled(key))
    }

    /// Whether what is planned for a workload takes the place of a change of its number of pods that was under way.
    pub(super) fn scales_on(&self, prepared: &Prepared) -> bool {
        let key = &prepared.planned.wanted.key;
        self.planning.interrupted_scaling.contains(key)
            || self.rollouts.resumed.get(key).is_some_and(|record| self.was_scaling(record))
    }

    /// Whether a record that was open is of a change of the number of pods alone, and applied.
    pub(super) fn was_scaling(&self, record: &Record) -> bool {
        let applied = self.context.baseline(record.id, JudgedWrite::Applied);
        applied.is_some_and(|baseline| baseline.only_size)
    }

    /// Whether a template of this source is live and not complete.
    fn is_unfinished(&self, prepared: &Prepared, standing: &Standing) -> bool {
        let ours = prepared.owner.as_ref() == Some(&self.context.config.name);
        ours && standing.marked && !standing.complete
    }

    /// Whether the present template of a workload is judged although nothing of it is to be changed: somebody has let go of
    /// its hold, brought the template back that had failed, or resumed what was suspended before it was through.
    pub(super) fn is_to_be_judged(&self, prepared: &Prepared) -> bool {
        let wanted = &prepared.planned.wanted;
        let unfinished = prepared.standing.as_ref().is_some_and(|standing| self.is_unfinished(prepared, standing));
        // What is held has gone back already.
        let held = self.watches.live.get(&wanted.key).is_some_and(|facts| facts.hold.is_some());
        if held || !unfinished || WorkloadDriver::of_object(&wanted.key).replaces_pods() {
            return false;
        }
        !matches!(wanted.trigger, Trigger::Drift(_)) || self.context.was_broken_off(&wanted.key)
    }

    /// Whether the last rollout of a workload came to an end that was its own. One that a newer commit took the place of
    /// did not, nor did one of which the history knows nothing.
    fn has_ruled(&self, key: &ObjectKey) -> bool {
        let query = Query { limit: Some(RECORDS), ..Query::of(&self.context.config.name, key) };
        match self.context.history.records(&query) {
            Ok(records) => {
                let last = records.into_iter().find(|record| record.rolls_out && record.object == *key);
                last.is_some_and(|record| record.outcome.is_final() && record.outcome != Outcome::Superseded)
            }
            Err(error) => {
                warn!(object = %key, %error, "failed to ask the history whether a rollout is over; it is judged on");
                false
            }
        }
    }
}

impl Context {
    /// Whether the last that is known of a workload is that it went back, or was suspended. It blocks.
    pub(super) fn was_broken_off(&self, key: &ObjectKey) -> bool {
        let broken_off = [Outcome::RolledBack, Outcome::RollbackFailed, Outcome::Suspended];
        self.newest_record(key).is_some_and(|record| broken_off.contains(&record.outcome))
    }
}
