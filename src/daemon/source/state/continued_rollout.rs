//! A rollout that goes on under a newer commit: one that was under way when a commit came that leaves the pod template alone
//! is judged on as that commit's. Else a broken template would stay because of a change beside it.

use super::known::State;
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::rollout::kinds::driver::WorkloadDriver;
use belay_core::rollout::{PlanStep, Trigger};

impl State {
    /// Notes on planned objects that they take the place of a rollout, or of a change of size, that was under way.
    pub fn note_continued(&self, prepared: &mut Prepared) {
        prepared.continues_rollout = self.continues_rollout(prepared);
        prepared.continues_scaling = self.continues_scaling(prepared);
        if let PlanStep::Apply(apply) = &mut prepared.planned.step {
            apply.scales |= prepared.continues_scaling;
        }
    }

    /// Returns true when the plan for a workload takes the place of a rollout that was under way, here or, before a
    /// restart or a move, elsewhere. If belay replaces the pods, the rollout itself finds out how far it is.
    fn continues_rollout(&self, prepared: &Prepared) -> bool {
        let key = &prepared.planned.wanted.key;
        if prepared.live.is_none() || WorkloadDriver::of_object(key).replaces_pods() {
            return false;
        }
        let known =
            self.planning.was_interrupted(key) || self.rollouts.resumed(key).is_some_and(|record| record.rolls_out);
        let settled = prepared.live.as_ref().is_some_and(|live| live.settled);
        let was_suspended = prepared.recorded.was_suspended();
        let goes_on = !prepared.recorded.has_ended && !settled;
        known || prepared.is_unfinished(&self.settings.source) && (was_suspended || goes_on || self.releases(prepared))
    }

    fn has_hold(&self, prepared: &Prepared) -> bool {
        self.live.hold(&prepared.planned.wanted.key).is_some()
    }

    /// Returns true when a plan takes the hold off a workload: its manifest is not complete before the workload is.
    fn releases(&self, prepared: &Prepared) -> bool {
        self.has_hold(prepared)
            && matches!(&prepared.planned.step, PlanStep::Apply(apply) if !apply.keeps_hold && !apply.rolls_out)
    }

    /// Returns true when the plan for a workload takes the place of a change of its number of pods that was under way.
    fn continues_scaling(&self, prepared: &Prepared) -> bool {
        let key = &prepared.planned.wanted.key;
        let was_scaling = prepared.recorded.applied.as_ref().is_some_and(|baseline| baseline.only_size);
        self.planning.was_scaling_interrupted(key) || self.rollouts.resumed(key).is_some() && was_scaling
    }

    /// Returns true when the present template of a workload is judged although nothing of it changes: somebody has
    /// removed its hold, brought the failed template back, or resumed a rollout that was suspended before its end.
    pub fn is_to_be_judged(&self, prepared: &Prepared) -> bool {
        let wanted = &prepared.planned.wanted;
        // A held object has gone back already. One that a person took back stays so, though the cluster has lost the hold:
        // nobody judges whether what that person chose is complete.
        let stays_undone = prepared.keeps_hold() && prepared.recorded.was_undone;
        let held = stays_undone || self.has_hold(prepared);
        // One that has become complete while it was suspended has no end in the books yet.
        let unfinished = prepared.is_unfinished(&self.settings.source) || prepared.recorded.was_suspended();
        let is_left_canary =
            prepared.recorded.is_left_failed && prepared.live.as_ref().is_some_and(|live| live.canary.is_some());
        if held || !unfinished || is_left_canary || WorkloadDriver::of_object(&wanted.key).replaces_pods() {
            return false;
        }
        !matches!(wanted.trigger, Trigger::Drift(_)) || prepared.recorded.was_broken_off()
    }
}
