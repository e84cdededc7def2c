//! The known state of a source, in plain values: no channel, no lock, no task. The loop alone changes it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::disputes::Disputes;
use super::drift::DriftState;
use super::fetching::FetchState;
use super::live_objects::LiveObjects;
use super::planning::Planning;
use super::prune_search::PruneSearch;
use super::retries::Retries;
use super::rollouts::Rollouts;
use super::unhealthy_workloads::UnhealthyWorkloads;
use crate::config::Drift;
use crate::daemon::repository::desired_state::DesiredState;
use belay_core::manifest::ObjectKey;

/// The known state of a source. Each part owns its data; what concerns two of them is a function of the state.
pub struct State {
    pub(super) planning: Planning,
    pub(super) rollouts: Rollouts,
    /// The facts about each live object of this source.
    pub(super) live: LiveObjects,
    /// The workloads whose status says that they are not complete.
    pub(super) unhealthy: UnhealthyWorkloads,
    pub(super) drift: DriftState,
    /// The fields that somebody else keeps changing.
    pub(super) disputes: Disputes,
    /// The objects that are tried again.
    pub(super) retries: Retries,
    pub(super) prune_search: PruneSearch,
    pub(super) fetch: FetchState,
    /// The content of the repository at its head.
    pub(super) desired: Arc<DesiredState>,
    pub(super) settings: Settings,
}

/// The parts of its configuration that decisions need.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The source's name.
    pub source: String,
    /// True when objects that have left the repository are deleted.
    pub prune: bool,
    /// The reaction to changes by others.
    pub drift: Drift,
    /// True when a new head waits, for another source or for a window.
    pub heads_wait: bool,
    /// The period between two fetches of the repository.
    pub interval: Duration,
    /// The folders that are followed, for people.
    pub folders: String,
}

impl State {
    /// Returns a source of which nothing is known yet.
    pub fn new(desired: Arc<DesiredState>, settings: Settings, now: Instant) -> State {
        State {
            planning: Planning::default(),
            rollouts: Rollouts::default(),
            live: LiveObjects::default(),
            unhealthy: UnhealthyWorkloads::default(),
            drift: DriftState::default(),
            disputes: Disputes::default(),
            retries: Retries::default(),
            prune_search: PruneSearch::default(),
            fetch: FetchState::new(now),
            desired,
            settings,
        }
    }
}

/// The parts, to be read.
impl State {
    pub fn planning(&self) -> &Planning {
        &self.planning
    }

    pub fn rollouts(&self) -> &Rollouts {
        &self.rollouts
    }

    pub fn live(&self) -> &LiveObjects {
        &self.live
    }

    pub fn drift(&self) -> &DriftState {
        &self.drift
    }

    pub fn disputes(&self) -> &Disputes {
        &self.disputes
    }

    pub fn retries(&self) -> &Retries {
        &self.retries
    }

    pub fn fetch(&self) -> &FetchState {
        &self.fetch
    }

    /// Returns the content of the repository at its head.
    pub fn desired(&self) -> &Arc<DesiredState> {
        &self.desired
    }

    /// Returns true for an object of the head without a rollout, planned or under way.
    pub fn has_no_rollout(&self, key: &ObjectKey) -> bool {
        !self.rollouts.has(key) && self.desired.has(key)
    }
}
