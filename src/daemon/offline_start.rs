//! A start while the repository does not answer. Until it does, what the mirror holds of the commit that was planned last
//! is kept up: rollouts under way are judged on, holds are shown, what somebody has changed by hand is put right. Nothing newer
//! is begun, nothing is made or deleted, and what another daemon may have made of a newer commit is left alone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use super::cleanup::Pruning;
use super::desired_state::DesiredState;
use super::head_change::HeadChange;
use super::live::was_belays_last;
use super::repository::Repository;
use super::state::{GATHER, Source};
use crate::history::Trouble;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Action, CommitId, Reason, ReasonCode, marks};

impl Repository {
    /// What the mirror says of the commit that was planned last, for a start while the repository does not answer.
    pub(super) fn kept(&self, known: &Arc<DesiredState>, planned: &CommitId, pruning: Pruning) -> Option<HeadChange> {
        let kept = self.news(known, Some(planned), planned, pruning);
        kept.inspect_err(|error| warn!(%error, "failed to read what the mirror holds")).ok()
    }

    /// What is done about an object while the repository does not answer: only what somebody has changed by hand is put
    /// right. What is not there, what was applied from a commit that is not known here, and what a belay has written last
    /// may be what another daemon has made of a newer commit.
    pub(super) fn dares(&self, action: Action, live: Option<&Value>) -> Action {
        if !self.away.is() || !matches!(action, Action::Apply(_)) {
            return action;
        }
        let wait = |message: &str| {
            let message = format!("{message}: waits until the repository answers");
            Action::Blocked(Reason::new(ReasonCode::RepositoryAway, message))
        };
        let Some(live) = live else { return wait("is not there") };
        let commit = marks::annotation(live, marks::COMMIT).and_then(|commit| commit.parse::<CommitId>().ok());
        match commit.filter(|commit| self.mirror.commit(commit).is_err()) {
            Some(commit) => wait(&format!("was applied from commit {}, which is not known here", commit.short())),
            None if was_belays_last(live) => wait("differs from what was planned last, and was written by belay"),
            None => action,
        }
    }
}

impl Source {
    /// Follows what the mirror holds, until the repository answers.
    pub(super) fn keep_up(&mut self, kept: HeadChange) {
        info!(commit = kept.head.short(), "keeping up what was planned last");
        self.fetching.repository.away.0.store(true, Ordering::Relaxed);
        self.heard(kept);
    }

    /// Whether the repository has not answered yet: what has changed in it since is not known.
    pub(super) fn is_away(&self) -> bool {
        self.fetching.repository.away.is()
    }

    /// Publishes what is in the way of reading the repository, and notes it for who asks the history.
    pub(super) fn repository_trouble(&mut self, message: Option<String>) {
        self.context.status.trouble("repository", message.clone());
        if message.as_ref() == self.fetching.trouble.as_ref().map(|trouble| &trouble.message) {
            return;
        }
        let since = self.fetching.trouble.as_ref().map_or_else(|| self.context.clock.now(), |trouble| trouble.since);
        self.fetching.trouble = message.map(|message| Trouble { message, since });
        self.note_what_is_followed();
    }

    /// The repository has answered: what was left alone meanwhile is looked into.
    pub(super) fn is_reached(&mut self) {
        if !self.fetching.repository.away.0.swap(false, Ordering::Relaxed) {
            return;
        }
        let is_well = |key: &ObjectKey| self.watches.live.get(key).is_some_and(|facts| facts.well.is_some());
        let left: Vec<ObjectKey> = self.desired().keys().filter(|key| !is_well(key)).cloned().collect();
        left.into_iter().for_each(|key| self.drift.recheck_after(key, Duration::ZERO));
        if self.context.config.prune {
            self.pruned.search_due = Some(Instant::now() + GATHER);
        }
    }
}
