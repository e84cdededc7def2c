//! The known state of a source, in plain values: no channel, no lock, no task. The loop alone changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::drift::DriftState;
use super::fetching::FetchState;
use super::retries::Retries;
use super::unhealthy_workloads::UnhealthyWorkloads;
use crate::config::Drift;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::head_change::HeadChange;
use crate::daemon::rollout::rollback::manual_rollback::ByHand;
use crate::daemon::shared::live::LiveFacts;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Record, RecordId, Trigger};

/// The known state of a source.
pub struct State {
    pub planning: Planning,
    pub rollouts: Rollouts,
    /// The facts about each live object of this source.
    pub live: BTreeMap<ObjectKey, LiveFacts>,
    /// The workloads whose status says that they are not complete.
    pub unhealthy: UnhealthyWorkloads,
    pub drift: DriftState,
    /// The objects that are tried again.
    pub retries: Retries,
    pub pruned: Pruned,
    pub fetch: FetchState,
    /// The content of the repository at its head.
    pub desired: Arc<DesiredState>,
    pub settings: Settings,
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
        let (planning, rollouts, live) = (Planning::default(), Rollouts::default(), BTreeMap::new());
        let (drift, retries, pruned) = (DriftState::default(), Retries::default(), Pruned::default());
        let fetch = FetchState::new(now);
        let unhealthy = UnhealthyWorkloads::default();
        State { planning, rollouts, live, unhealthy, drift, retries, pruned, fetch, desired, settings }
    }
}

impl State {
    /// Returns true for an object of the head without a rollout, planned or under way.
    pub fn has_no_rollout(&self, key: &ObjectKey) -> bool {
        let Rollouts { under_way, resumed, .. } = &self.rollouts;
        !under_way.contains_key(key) && !resumed.contains_key(key) && self.desired.has(key)
    }

    /// Gives up the claims to objects that the head has no manifest of any more. Returns them, each with the other source.
    pub fn give_claims_up(&mut self) -> Vec<(String, ObjectKey)> {
        let desired = Arc::clone(&self.desired);
        let is_over = |(_, key): &(String, ObjectKey)| !desired.mentions(key);
        self.planning.claimed.extract_if(.., is_over).collect()
    }
}

impl Planning {
    /// Notes that this source claims an object of another one.
    pub fn claim(&mut self, owner: String, key: ObjectKey) {
        self.claimed.insert((owner, key));
    }
}

impl Rollouts {
    /// Returns the open records of rollouts to take up again.
    pub fn open(&self) -> BTreeMap<ObjectKey, RecordId> {
        self.resumed.iter().map(|(key, record)| (key.clone(), record.id)).collect()
    }
}

/// Planning a head.
#[derive(Default)]
pub struct Planning {
    /// The head whose plan was recorded last.
    pub planned: Option<CommitId>,
    /// The number of the plan that is being made.
    pub running: Option<u64>,
    /// True when it is made, and is being recorded.
    pub is_recording: bool,
    /// The newest head, while it waits for another source, and the number of that wait. Until then all goes on as the head
    /// before says.
    pub awaiting: Option<(u64, Box<HeadChange>)>,
    /// True when the newest head was read as a change from another commit than the one that is planned by now, and is to be
    /// read again.
    pub reads_again: bool,
    /// The number of times that a head began to wait for another source.
    pub waits: u64,
    /// The number of plans that were begun.
    pub plans: u64,
    /// Workloads whose rollouts were given up for the next plan.
    pub interrupted: BTreeSet<ObjectKey>,
    /// The same of those that only changed the number of pods.
    pub interrupted_scaling: BTreeSet<ObjectKey>,
    /// Objects of this source that belong to others, by owner.
    claimed: BTreeSet<(String, ObjectKey)>,
    /// Objects whose manifests the head contradicts elsewhere, and how.
    pub contradicted: BTreeMap<ObjectKey, String>,
}

/// The rollouts: under way, to be taken up, waiting, failed.
#[derive(Default)]
pub struct Rollouts {
    pub under_way: BTreeMap<ObjectKey, Rollout>,
    /// Records that were open when the daemon started.
    pub resumed: BTreeMap<ObjectKey, Record>,
    /// Planned objects that wait for others, with the message about it. Their records are among `resumed`.
    pub waiting: BTreeMap<ObjectKey, String>,
    /// Those of them that wait for a slot of `max_rollouts`.
    pub without_slot: BTreeSet<ObjectKey>,
    /// The number of ended rollouts for which it is being read if others go back with them.
    pub ends_read: usize,
    /// The actions of commands that are not recorded yet.
    pub manual_rollbacks: BTreeMap<(ObjectKey, Timestamp), ByHand>,
    /// Controllers that somebody is just rolling: their last state, and since when.
    pub rolled_by_others: BTreeMap<ObjectKey, (u64, Instant)>,
    /// The number of panics of the rollouts under these records.
    pub panics: BTreeMap<RecordId, u32>,
}

/// A rollout under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    pub record: RecordId,
    /// The trigger.
    pub trigger: Trigger,
    /// True when it is judged, so that its successor must be judged, too.
    pub judged: bool,
    /// The same of one that only changes the number of pods.
    pub scales: bool,
    /// True when it puts an object right whose manifest is held.
    pub keeps_hold: bool,
    /// The commit that takes its place.
    pub superseded_by: Option<CommitId>,
}

/// The objects that have left the repository.
#[derive(Default)]
pub struct Pruned {
    /// The time of the next search for objects that have left the repository before.
    pub search_due: Option<Instant>,
    /// True when all kinds of the cluster have been searched since the start.
    pub searched: bool,
    /// True while they are searched.
    pub searching: bool,
    /// The number of times in a row that not all kinds could be searched.
    pub failures: u32,
}
