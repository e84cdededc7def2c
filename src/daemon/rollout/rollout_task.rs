//! One rollout: its subject, and the steps that are common to all of its parts.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::apply_wave::WaveTurn;
use super::canary_progress::CanaryProgress;
use super::patience::Patience;
use crate::cluster::Served;
use crate::daemon::publish::dispute::PastCorrections;
use crate::daemon::shared::context::Context;
use crate::daemon::shared::rollout_slots::RolloutSlot;
use belay_core::manifest::Compact;
use belay_core::rollout::{Apply, Baseline, Outcome, Planned, Reason, ReasonCode, RecordId, StepKind, marks};

pub use super::rollout_end::{End, Findings, InSync, RolloutEnd};

/// The object as the watch sees it: `None` until it has, or when it is gone.
pub type LiveObject = watch::Receiver<Option<Compact>>;

/// One rollout to be carried through.
pub struct RolloutTask {
    pub context: Arc<Context>,
    pub planned: Planned,
    pub apply: Apply,
    pub served: Served,
    pub record: RecordId,
    pub turn: WaveTurn,
    pub cancel: CancellationToken,
    pub live: LiveObject,
    /// Says that it is to be given up, and why.
    pub give_up: watch::Receiver<Option<Reason>>,
    pub resume: Resume,
    /// Its canary, until all pods are to be replaced.
    pub canary: Option<Box<CanaryProgress>>,
    pub findings: Findings,
    pub patience: Patience,
    /// Its slot of `max_rollouts`.
    pub slot: RolloutSlot,
}

/// The beginning of a rollout.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum RolloutStart {
    /// The manifest is applied.
    #[default]
    Apply,
    /// It was applied before, and is watched since.
    Resume(Baseline),
    /// It had failed, and goes back.
    RollBack {
        /// The reason of the failure.
        reason: Reason,
        /// The baseline of the write that went back; `None` if it was not made, or not known to be.
        written: Option<Baseline>,
    },
    /// Its manifest has left the repository: the object is deleted.
    Prune,
}

/// The beginning of a rollout, and the rollout that it takes the place of.
#[derive(Default)]
pub struct Resume {
    pub start: RolloutStart,
    /// True when it takes the place of a rollout that was under way, with the same pod template: that one goes on as
    /// this.
    pub continues_rollout: bool,
    /// True when the state that it replaces may be unhealthy by now.
    pub was_unverified: bool,
    /// The corrections of the object before it.
    pub corrected: Option<PastCorrections>,
}

/// The error of a cancelled rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl RolloutTask {
    /// Returns true when there is a rollout to be judged.
    pub fn is_judged(&self) -> bool {
        self.is_of_template() || self.apply.scales
    }

    /// Returns true when it is about a pod template, so that there may be an earlier one to go back to.
    pub fn is_of_template(&self) -> bool {
        self.apply.rolls_out || self.resume.continues_rollout
    }

    /// Returns the baseline of the rollout that a write began. A rollout that is continued may have failed already:
    /// that is its own failure.
    pub fn baseline(&self, written: &Value) -> Baseline {
        let baseline = Baseline::of(&self.planned.wanted.key, written);
        let baseline = Baseline { only_size: self.apply.scales && !self.is_of_template(), ..baseline };
        if self.resume.continues_rollout && !self.apply.rolls_out {
            Baseline { old_failure: None, ..baseline }
        } else {
            baseline
        }
    }

    /// Returns true when the live pod template is the one that this rollout's commit made, by its mark.
    pub fn is_ours(&self, live: &Value) -> bool {
        marks::annotation(live, marks::COMMIT) == Some(self.planned.wanted.commit.id.as_str())
    }

    /// Returns the live object, read again.
    pub async fn read(&self) -> Result<Option<Arc<Value>>, Cancelled> {
        let key = &self.planned.wanted.key;
        let live = self.until_served(key, || self.context.cluster.get(key, &self.served)).await?.unwrap_or_default();
        Ok(live.map(Arc::new))
    }

    /// Writes a step into the record.
    pub async fn step(&self, kind: StepKind, detail: &str) -> Result<(), Cancelled> {
        self.unless_cancelled(self.context.step(self.record, kind, detail)).await
    }

    /// Ends the record.
    pub async fn end(&self, outcome: Outcome, reason: Option<Reason>) -> Result<Outcome, Cancelled> {
        self.log_end(outcome, reason.as_ref());
        self.context.end(self.record, outcome, reason.as_ref()).await;
        Ok(outcome)
    }

    /// Ends the record of an object that somebody asked to leave alone: it stays as it is, and is taken up again with
    /// that.
    pub async fn leave_alone(&self, why: &str) -> Result<Outcome, Cancelled> {
        self.turn.through();
        self.end(Outcome::Suspended, Some(Reason::new(ReasonCode::Suspended, why.to_owned()))).await
    }

    /// Returns why somebody has asked to leave it alone since it was planned, as far as the watch has reported.
    pub fn suspension(&self) -> Option<String> {
        let live = self.live.borrow().clone()?.read();
        marks::suspension(&live).map(str::to_owned)
    }

    pub fn log_end(&self, outcome: Outcome, reason: Option<&Reason>) {
        let wanted = &self.planned.wanted;
        let reason = reason.map(ToString::to_string);
        info!(object = %wanted.key, commit = wanted.commit.id.short(), %outcome, reason, "ended");
    }

    /// Does something that may be broken off at any moment. It is boxed at once: an asynchronous function would keep it twice, as its
    /// argument and while it waits, and thousands wait side by side.
    pub fn unless_cancelled<T>(&self, future: impl Future<Output = T>) -> impl Future<Output = Result<T, Cancelled>> {
        let mut future = Box::pin(future);
        async move {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => Err(Cancelled),
                done = &mut future => Ok(done),
            }
        }
    }
}
