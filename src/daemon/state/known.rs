//! What is known of a source, in plain values: no channel, no lock, no task. The loop alone changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::drift::DriftState;
use super::fetching::FetchState;
use super::retries::Retries;
use crate::config::Drift;
use crate::daemon::desired_state::DesiredState;
use crate::daemon::head_change::HeadChange;
use crate::daemon::live::LiveFacts;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Outcome, Reason, Record, RecordId, Trigger};

/// What is known of a source.
pub struct State {
    pub planning: Planning,
    pub rollouts: Rollouts,
    /// What is known of each live object of this source.
    pub live: BTreeMap<ObjectKey, LiveFacts>,
    pub drift: DriftState,
    /// What is tried again by itself.
    pub retries: Retries,
    pub pruned: Pruned,
    pub fetch: FetchState,
    /// What the repository holds at its head.
    pub desired: Arc<DesiredState>,
    pub settings: Settings,
}

/// What of its configuration decides something.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The source's name.
    pub source: String,
    /// Whether what has left the repository is deleted.
    pub prune: bool,
    /// What is done about what somebody else has changed.
    pub drift: Drift,
    /// Whether it comes after another source, for which each new head waits.
    pub comes_after: bool,
    /// How often the repository is looked at.
    pub interval: Duration,
    /// The folders that are followed, for people.
    pub folders: String,
}

impl State {
    /// A source of which nothing is known yet.
    pub fn new(desired: Arc<DesiredState>, settings: Settings, now: Instant) -> State {
        let (planning, rollouts, live) = (Planning::default(), Rollouts::default(), BTreeMap::new());
        let (drift, retries, pruned) = (DriftState::default(), Retries::default(), Pruned::default());
        let fetch = FetchState::new(now);
        State { planning, rollouts, live, drift, retries, pruned, fetch, desired, settings }
    }
}

impl Rollouts {
    /// The open records of what is to be taken up again.
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
    /// Whether it is made, and is being written down.
    pub is_recording: bool,
    /// The newest head, while it waits for another source, and the number of that wait. Until then all goes on as the head
    /// before says.
    pub awaiting: Option<(u64, Box<HeadChange>)>,
    /// The newest head that came meanwhile.
    pub next: Option<Box<HeadChange>>,
    /// How many times a head began to wait for another source.
    pub waits: u64,
    /// How many plans were begun.
    pub plans: u64,
    /// Workloads whose rollouts were given up for the next plan.
    pub interrupted: BTreeSet<ObjectKey>,
    /// The same of those that only changed the number of pods.
    pub interrupted_scaling: BTreeSet<ObjectKey>,
    /// Objects of this source that belong to others, by owner.
    pub claimed: BTreeSet<(String, ObjectKey)>,
    /// Objects whose manifests the head contradicts elsewhere, and how.
    pub contradicted: BTreeMap<ObjectKey, String>,
}

/// The rollouts: under way, to be taken up, waiting, failed.
#[derive(Default)]
pub struct Rollouts {
    pub under_way: BTreeMap<ObjectKey, Rollout>,
    /// Records that were open when the daemon started.
    pub resumed: BTreeMap<ObjectKey, Record>,
    /// Planned objects that wait for others, with what is told of it. Their records are among `resumed`.
    pub waiting: BTreeMap<ObjectKey, String>,
    /// Of how many ends is being read whether something else goes back with them.
    pub ends_read: usize,
    /// What commands did that is not written down yet.
    pub manual_rollbacks: BTreeMap<(ObjectKey, Timestamp), ByHand>,
    /// Controllers that somebody is just rolling: how they last looked, and since when.
    pub rolled_by_others: BTreeMap<ObjectKey, (u64, Instant)>,
    /// How often the rollouts under these records ended by a panic.
    pub panics: BTreeMap<RecordId, u32>,
}

/// A rollout under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    pub record: RecordId,
    /// What set it off.
    pub trigger: Trigger,
    /// Whether it is judged, so that whoever takes its place must judge on.
    pub judged: bool,
    /// The same of one that only changes the number of pods.
    pub scales: bool,
    /// The commit that takes its place.
    pub superseded_by: Option<CommitId>,
}

/// What somebody did by hand, or an autoscaler, as it was found on an object, to be written down.
#[derive(Clone, Debug)]
pub struct ByHand {
    pub trigger: Trigger,
    pub outcome: Outcome,
    pub since: Timestamp,
    /// Whose manifest it is about; where nobody said, the one that was charged with the object last.
    pub commit: Option<CommitId>,
    pub manifest: Option<String>,
    pub reason: Option<Reason>,
    /// Whose template the object has now, where that is an earlier one.
    pub back_to: Option<CommitId>,
}

/// What has left the repository.
#[derive(Default)]
pub struct Pruned {
    /// When what has left the repository before is looked for.
    pub search_due: Option<Instant>,
    /// Whether all kinds of the cluster have been looked through for it since the start.
    pub searched: bool,
    /// Whether it is being looked for.
    pub searching: bool,
    /// How often in a row not all kinds could be looked through.
    pub failures: u32,
}
