//! The content of a recording: steps, and each pod's life.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::change::same_pods;
pub(super) use super::counts::{PodCounts, Side};
use super::ended::SimulationEnd;
use super::recording::{Observation, ObservedAt, PodState, Recording};

/// A rollout, step by step.
pub(super) struct Timeline {
    pub steps: Vec<Step>,
    /// Every pod there was, the old ones first, each side in the order of their creation.
    pub pods: Vec<PodLife>,
    /// The state at the end of every moment with an event.
    pub moments: Vec<Moment>,
    /// When the rollout was over.
    pub over: Duration,
    /// The length of the timeline.
    pub length: Duration,
    /// The number of restarts of containers.
    pub restarts: i64,
}

/// The state at the end of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub at: Duration,
    pub counts: PodCounts,
    /// The number of pods that the ReplicaSets of a Deployment are to have together, if it is one; the most in this
    /// moment.
    pub meant: Option<i64>,
}

/// Something that happened to some pods of one version at one moment.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub at: Duration,
    pub act: RolloutEvent,
    pub side: Side,
    /// The names of the pods, or of the ReplicaSet.
    pub names: Vec<String>,
    /// The size that the ReplicaSet is to have; the reason for which pods fail; the step of the canary.
    pub detail: Option<String>,
    /// The numbers after it.
    pub counts: PodCounts,
}

/// The event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RolloutEvent {
    /// A ReplicaSet is to have another number of pods.
    Sized,
    Created,
    Ready,
    Available,
    NotReady,
    /// It can't be scheduled, pulled, started, or it crashed.
    Failing,
    /// All its containers have ended.
    Ended,
    /// Its deletion was requested.
    Deleted,
    Gone,
    /// A step of the canary begins, or all pods are replaced.
    CanaryStep,
    /// The rollout failed.
    Failed,
    /// The version before was put back.
    TakenBack,
}

/// A pod from its creation to its end.
#[derive(Clone, Debug)]
pub(super) struct PodLife {
    pub name: String,
    pub side: Side,
    /// The states, each with its beginning.
    pub states: Vec<(Duration, State)>,
}

/// The state of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    Starting,
    Failing,
    Ready,
    Available,
    Stopping,
    Ended,
    Gone,
}

impl Timeline {
    pub(super) fn of(recording: &Recording) -> Timeline {
        let mut builder = TimelineBuilder::new(recording);
        for seen in &recording.seen {
            builder.see(seen);
        }
        builder.turn();
        builder.pass(recording.length);
        builder.close();
        let restarts = builder.pods.values().map(|pod| i64::from(pod.seen.restarts)).sum();
        let mut pods: Vec<PodLife> = std::mem::take(&mut builder.lives);
        pods.sort_by_key(|pod| pod.side);
        let over = recording.back.as_ref().map_or(recording.end.at(), |back| back.end.at());
        let length = recording.length;
        Timeline { steps: builder.steps, pods, moments: builder.moments, over, length, restarts }
    }
}

/// Cuts a timeline.
struct TimelineBuilder<'r> {
    recording: &'r Recording,
    /// True when old and new pods are the same.
    same: bool,
    wait: Duration,
    old: BTreeSet<String>,
    pods: BTreeMap<String, Tracked>,
    lives: Vec<PodLife>,
    /// When pods become available that are not yet.
    soon: BTreeSet<(Duration, String)>,
    sizes: BTreeMap<String, i64>,
    meant: Option<i64>,
    counts: PodCounts,
    steps: Vec<Step>,
    moments: Vec<Moment>,
    at: Duration,
    /// True when the change was made.
    rolling: bool,
    /// True when the failure of the rollout was reported.
    turned: bool,
}

struct Tracked {
    seen: PodState,
    side: Side,
    available: bool,
    life: usize,
    troubles: BTreeSet<String>,
}

impl<'r> TimelineBuilder<'r> {
    fn new(recording: &'r Recording) -> TimelineBuilder<'r> {
        let seconds = recording.after["spec"]["minReadySeconds"].as_u64().unwrap_or(0);
        let before = recording.before.as_ref();
        TimelineBuilder {
            recording,
            same: before.is_some_and(|before| same_pods(before, &recording.after)),
            wait: Duration::from_secs(seconds),
            old: BTreeSet::new(),
            pods: BTreeMap::new(),
            lives: Vec::new(),
            soon: BTreeSet::new(),
            sizes: BTreeMap::new(),
            meant: None,
            counts: PodCounts::default(),
            steps: Vec::new(),
            moments: Vec::new(),
            at: Duration::ZERO,
            rolling: false,
            turned: false,
        }
    }

    fn see(&mut self, seen: &ObservedAt) {
        let changed = revision(&self.recording.after);
        if !self.rolling && seen.revision >= changed {
            self.rolling = true;
            self.close();
        }
        if self.recording.back.as_ref().is_some_and(|back| seen.revision >= revision(&back.written)) {
            self.turn();
        }
        self.pass(seen.at);
        match &seen.what {
            Observation::Pod(pod) => self.pod(pod),
            Observation::Gone(pod) => self.gone(pod),
            Observation::Sized { set, replicas } => self.sized(set, *replicas),
            Observation::CanaryStep(told) => {
                let name = self.recording.key.name.clone();
                self.step(RolloutEvent::CanaryStep, Side::New, name, Some(told.clone()));
            }
        }
    }

    /// Notes, once, that the rollout failed and is rolled back.
    fn turn(&mut self) {
        let recording = self.recording;
        let SimulationEnd::Failed { at, reason, condition } = &recording.end else { return };
        if std::mem::replace(&mut self.turned, true) {
            return;
        }
        self.pass(*at);
        let name = &recording.key.name;
        let why = condition.clone().unwrap_or_else(|| reason.code.to_string());
        self.step(RolloutEvent::Failed, Side::New, name.clone(), Some(why));
        if let Some(back) = &recording.back {
            self.pass(back.began);
            let to = back.revision.map(|revision| format!("to revision {revision}"));
            self.step(RolloutEvent::TakenBack, Side::Old, name.clone(), to);
        }
    }

    /// Lets time pass: pods become available, moments end.
    fn pass(&mut self, at: Duration) {
        while let Some((due, uid)) = self.soon.first().filter(|(due, _)| *due <= at).cloned() {
            self.soon.remove(&(due, uid.clone()));
            self.tick(due);
            if let Some(pod) = self.pods.get_mut(&uid) {
                pod.available = true;
                let (side, name) = (pod.side, pod.seen.name.clone());
                self.counts.side(side).available += 1;
                self.step(RolloutEvent::Available, side, name, None);
                self.state(&uid, State::Available);
            }
        }
        self.tick(at);
    }

    fn tick(&mut self, at: Duration) {
        if at > self.at {
            self.close();
            self.at = at;
        }
    }

    /// Ends a moment.
    fn close(&mut self) {
        let moment = Moment { at: self.at, counts: self.counts, meant: self.meant };
        self.meant = (!self.sizes.is_empty()).then(|| self.sizes.values().sum());
        match self.moments.last_mut() {
            Some(last) if last.at == moment.at && self.rolling => *last = moment,
            Some(last) if (last.counts, last.meant) == (moment.counts, moment.meant) => {}
            _ => self.moments.push(moment),
        }
    }

    fn pod(&mut self, seen: &PodState) {
        let uid = seen.uid.clone();
        if !self.pods.contains_key(&uid) {
            self.arrive(seen);
        }
        let Some(pod) = self.pods.get_mut(&uid) else { return };
        let before = std::mem::replace(&mut pod.seen, seen.clone());
        let (side, name, was_available) = (pod.side, seen.name.clone(), pod.available);
        let counted = |pod: &PodState| !pod.stopping && !pod.ended;
        if counted(&before) && !counted(seen) {
            pod.available = false;
            let size = self.counts.side(side);
            size.pods -= 1;
            size.ready -= u64::from(before.ready.is_some());
            size.available -= u64::from(was_available);
            self.soon.retain(|(_, waiting)| *waiting != uid);
        }
        if seen.stopping && !before.stopping {
            self.counts.stopping += 1;
            self.step(RolloutEvent::Deleted, side, name, None);
            self.state(&uid, State::Stopping);
        } else if seen.ended && !before.ended && !seen.stopping {
            self.step(RolloutEvent::Ended, side, name, seen.trouble.clone());
            self.state(&uid, State::Ended);
        } else if counted(seen) {
            self.readiness(&uid, &before, seen, side);
        }
    }

    fn arrive(&mut self, seen: &PodState) {
        let known = !seen.hash.is_empty();
        let side = match (self.rolling, known) {
            (false, _) => Side::Old,
            (true, true) if self.old.contains(&seen.hash) => Side::Old,
            (true, false) if self.same => Side::Old,
            (true, _) => Side::New,
        };
        if !self.rolling {
            self.old.insert(seen.hash.clone());
        }
        let fresh = PodState { ready: None, stopping: false, ended: false, trouble: None, ..seen.clone() };
        let tracked =
            Tracked { seen: fresh, side, available: false, life: self.lives.len(), troubles: BTreeSet::new() };
        self.lives.push(PodLife { name: seen.name.clone(), side, states: vec![(self.at, State::Starting)] });
        self.pods.insert(seen.uid.clone(), tracked);
        self.counts.side(side).pods += 1;
        self.step(RolloutEvent::Created, side, seen.name.clone(), None);
    }

    fn readiness(&mut self, uid: &str, before: &PodState, seen: &PodState, side: Side) {
        match (before.ready, seen.ready) {
            (None, Some(since)) => {
                self.counts.side(side).ready += 1;
                let available = self.available_at(since);
                if available <= self.at {
                    self.counts.side(side).available += 1;
                    self.pods.entry(uid.to_owned()).and_modify(|pod| pod.available = true);
                } else {
                    self.soon.insert((available, uid.to_owned()));
                }
                self.step(RolloutEvent::Ready, side, seen.name.clone(), None);
                self.state(uid, if available <= self.at { State::Available } else { State::Ready });
            }
            (Some(_), None) => {
                self.soon.retain(|(_, waiting)| waiting != uid);
                let available = self.pods.get_mut(uid).is_some_and(|pod| std::mem::take(&mut pod.available));
                let size = self.counts.side(side);
                size.ready -= 1;
                size.available -= u64::from(available);
                self.step(RolloutEvent::NotReady, side, seen.name.clone(), None);
                self.state(uid, State::Starting);
            }
            _ => {}
        }
        if before.trouble == seen.trouble {
            return;
        }
        match &seen.trouble {
            Some(trouble) => {
                self.state(uid, State::Failing);
                // If it goes on and on, the first time is reported.
                let new = self.pods.get_mut(uid).is_some_and(|pod| pod.troubles.insert(trouble.clone()));
                if new {
                    self.step(RolloutEvent::Failing, side, seen.name.clone(), Some(trouble.clone()));
                }
            }
            None if seen.ready.is_none() => self.state(uid, State::Starting),
            None => {}
        }
    }

    fn gone(&mut self, seen: &PodState) {
        self.pod(seen);
        let Some(pod) = self.pods.get(&seen.uid) else { return };
        let (side, stopping, ended) = (pod.side, pod.seen.stopping, pod.seen.ended);
        if stopping {
            self.counts.stopping -= 1;
        } else if !ended {
            // Deleted at once.
            let (ready, available) = (pod.seen.ready.is_some(), pod.available);
            let size = self.counts.side(side);
            size.pods -= 1;
            size.ready -= u64::from(ready);
            size.available -= u64::from(available);
        }
        self.soon.retain(|(_, waiting)| *waiting != seen.uid);
        self.step(RolloutEvent::Gone, side, seen.name.clone(), None);
        self.state(&seen.uid, State::Gone);
    }

    fn sized(&mut self, set: &str, replicas: i64) {
        let before = self.sizes.insert(set.to_owned(), replicas);
        let sum = self.sizes.values().sum();
        self.meant = Some(self.meant.map_or(sum, |meant: i64| meant.max(sum)));
        if before == Some(replicas) || !self.rolling {
            return;
        }
        let hash = set.rsplit('-').next().unwrap_or_default();
        let side = if self.old.contains(hash) { Side::Old } else { Side::New };
        self.step(RolloutEvent::Sized, side, set.to_owned(), Some(replicas.to_string()));
    }

    /// Adds a step, or a name to the one before, if it is the same.
    fn step(&mut self, act: RolloutEvent, side: Side, name: String, detail: Option<String>) {
        if !self.rolling {
            return;
        }
        let (at, counts) = (self.at, self.counts);
        match self.steps.last_mut() {
            Some(last)
                if act != RolloutEvent::Sized
                    && (last.at, last.act, last.side, &last.detail) == (at, act, side, &detail) =>
            {
                last.names.push(name);
                last.counts = counts;
            }
            _ => self.steps.push(Step { at, act, side, names: vec![name], detail, counts }),
        }
    }

    fn state(&mut self, uid: &str, state: State) {
        let Some(life) = self.pods.get(uid).map(|pod| pod.life) else { return };
        let states = &mut self.lives[life].states;
        match states.last_mut() {
            Some(last) if last.0 == self.at => last.1 = state,
            Some(last) if last.1 == state => {}
            _ => states.push((self.at, state)),
        }
    }

    /// Returns when a pod becomes available that is ready since a moment, which may lie before the change.
    fn available_at(&self, ready: Timestamp) -> Duration {
        let wait = SignedDuration::try_from(self.wait).unwrap_or(SignedDuration::MAX);
        let since_change = ready.duration_since(self.recording.start).saturating_add(wait);
        Duration::try_from(since_change).unwrap_or_default()
    }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}
