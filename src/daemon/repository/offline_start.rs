//! A start while the repository does not answer. Until it does, the mirror's commit that was planned last stays in
//! force: rollouts under way are judged, holds are shown, changes by hand are corrected. Nothing newer is begun,
//! nothing is created or deleted, and objects of another daemon's newer commit are left alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tracing::warn;

use super::desired_state::DesiredState;
use super::head_change::HeadChange;
use super::source_repository::Repository;
use crate::daemon::shared::cleanup::Pruning;
use crate::daemon::shared::live::was_belays_last;
use belay_core::rollout::{CommitId, PlanStep, Reason, ReasonCode, marks};

impl Repository {
    /// Returns the change to the commit that was planned last, from the mirror, for a start while the repository does
    /// not answer.
    pub fn kept(
        &self,
        known: &Arc<DesiredState>,
        planned: &CommitId,
        pruning: Pruning,
        complained: &BTreeSet<String>,
    ) -> Option<HeadChange> {
        let kept = self.news(known, Some(planned), planned, pruning, complained);
        kept.inspect_err(|error| warn!(%error, "failed to read what the mirror holds")).ok()
    }

    /// Restricts the step for an object while the repository does not answer: only changes by hand are corrected.
    /// Missing objects, and objects that were applied from an unknown commit or written by a belay last, are left
    /// alone: another daemon may have rolled out a newer commit.
    pub fn dares(&self, step: PlanStep, live: Option<&Value>) -> PlanStep {
        if !self.away.is() || !matches!(step, PlanStep::Apply(_)) {
            return step;
        }
        let wait = |message: &str| {
            let message = format!("{message}: waits until the repository answers");
            PlanStep::Wait(Reason::new(ReasonCode::RepositoryAway, message))
        };
        let Some(live) = live else { return wait("is not there") };
        let commit = marks::annotation(live, marks::COMMIT).and_then(|commit| commit.parse::<CommitId>().ok());
        match commit.filter(|commit| self.mirror.commit(commit).is_err()) {
            Some(commit) => wait(&format!("was applied from commit {}, which is not known here", commit.short())),
            None if was_belays_last(live) => wait("differs from what was planned last, and was written by belay"),
            None => step,
        }
    }
}
