//! The daemon's status: published after every change, for systemd, metrics and pages.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::watch;

use super::canary_plan::CanaryPlan;
use super::obstacle::Obstacle;
use super::related_object::RelatedObject;
use crate::history::{Follower, HeldStatus, ObjectStanding, PublishedRollout, PublishedSource, SourceStanding};
use crate::telemetry::{Metrics, Took};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{
    CommitId, Counters, LiveWorkload, ObjectFacts, ObjectState, Outcome, Reason, SourceFacts, SourceState, StateCounts,
    Trigger, Workload,
};

/// The daemon's state at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Every source, by name.
    pub sources: BTreeMap<String, SourceStatus>,
}

/// The state of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// The commit that the branch is at, as last seen.
    pub head: Option<CommitId>,
    /// The commit whose plan was made last.
    pub planned: Option<CommitId>,
    /// The same of the time before belay began to follow the source; the head that is shown until a plan is made.
    #[serde(skip)]
    pub planned_before: Option<CommitId>,
    /// When the repository was last reached.
    pub looked: Option<Timestamp>,
    /// The rollouts under way, by object.
    #[serde(serialize_with = "by_name")]
    pub under_way: BTreeMap<ObjectKey, UnderWay>,
    /// The held manifests, by object.
    #[serde(serialize_with = "by_name")]
    pub held: BTreeMap<ObjectKey, HeldStatus>,
    /// The objects that are not as the head says and of which nothing more becomes by itself: rejected, failed, rolled
    /// back, orphaned and the like.
    #[serde(serialize_with = "by_name")]
    pub ended: BTreeMap<ObjectKey, ObjectStanding>,
    /// The live workloads of this source, by object.
    #[serde(skip)]
    pub workloads: BTreeMap<ObjectKey, LiveWorkload>,
    /// The canaries under way, by workload.
    #[serde(skip)]
    pub canaries: BTreeMap<ObjectKey, CanaryPlan>,
    /// The live Services, autoscalers and disruption budgets.
    #[serde(skip)]
    pub related: BTreeMap<ObjectKey, RelatedObject>,
    /// The workloads that are not complete, without a rollout, each with the trouble with its pods.
    #[serde(skip)]
    pub unhealthy: BTreeMap<ObjectKey, Option<String>>,
    /// The number of rollouts that are planned or begun; some of them are not in `under_way` yet.
    pub open: usize,
    /// The number of objects in the repository.
    pub objects: usize,
    /// True when all rollouts of the head have ended, and no object is being checked.
    pub settled: bool,
    /// The newest look at the repository as of which everything that the head says is live and complete; `None` while
    /// anything is not.
    pub complete: Option<Timestamp>,
    /// The obstacles.
    #[serde(flatten)]
    pub obstacles: Obstacles,
    /// The Lease of the source, as it was seen last.
    #[serde(skip)]
    pub lease: Option<LeaseStatus>,
    /// The daemon that publishes this.
    pub follower: Follower,
}

/// A Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    /// Its namespace and name.
    pub name: String,
    /// The daemon that holds it; `None` if it was released.
    pub holder: Option<String>,
    /// When its holder got it, by the clock of that one; `None` if it does not say.
    pub acquired: Option<Timestamp>,
    /// When it was renewed last, by the same clock.
    pub renewed: Option<Timestamp>,
}

/// The obstacles to following a source as it should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Obstacles {
    /// The message about each.
    pub trouble: BTreeMap<Obstacle, String>,
    /// Warnings about the repository that block nothing, by the path of the file.
    pub warnings: BTreeMap<String, String>,
    /// The reason for which the newest configuration is not taken, by its file.
    #[serde(skip)]
    pub configuration: BTreeMap<String, String>,
    /// The times since which somebody else and belay disagree, by object.
    #[serde(skip)]
    pub disputed_since: BTreeMap<ObjectKey, Timestamp>,
    /// The units that a tool has rendered for long by now.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub rendering: BTreeSet<Arc<str>>,
    /// The other source, or the other daemon, that the whole source waits for.
    pub waits: Option<String>,
    /// The reason for which its repository can't be followed, if that does not pass by itself: a missing branch or
    /// folder, a refused credential.
    pub unreadable: Option<String>,
    /// True when it waits for another daemon, which follows this source.
    pub standby: bool,
}

/// The message about a unit that takes long.
const RENDERING: &str = "is being rendered, for more than 2 s by now; a tool may take 60 s, and a newer commit ends it";

impl SourceStatus {
    /// Returns the state of an object of which something is to be said; of all others it is `complete`.
    #[must_use]
    pub fn state_of(&self, key: &ObjectKey) -> ObjectState {
        ObjectState::of(&ObjectFacts {
            open: self.under_way.get(key).map(|way| way.outcome.state()),
            ended: self.ended.get(key).map(|ended| ended.state),
            held: self.held.contains_key(key),
            ..ObjectFacts::default()
        })
    }

    /// Returns the state of an object; of a live workload by its own status, too.
    #[must_use]
    pub fn state_of_workload(&self, key: &ObjectKey) -> ObjectState {
        let live = self.workloads.get(key);
        ObjectState::of(&ObjectFacts {
            open: self.under_way.get(key).map(|way| way.outcome.state()),
            ended: self.ended.get(key).map(|ended| ended.state),
            held: live.map_or_else(|| self.held.contains_key(key), |live| live.hold.is_some()),
            suspended: live.is_some_and(|live| live.suspended.is_some()),
            live: live.and_then(|live| live.standing),
        })
    }

    /// Returns the rollouts and rollbacks of workloads that are under way: not what has no pods, nor what waits.
    pub fn rollouts(&self) -> impl Iterator<Item = (&ObjectKey, &UnderWay)> {
        let moves = |way: &UnderWay| way.outcome.is_applied();
        self.under_way.iter().filter(move |(key, way)| Workload::of(key).is_some() && moves(way))
    }

    /// Counts the objects in each state.
    #[must_use]
    pub fn counts(&self) -> StateCounts {
        let told: BTreeSet<&ObjectKey> =
            self.under_way.keys().chain(self.ended.keys()).chain(self.held.keys()).collect();
        let in_head = |key: &ObjectKey| self.ended.get(key).is_none_or(|ended| ended.in_head);
        let untold = self.open.saturating_sub(self.under_way.len());
        let pending = if self.planned.is_none() { self.objects } else { untold };
        let unhealthy = self.unhealthy.keys().filter(|key| !told.contains(key));
        let unhealthy: Vec<_> = unhealthy.map(|key| (self.state_of_workload(key), true)).collect();
        let told = told.into_iter().map(|key| (self.state_of(key), in_head(key)));
        StateCounts::of_source(self.objects, pending, told.chain(unhealthy))
    }

    /// Returns the state of the source.
    #[must_use]
    pub fn state(&self) -> SourceState {
        let troubled = !self.obstacles.trouble.is_empty();
        let waits = self.obstacles.waits.is_some();
        let idle = self.settled && self.obstacles.rendering.is_empty();
        let hides_hold = self.hidden_holds().next().is_some();
        let facts = SourceFacts { blocked: self.blocked_by().is_some(), waits, troubled, idle, hides_hold };
        SourceState::of(facts, &self.counts())
    }

    /// Returns the holds on suspended objects, whose state does not show them.
    fn hidden_holds(&self) -> impl Iterator<Item = (&ObjectKey, &HeldStatus)> {
        self.held.iter().filter(move |(key, _)| self.state_of(key) == ObjectState::Suspended)
    }

    /// Returns why nothing of it can be read, applied or recorded, if that is so.
    #[must_use]
    pub fn blocked_by(&self) -> Option<&str> {
        let trouble = Obstacle::BLOCKING.iter().find_map(|obstacle| self.obstacles.trouble.get(obstacle));
        self.obstacles.waits.as_ref().filter(|_| self.obstacles.standby).or(trouble).map(String::as_str)
    }

    /// Returns its state in a line: `degraded (1 rejected, 12 complete)`.
    #[must_use]
    pub fn summary(&self) -> String {
        self.standing().summary()
    }

    /// Returns the warnings, and the units that take long to render, by the path of the file.
    #[must_use]
    pub fn warnings(&self) -> BTreeMap<String, String> {
        let mut warnings = self.obstacles.warnings.clone();
        warnings.extend(self.obstacles.configuration.clone());
        let slow = self.obstacles.rendering.iter();
        warnings.extend(slow.map(|unit| (unit.to_string(), RENDERING.to_owned())));
        warnings
    }

    /// Returns the unfinished rollouts and the obstacles, a line each.
    #[must_use]
    pub fn unfinished(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.obstacles.waits.iter().cloned().collect();
        lines.extend(self.obstacles.trouble.iter().map(|(obstacle, message)| format!("{obstacle}: {message}")));
        lines.extend(self.obstacles.rendering.iter().map(|unit| format!("{unit}: {RENDERING}")));
        lines.extend(self.under_way.iter().map(|(key, way)| {
            let fault = way.in_the_way.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default();
            let wrong = way.wrong.as_ref().map(|wrong| format!("; {wrong}")).unwrap_or_default();
            format!("{key}: {}: {}{fault}{wrong}", way.outcome.state(), way.message)
        }));
        lines
    }

    /// Withdraws the report about an obstacle, unless another one is there by now. Returns true when it was.
    pub fn take_back(&mut self, obstacle: &Obstacle, said: &str) -> bool {
        let is_said = self.obstacles.trouble.get(obstacle).is_some_and(|trouble| trouble == said);
        is_said && self.obstacles.trouble.remove(obstacle).is_some()
    }

    /// The objects that are not as the head says, also those that wait, a line each, with the reason.
    #[must_use]
    pub fn wrong(&self) -> Vec<String> {
        let waits = self.obstacles.waits.iter().cloned();
        let ended = self.ended.iter().map(|(key, ended)| {
            let reason = ended.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{key}: {}{reason}", self.state_of(key))
        });
        let held = self.held.iter().filter(|(key, _)| !self.ended.contains_key(key)).chain(self.hidden_holds());
        let held = held.map(|(key, held)| format!("{key}: held: {}", held.reason));
        let waiting = self.under_way.iter().filter(|(_, way)| way.outcome == Outcome::Waiting);
        let waiting = waiting.map(|(key, way)| format!("{key}: {}: {}", ObjectState::Waiting, way.message));
        waits.chain(ended).chain(held).chain(waiting).collect()
    }

    /// Returns the objects about which somebody else and belay disagree, each with its message.
    pub fn disagreements(&self) -> impl Iterator<Item = (&ObjectKey, &str)> {
        self.obstacles.trouble.iter().filter_map(|(obstacle, message)| match obstacle {
            Obstacle::Disagreement(key) => Some((key, message.as_str())),
            _ => None,
        })
    }

    /// Forgets what is published of an object that is gone; returns true if that was anything.
    pub fn forget_object(&mut self, key: &ObjectKey) -> bool {
        self.canaries.remove(key);
        self.related.remove(key);
        self.held.remove(key).is_some() | self.workloads.remove(key).is_some()
    }

    /// Returns its published state, without that of its objects.
    #[must_use]
    pub fn standing(&self) -> SourceStanding {
        // Another daemon may have planned a newer one since.
        let before = self.planned_before.as_ref().filter(|_| !self.obstacles.standby);
        SourceStanding {
            state: self.state(),
            counts: self.counts(),
            head: self.planned.as_ref().or(before).cloned(),
            blocked: self.blocked_by().map(str::to_owned),
            waits: self.obstacles.waits.clone(),
            troubles: self.obstacles.trouble.iter().map(|(at, message)| (at.to_string(), message.clone())).collect(),
            warnings: self.warnings(),
            held: self.held.keys().cloned().collect(),
            follower: Follower { standby: self.obstacles.standby, ..self.follower.clone() },
        }
    }

    /// Returns its published state.
    #[must_use]
    pub fn published(&self) -> PublishedSource {
        let rollout = |(key, way): (&ObjectKey, &UnderWay)| {
            let fault = way.in_the_way.as_ref().map(ToString::to_string);
            let (state, commit, message) = (way.outcome.state(), way.commit.clone(), way.message.clone());
            let wrong = fault.or_else(|| way.wrong.clone());
            (key.clone(), PublishedRollout { state, commit, message, wrong, until: way.until })
        };
        let trouble = |(key, wrong): (&ObjectKey, &Option<String>)| Some((key.clone(), wrong.clone()?));
        PublishedSource {
            standing: self.standing(),
            under_way: self.under_way.iter().map(rollout).collect(),
            ended: self.ended.iter().map(|(key, ended)| (key.clone(), ended.clone())).collect(),
            held: self.held.iter().map(|(key, held)| (key.clone(), held.clone())).collect(),
            unhealthy: self.unhealthy.iter().filter_map(trouble).collect(),
            workloads: Vec::new(),
        }
    }

    /// Returns the same with its live workloads, of which there may be thousands.
    #[must_use]
    pub fn published_with_workloads(&self) -> PublishedSource {
        let workloads = self.workloads.iter().map(|(key, live)| (key.clone(), live.clone())).collect();
        PublishedSource { workloads, ..self.published() }
    }
}

impl Status {
    /// Returns the published state of every source.
    #[must_use]
    pub fn published(&self) -> BTreeMap<String, PublishedSource> {
        self.sources.iter().map(|(name, source)| (name.clone(), source.published())).collect()
    }

    /// Returns the same with the live workloads of each.
    #[must_use]
    pub fn published_with_workloads(&self) -> BTreeMap<String, PublishedSource> {
        self.sources.iter().map(|(name, source)| (name.clone(), source.published_with_workloads())).collect()
    }
}

/// A rollout under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnderWay {
    /// The commit.
    pub commit: CommitId,
    /// The present outcome.
    #[serde(serialize_with = "as_state")]
    pub outcome: Outcome,
    /// The progress.
    pub counters: CountersStatus,
    /// One sentence.
    pub message: String,
    /// When its deadline ends, unless something moves.
    pub until: Option<Timestamp>,
    /// The end of the time for which its ready pods are watched; `None` while they are not.
    pub watched: Option<WatchedUntil>,
    /// The infrastructure fault that is in its way.
    pub in_the_way: Option<Reason>,
    /// The trouble with its new pods so far.
    pub wrong: Option<String>,
}

/// The end of the time for which the ready pods of a rollout are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WatchedUntil {
    /// The end of the bake time, or of the time of a canary's step.
    Time(Timestamp),
    /// A person promotes the step of a canary.
    Person,
}

/// The numbers of pods by their progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CountersStatus {
    /// Pods wanted.
    pub desired: i64,
    /// Pods of the new template.
    pub updated: i64,
    /// Available pods.
    pub available: i64,
}

impl From<Counters> for CountersStatus {
    fn from(counters: Counters) -> CountersStatus {
        CountersStatus { desired: counters.desired, updated: counters.updated, available: counters.available }
    }
}

/// Publishes the state of one source.
#[derive(Clone, Debug)]
pub struct Publisher {
    source: String,
    follower: Follower,
    status: watch::Sender<Status>,
    metrics: Metrics,
}

impl Publisher {
    /// Returns a publisher for `source`, which `follower` follows.
    pub fn new(source: &str, follower: Follower, status: watch::Sender<Status>, metrics: Metrics) -> Publisher {
        let publisher = Publisher { source: source.to_owned(), follower, status, metrics };
        publisher.forget();
        publisher.metrics.source(source, &Trigger::WORDS);
        publisher
    }

    /// Publishes that nothing is known of the source yet, except for the commit that was planned before.
    pub fn forget(&self) {
        let mut fresh = SourceStatus { follower: self.follower.clone(), ..SourceStatus::default() };
        self.change(|source| {
            fresh.planned_before = source.planned.take().or(source.planned_before.take());
            fresh.obstacles.configuration.clone_from(&source.obstacles.configuration);
            fresh.lease = source.lease.take();
            set(source, fresh)
        });
    }

    /// Publishes the commit that was planned last, as the history says at the start.
    pub fn planned_before(&self, commit: Option<CommitId>) {
        self.change(|source| set(&mut source.planned_before, commit));
    }

    /// Counts a fetch of the repository.
    pub fn fetched(&self, reached: bool) {
        self.metrics.fetched(&self.source, reached);
    }

    /// Counts the end of a rollout.
    pub fn rollout_ended(&self, trigger: &'static str, outcome: Outcome, took: Option<Took>) {
        self.metrics.rollout_ended(&self.source, trigger, outcome.word(), took);
    }

    /// Counts a corrected change by others.
    pub fn drift_corrected(&self) {
        self.metrics.drift_corrected(&self.source);
    }

    /// Changes the published status. `change` says whether anything differs by it; only then do readers hear of it.
    /// Readers are notified without a comparison: with thousands of rollouts under way, a copy for each change of each
    /// would be the daemon's greatest work.
    pub fn change(&self, change: impl FnOnce(&mut SourceStatus) -> bool) {
        self.status.send_if_modified(|status| match status.sources.get_mut(&self.source) {
            Some(source) => change(source),
            None => change(status.sources.entry(self.source.clone()).or_default()),
        });
    }

    /// Returns the part of the source's published status that `look` selects.
    pub fn read<T>(&self, look: impl FnOnce(&SourceStatus) -> T) -> Option<T> {
        self.status.borrow().sources.get(&self.source).map(look)
    }

    /// Returns the commit whose plan was made last.
    pub fn planned(&self) -> Option<CommitId> {
        self.status.borrow().sources.get(&self.source).and_then(|source| source.planned.clone())
    }

    /// Publishes the Lease. Readers do not hear of it: it is renewed every few seconds.
    pub fn leased(&self, lease: LeaseStatus) {
        self.change(|source| {
            source.lease = Some(lease);
            false
        });
    }

    /// Says that another daemon follows the source; whether that is news.
    pub fn says_standby(&self, message: &str) -> bool {
        self.change(|source| set(&mut source.obstacles.standby, true));
        self.says_waiting(message)
    }

    /// Says that it waits for nobody any more.
    pub fn waits_no_longer(&self) {
        self.change(|source| source.obstacles.waits.take().is_some() | set(&mut source.obstacles.standby, false));
    }

    /// Publishes the thing that all of it waits for; returns true if that is news.
    pub fn says_waiting(&self, message: &str) -> bool {
        let mut news = false;
        self.change(|source| {
            news = set(&mut source.obstacles.waits, Some(message.to_owned()));
            news
        });
        news
    }

    /// Says that something is in the way, or, with `None`, that it no longer is.
    pub fn trouble(&self, obstacle: &Obstacle, message: Option<String>) {
        self.change(|source| put_or_remove(&mut source.obstacles.trouble, obstacle, message));
    }

    /// Says that something is in the way of an object, or, with `None`, that it no longer is.
    pub fn object_trouble(&self, key: &ObjectKey, message: Option<String>) {
        self.trouble(&Obstacle::Object(key.clone()), message);
    }

    /// Says which units a tool has rendered for long by now.
    pub fn rendering(&self, units: &BTreeSet<Arc<str>>) {
        self.change(|source| set(&mut source.obstacles.rendering, units.clone()));
    }

    /// Returns true if this daemon follows a source of this name.
    pub fn follows(&self, source: &str) -> bool {
        self.status.borrow().sources.contains_key(source)
    }

    /// Says of another source of this daemon that something is in its way. Nothing happens where it has none of that
    /// name: it is another daemon's.
    pub fn trouble_of(&self, other: &str, obstacle: &Obstacle, message: Option<String>) {
        self.status.send_if_modified(|status| {
            let Some(source) = status.sources.get_mut(other) else { return false };
            put_or_remove(&mut source.obstacles.trouble, obstacle, message)
        });
    }
}

/// Writes a field; whether it had another value.
pub fn set<T: PartialEq>(field: &mut T, value: T) -> bool {
    let differs = *field != value;
    *field = value;
    differs
}

/// Puts a value at a key, or with `None` removes the present one; returns true if that changes anything.
pub fn put_or_remove<Q, K, V>(map: &mut BTreeMap<K, V>, key: &Q, value: Option<V>) -> bool
where
    K: Ord + Borrow<Q>,
    Q: Ord + ToOwned<Owned = K> + ?Sized,
    V: PartialEq,
{
    match (map.get_mut(key), value) {
        (Some(old), Some(new)) => set(old, new),
        (None, Some(new)) => map.insert(key.to_owned(), new).is_none(),
        (old, None) => old.is_some() && map.remove(key).is_some(),
    }
}

fn by_name<S: serde::Serializer, T: Serialize>(map: &BTreeMap<ObjectKey, T>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().map(|(key, value)| (key.to_string(), value)))
}

fn as_state<S: serde::Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    outcome.state().serialize(serializer)
}
