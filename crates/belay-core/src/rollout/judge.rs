//! Healths over time become a verdict: waiting, complete, or failed and why.
//!
//! The judge believes the object's own status, once it is about the generation that belay's write produced, with two
//! exceptions. A failure that stood there before the write is not this rollout's. And where the cluster's own deadline
//! can't fire (a revision that existed before keeps its `NewReplicaSetAvailable` until something moves; some kinds have
//! no deadline), the judge keeps one of its own. What looks like failure is only a suspicion until the pods have been
//! looked at: what the world has done to them is not the commit's fault.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::health::{Counters, Fault, Health, PodAccount, Standing, health};
use super::{PodSeen, Reason, Workload, marks, progress_deadline_seconds};
use crate::manifest::ObjectKey;

/// What the judge's own deadline allows beyond the cluster's, which should have the first word.
pub const GRACE: SignedDuration = SignedDuration::from_secs(15);

/// What both the cluster and the judge call a deadline that has passed.
const OVERDUE: &str = "ProgressDeadlineExceeded";

/// What a write left behind: where its judging starts. Kept in the history, so that a restart judges by the same measure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// The generation that the write produced.
    pub generation: i64,
    /// The mark of a failure that the object spoke of already when it was written.
    pub old_failure: Option<String>,
    /// Which object was written; empty where that is not known.
    #[serde(default)]
    pub uid: String,
}

impl Baseline {
    /// The baseline of a write, from the object that the API server answered.
    #[must_use]
    pub fn of(key: &ObjectKey, written: &Value) -> Baseline {
        // A Job runs once: where it has failed already, the answer to the write that made it was lost.
        let once = Workload::of(key) == Some(Workload::Job);
        let failure = health(key, written).and_then(|health| health.failure).filter(|_| !once);
        let old_failure = failure.map(|failure| failure.mark);
        Baseline { generation: marks::generation(written), old_failure, uid: marks::uid(written).to_owned() }
    }
}

/// Judges one rollout.
#[derive(Clone, Debug)]
pub struct Judge {
    key: ObjectKey,
    baseline: Baseline,
    budget: Option<SignedDuration>,
    observed: bool,
    paused: bool,
    /// The furthest that it has come. A pod that comes and goes makes no progress.
    best: Option<Counters>,
    progress_at: Timestamp,
    deadline: Option<SignedDuration>,
}

/// What the judge says of what it has seen so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not there yet.
    Waiting(Waiting),
    /// There.
    Complete,
    /// It looks like failure: [`Judge::rule`] decides when it has seen the pods.
    Suspect(Reason),
}

/// Why a rollout is not there yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What it waits for.
    pub on: WaitingOn,
    /// How far it is.
    pub counters: Counters,
    /// One sentence for people.
    pub message: String,
    /// When the judge's own deadline ends; `None` while none runs.
    pub until: Option<Timestamp>,
}

/// What a rollout waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingOn {
    /// The controller to see the write at all.
    Controller,
    /// Somebody to resume what is paused.
    Resume,
    /// Its pods.
    Pods,
}

/// What is to be seen of a workload whose rollout looks like failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// The pods of the present template.
    pub pods: Vec<PodAccount>,
    /// Why pods can't be made, where the workload says so.
    pub cannot_make_pods: Option<String>,
    /// A pod of another revision that its controller waits for before it goes on.
    pub held_up_by: Option<Box<PodSeen>>,
}

/// What the judge rules when it has seen the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The commit failed.
    Failed(Reason),
    /// The world is in the way: reported, waited for, never rolled back.
    World(Reason),
}

impl Judge {
    /// A judge of the rollout that a write at `now` began, or that belay took up again at `now`.
    #[must_use]
    pub fn new(key: ObjectKey, baseline: Baseline, now: Timestamp) -> Judge {
        Judge {
            key,
            baseline,
            budget: None,
            observed: false,
            paused: false,
            best: None,
            progress_at: now,
            deadline: None,
        }
    }

    /// Allows `budget` on top of the workload's own deadline, and the budget where the workload has none: for a rollback.
    #[must_use]
    pub fn with_budget(mut self, budget: SignedDuration) -> Judge {
        self.budget = Some(budget);
        self
    }

    /// Whether this is another object of the same name, whose generations are counted anew.
    #[must_use]
    pub fn is_of_another(&self, object: &Value) -> bool {
        !self.baseline.uid.is_empty() && self.baseline.uid != marks::uid(object)
    }

    /// Whether an object may have another specification than the write left: it is of a later generation, or of a kind
    /// without any. What is of an earlier one is from before the write: a watch may still tell of it.
    #[must_use]
    pub fn is_written_since(&self, object: &Value) -> bool {
        let generation = marks::generation(object);
        generation > self.baseline.generation || generation == 0
    }

    /// Looks at the object as it is at `now`.
    pub fn observe(&mut self, object: &Value, now: Timestamp) -> Verdict {
        let Some(health) = health(&self.key, object) else { return Verdict::Complete };
        self.deadline = self.own_deadline(object);
        // A clock that was set back must not put the deadline off.
        self.progress_at = self.progress_at.min(now);
        let generation = self.baseline.generation.max(marks::generation(object));
        if health.observed_generation < generation {
            self.progress_at = now;
            return Verdict::Waiting(self.waiting(
                WaitingOn::Controller,
                &health,
                "the controller has not seen the change yet",
            ));
        }
        if !self.observed {
            self.observed = true;
            self.progress_at = now;
        }
        self.note_progress(&health, now);
        let new_failure =
            health.failure.as_ref().filter(|failure| self.baseline.old_failure.as_ref() != Some(&failure.mark));
        match (health.standing, new_failure) {
            (Standing::Complete, _) => Verdict::Complete,
            (Standing::Paused, _) => Verdict::Waiting(self.waiting(WaitingOn::Resume, &health, &health.message)),
            // A way back has its budget, however short the cluster's own deadline is.
            (Standing::Failed, Some(failure)) if self.budget.is_none() || self.due().is_none_or(|due| due <= now) => {
                Verdict::Suspect(failure.reason.clone())
            }
            (Standing::Failed | Standing::Moving, _) => {
                Verdict::Waiting(self.waiting(WaitingOn::Pods, &health, &health.message))
            }
        }
    }

    /// When the judge's own deadline ends, if nothing moves until then; `None` while none runs.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        if !self.observed || self.paused {
            return None;
        }
        self.progress_at.checked_add(self.deadline?).ok()
    }

    /// Whether the judge's own deadline has passed at `now`, and what that looks like.
    #[must_use]
    pub fn overdue(&self, now: Timestamp) -> Option<Reason> {
        (now >= self.due()?).then(|| Reason {
            code: OVERDUE.to_owned(),
            message: "the rollout made no progress within its deadline".to_owned(),
        })
    }

    /// Rules on a suspicion, now that it has been looked at. After [`Ruling::World`] the judge waits for another whole
    /// deadline.
    pub fn rule(&mut self, suspicion: Reason, sight: &Sight, now: Timestamp) -> Ruling {
        // What has no pods of its own, and a Job, which does not try again, are believed.
        let own_word = suspicion.code != OVERDUE && matches!(Workload::of(&self.key), None | Some(Workload::Job));
        let worst = sight.pods.iter().max_by_key(|pod| pod.fault);
        match worst.map(|pod| (pod.fault, &pod.seen)) {
            Some((Fault::Commit | Fault::Young, seen)) => {
                Ruling::Failed(Reason { message: blame(&suspicion, seen), ..suspicion })
            }
            _ if own_word => Ruling::Failed(suspicion),
            _ if sight.cannot_make_pods.is_some() => {
                let message =
                    format!("{}: {}", suspicion.message, sight.cannot_make_pods.as_deref().unwrap_or_default());
                Ruling::Failed(Reason { message, ..suspicion })
            }
            worst => {
                self.progress_at = now;
                Ruling::World(in_the_way(&suspicion, worst, sight.held_up_by.as_deref()))
            }
        }
    }

    fn own_deadline(&self, object: &Value) -> Option<SignedDuration> {
        let own = progress_deadline_seconds(&self.key, object).map(SignedDuration::from_secs);
        match (own, self.budget) {
            (Some(own), Some(budget)) => Some(own.saturating_add(budget)),
            (None, Some(budget)) => Some(budget),
            (Some(own), None) => Some(own.saturating_add(GRACE)),
            (None, None) => None,
        }
    }

    fn note_progress(&mut self, health: &Health, now: Timestamp) {
        let paused = health.standing == Standing::Paused;
        // A pause stops the clock; resuming starts it anew, as Kubernetes does.
        let best = self.best.filter(|best| best.desired == health.counters.desired);
        let moved = best.is_none_or(|best| health.counters.progressed_since(&best));
        if moved || paused || self.paused {
            self.progress_at = now;
        }
        self.paused = paused;
        self.best = Some(best.map_or(health.counters, |best| health.counters.best_of(&best)));
    }

    fn waiting(&self, on: WaitingOn, health: &Health, message: &str) -> Waiting {
        Waiting { on, counters: health.counters, message: message.to_owned(), until: self.due() }
    }
}

/// What is in the way of a rollout whose pods are not at fault; `worst` is the worst of them.
fn in_the_way(suspicion: &Reason, worst: Option<(Fault, &PodSeen)>, held_up_by: Option<&PodSeen>) -> Reason {
    let (code, message) = match (worst, held_up_by) {
        (Some((Fault::World, seen)), _) => return Reason { code: seen.state.clone(), message: blame(suspicion, seen) },
        (_, Some(old)) => (
            "OldPodNotReady",
            format!(
                "its controller waits for pod {} of another revision, which is {}; where it can't recover, delete it: \
                 it is made again from the new template",
                old.name,
                state(old)
            ),
        ),
        (Some(_), None) => ("NotFinishing", "its new pods are well, but it does not finish".to_owned()),
        (None, None) => ("ControllerSilent", "its controller has made no pods".to_owned()),
    };
    Reason { code: code.to_owned(), message }
}

/// How much of a pod's message a reason quotes at most, in characters.
const MESSAGE: usize = 100;

/// `the rollout exceeded its progress deadline: web-7f9 ImagePullBackOff (container app): Back-off pulling image …`
fn blame(suspicion: &Reason, seen: &PodSeen) -> String {
    format!("{}: pod {} is {}", suspicion.message, seen.name, state(seen))
}

/// `ImagePullBackOff (container app): Back-off pulling image …`
fn state(seen: &PodSeen) -> String {
    let mut text = seen.state.clone();
    if let Some(container) = &seen.container {
        text.push_str(&format!(" (container {container}"));
        if let Some(code) = seen.exit_code {
            text.push_str(&format!(", exit code {code}"));
        }
        text.push(')');
    }
    if !seen.message.is_empty() {
        text.push_str(&format!(": {}", beginning(&seen.message)));
    }
    text
}

/// How a pod's message begins: what goes wrong comes first in it, and how that came about after it, colon by colon. All of
/// it is in the evidence.
fn beginning(message: &str) -> String {
    if message.chars().count() <= MESSAGE {
        return message.to_owned();
    }
    let cut: String = message.chars().take(MESSAGE).collect();
    let end = cut.rfind(": ").filter(|end| *end > 0).unwrap_or(cut.len());
    format!("{}…", &cut[..end])
}
