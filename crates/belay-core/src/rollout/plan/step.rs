//! The steps of a plan, one for each object, in the order in which they are taken.

use serde_json::Value;

use super::Wanted;
use super::body::{TemplateMarks, body};
use super::diff::Change;
use super::order::{Rank, rank};
use crate::manifest::{Compact, Complaint};
use crate::rollout::{Baseline, CommitId, Hold, Reason, ReasonCode, Trigger, Workload};

/// The step for one object.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanStep {
    /// Send its manifest.
    Apply(Apply),
    /// Watch the rollout that is under way, from its baseline.
    Resume(Baseline),
    /// Go back: the rollout failed before a restart, or the manifest is held and that was not through.
    RollBack {
        /// The reason of the failure.
        reason: Reason,
        /// The baseline of the write that went back; `None` if it was not made, or not known to be.
        written: Option<Baseline>,
    },
    /// Delete the object: its manifest has left the repository.
    Prune,
    /// Nothing yet: it waits for something that is not there.
    Wait(Reason),
    /// Nothing: the object is as the manifest says.
    Unchanged,
    /// Nothing: the manifest is held.
    Held(Hold),
    /// Nothing: somebody asked to leave the object alone, and why.
    Suspended(String),
    /// Nothing: the API server refuses it, or belay does; with the complaints, at their places.
    Rejected(Reason, Vec<Complaint>),
}

impl PlanStep {
    /// Returns true when a rollout performs it: something is written, or watched.
    #[must_use]
    pub fn is_carried_through(&self) -> bool {
        matches!(self, PlanStep::Apply(_) | PlanStep::Resume(_) | PlanStep::RollBack { .. } | PlanStep::Prune)
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// The body that is sent.
    pub body: Compact,
    /// True when the object is new.
    pub creates: bool,
    /// True when the pod template changes, so that there is a rollout.
    pub rolls_out: bool,
    /// True when the number of pods of the present template changes (`replicas`, a StatefulSet's partition), so that
    /// there is something to wait for, though no template to go back to.
    pub scales: bool,
    /// True when the manifest is held: the body repeats the hold.
    pub keeps_hold: bool,
    /// True when it restores the held template of a workload whose manifest is held.
    pub restores_held: bool,
    /// True when it was first created by `kubectl apply`, whose fields are to be written over to belay before; see
    /// [`crate::rollout::ownership::takeover`].
    pub takes_over: bool,
    /// True when somebody may have rolled the object back by hand, which is respected: it is read before anything is
    /// sent.
    pub respects_undo: bool,
    /// The changes; empty for a new object.
    pub changes: Vec<Change>,
}

impl Apply {
    /// Returns a write of which nothing else is known.
    #[must_use]
    pub fn of(body: Compact) -> Apply {
        Apply {
            body,
            creates: false,
            rolls_out: false,
            scales: false,
            keeps_hold: false,
            restores_held: false,
            takes_over: false,
            respects_undo: false,
            changes: Vec::new(),
        }
    }

    /// Returns the write of a whole manifest, whatever is live: for an object whose rollout goes on, that goes back or
    /// is created again.
    #[must_use]
    pub fn of_manifest(wanted: &Wanted, source: &str) -> Apply {
        let is_workload = Workload::of(&wanted.key).is_some();
        let marks = if is_workload { TemplateMarks::of(&wanted.commit) } else { TemplateMarks::default() };
        let body: Value = body(&wanted.value(), source, &marks, None);
        Apply { rolls_out: is_workload, ..Apply::of(Compact::of(&body)) }
    }

    /// Returns true when it puts another pod template in the place of a live one.
    #[must_use]
    pub fn replaces_template(&self) -> bool {
        self.rolls_out && !self.creates
    }

    /// Returns true when somebody else has given the object another pod template than its own.
    #[must_use]
    pub fn corrects_template(&self) -> bool {
        self.replaces_template() || self.restores_held
    }
}

/// One manifest and its step.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The manifest.
    pub wanted: Wanted,
    /// The step.
    pub step: PlanStep,
}

impl Planned {
    /// Returns the place in the order.
    #[must_use]
    pub fn rank(&self) -> Rank {
        rank(&self.wanted.key)
    }
}

/// The finished list of steps for one commit of a source, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The source.
    pub source: String,
    /// The commit that was planned.
    pub head: CommitId,
    /// The steps, by rank, then by object.
    pub planned: Vec<Planned>,
}

impl Plan {
    /// Orders the steps.
    #[must_use]
    pub fn new(source: String, head: CommitId, mut planned: Vec<Planned>) -> Plan {
        planned.sort_by(|one, other| {
            let place = |planned: &Planned| (planned.rank(), planned.wanted.key.clone());
            place(one).cmp(&place(other))
        });
        Plan { source, head, planned }
    }

    /// Returns true when it changes nothing, now or as soon as what its objects wait for is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let changes = |step: &PlanStep| matches!(step, PlanStep::Apply(_) | PlanStep::Prune | PlanStep::Wait(_));
        !self.planned.iter().any(|planned| changes(&planned.step))
    }
}

/// Returns why a manifest is not applied: it is held. The reason names another failed commit, if this one has gone back
/// to its manifest.
#[must_use]
pub fn held_reason(hold: &Hold, commit: &CommitId, trigger: &Trigger) -> Reason {
    if hold.commit == *commit || !trigger.is_commit() {
        return Reason::new(ReasonCode::Held, hold.reason.clone());
    }
    let message = format!("back to what failed in {}: held: {}", hold.commit.short(), hold.reason);
    Reason::new(ReasonCode::HeldAgain, message)
}
