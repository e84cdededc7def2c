//! What the loop of one source knows, by what it is about. Only the loop changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::deferred_kinds::DeferredKinds;
use super::desired_state::DesiredState;
use super::live::LiveFacts;
use super::queued_events::EventQueue;
use super::repository::Repository;
use super::source_dependency::Asked;
use super::tasks::Tasks;
use crate::cluster::{Cluster, Seen, Watched};
use crate::git::{Follow, Wake};
use crate::history::{SourceStanding, Trouble};
use belay_core::manifest::{Compact, ObjectKey};
use belay_core::rollout::{CommitId, Outcome, Reason, Record, RecordId, Trigger, marks};

/// How long changes of live objects gather before they are checked together.
pub(super) const GATHER: Duration = Duration::from_millis(200);

/// One followed source.
pub(super) struct Source {
    pub context: Arc<Context>,
    pub stop: CancellationToken,
    /// What runs beside the loop.
    pub tasks: Tasks,
    pub fetching: Fetching,
    pub planning: Planning,
    pub watches: Watches,
    pub rollouts: Rollouts,
    pub drift: DriftState,
    pub pruned: Pruned,
    pub recorded: Recorded,
    pub readiness: Readiness,
    /// What is to be told as soon as nothing else is to be done.
    pub events: EventQueue,
}

/// Reading the repository: what is followed, when it was fetched, when it is fetched next.
pub(super) struct Fetching {
    pub repository: Repository,
    pub follow: Follow,
    /// What the repository holds at its head. The loop alone puts another in its place.
    pub desired: watch::Sender<Arc<DesiredState>>,
    /// Notices a push to a repository on this machine; only a hint to look.
    pub wake: Option<Arc<Wake>>,
    /// What is in the way of reading the repository.
    pub trouble: Option<Trouble>,
    /// A head that was refused, and why.
    pub refused: Option<(CommitId, String)>,
    /// When the look began that is under way.
    pub looking: Option<Timestamp>,
    /// When the newest look began that reached the repository.
    pub looked: Option<Timestamp>,
    pub next_look: Instant,
    /// When the last look began.
    pub look_began: Option<Instant>,
    /// Until when the repository is left alone, because reading it has brought belay down.
    pub rests_until: Option<Instant>,
}

impl Fetching {
    pub(super) fn new(
        repository: Repository,
        desired: watch::Sender<Arc<DesiredState>>,
        follow: Follow,
        wake: Option<Arc<Wake>>,
    ) -> Fetching {
        let next_look = Instant::now();
        let (trouble, refused, looking, looked) = (None, None, None, None);
        let (look_began, rests_until) = (None, None);
        Fetching {
            repository,
            follow,
            desired,
            wake,
            trouble,
            refused,
            looking,
            looked,
            next_look,
            look_began,
            rests_until,
        }
    }
}

/// Planning a head.
#[derive(Default)]
pub(super) struct Planning {
    /// The head whose plan was recorded last.
    pub planned: Option<CommitId>,
    /// The plan that is being made, and its number.
    pub running: Option<(AbortHandle, u64)>,
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

/// What the cluster tells by itself.
pub(super) struct Watches {
    /// What is known of each object of this source.
    pub live: BTreeMap<ObjectKey, LiveFacts>,
    pub watched: Watched,
    pub seen: mpsc::Receiver<Seen>,
    /// Kinds that are watched only when the first plan is carried out.
    pub deferred: DeferredKinds,
    /// Why watches are in trouble, by what they watch.
    pub faults: BTreeMap<String, String>,
    /// The autoscalers of the cluster, wherever they come from.
    pub autoscalers: Watched,
    pub autoscalers_seen: mpsc::Receiver<Seen>,
}

impl Watches {
    /// Nothing is watched yet. Of a source's own kinds, the objects with its label are.
    pub(super) fn new(cluster: &Cluster, source: &str) -> Watches {
        let (watched, seen) = cluster.watched(&format!("{}={source}", marks::SOURCE));
        let (autoscalers, autoscalers_seen) = cluster.watched("");
        let (live, deferred, faults) = (BTreeMap::new(), DeferredKinds::default(), BTreeMap::new());
        Watches { live, watched, seen, deferred, faults, autoscalers, autoscalers_seen }
    }
}

/// The rollouts: under way, to be taken up, waiting, failed.
#[derive(Default)]
pub(super) struct Rollouts {
    pub under_way: BTreeMap<ObjectKey, Rollout>,
    /// Records that were open when the daemon started.
    pub resumed: BTreeMap<ObjectKey, Record>,
    /// Planned objects that wait for others, with what is told of it. Their records are among `resumed`.
    pub waiting: BTreeMap<ObjectKey, String>,
    /// Commits of which something failed and that go back as a whole.
    pub failed_commits: BTreeMap<CommitId, FailedObject>,
    /// What commands did that is not written down yet.
    pub manual_rollbacks: BTreeMap<(ObjectKey, Timestamp), ByHand>,
    /// Controllers that somebody is just rolling: how they last looked, and since when.
    pub rolled_by_others: BTreeMap<ObjectKey, (u64, Instant)>,
    /// How often the rollouts under these records ended by a panic.
    pub panics: BTreeMap<RecordId, u32>,
}

/// Live objects that may not be as the head says.
#[derive(Default)]
pub(super) struct DriftState {
    /// Objects that may not be as they should be, and when that is looked into.
    pub recheck: BTreeMap<ObjectKey, Instant>,
    /// Live objects that are being compared with their manifests, as they were seen.
    pub comparing: BTreeMap<ObjectKey, u64>,
    /// What is being looked into, as it was seen before: `None` where it was not there.
    pub under_check: BTreeMap<ObjectKey, Option<u64>>,
    /// What has drifted and is only reported, as it was seen then: `None` where it was not there.
    pub reported: BTreeMap<ObjectKey, Option<u64>>,
    /// How often an object was put right lately, so that two who disagree do not fight at full speed.
    pub corrected: BTreeMap<ObjectKey, u32>,
    /// Whether a check is under way.
    pub checking: bool,
}

impl DriftState {
    /// Puts an object on the list of those to be checked.
    pub(super) fn recheck_after(&mut self, key: ObjectKey, after: Duration) {
        let at = Instant::now() + after.max(GATHER);
        self.recheck.entry(key).and_modify(|known| *known = at.min(*known)).or_insert(at);
    }
}

/// What has left the repository.
#[derive(Default)]
pub(super) struct Pruned {
    /// When what has left the repository before is looked for.
    pub search_due: Option<Instant>,
    /// Whether all kinds of the cluster have been looked through for it.
    pub searched: Searched,
}

/// What the loop knows of what is in the history.
pub(super) struct Recorded {
    /// Where the source stands, as the history was told last.
    pub standing: Option<SourceStanding>,
    /// Which history the source was planned into, by [`crate::history::History::begun`].
    pub history: u32,
    /// When old records are forgotten next.
    pub next_tidy: Instant,
}

impl Recorded {
    pub(super) fn new(history: u32) -> Recorded {
        Recorded { standing: None, history, next_tidy: Instant::now() }
    }
}

/// Whether all of the source is through, for those who wait for it.
pub(super) struct Readiness {
    /// Asked by who waits for this source.
    pub asked: Arc<Asked>,
    /// Whether everything was complete, as of a look.
    pub judged: Option<(Timestamp, bool)>,
}

impl Readiness {
    pub(super) fn new(asked: Arc<Asked>) -> Readiness {
        Readiness { asked, judged: None }
    }
}

/// A rollout under way.
pub(super) struct Rollout {
    pub record: RecordId,
    pub cancel: CancellationToken,
    /// Cancelled when the rollout's task has ended.
    pub ended: CancellationToken,
    pub live: watch::Sender<Option<Compact>>,
    /// Told when it is to be given up, and why.
    pub give_up: watch::Sender<Option<Reason>>,
    /// What set it off.
    pub trigger: Trigger,
    /// Whether it is judged, so that whoever takes its place must judge on.
    pub judged: bool,
    /// The same of one that only changes the number of pods.
    pub scales: bool,
    /// The commit that takes its place.
    pub superseded_by: Option<CommitId>,
}

/// What failed of a commit.
#[derive(Clone, Debug)]
pub(super) struct FailedObject {
    pub object: ObjectKey,
    pub reason: Reason,
}

/// What somebody did by hand, or an autoscaler, as it was found on an object, to be written down.
#[derive(Clone, Debug)]
pub(super) struct ByHand {
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

/// Whether all kinds have been looked through since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Searched(pub Arc<AtomicBool>);
