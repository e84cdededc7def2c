//! A rollout as JSON, for programs. Fields are only ever added. Times are seconds since the change.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::bounds::{Bounds, Extreme, Limit};
use super::counts::{PodCounts, Side};
use super::ended::{Back, SimulationEnd};
use super::recording::Recording;
use super::timeline::{PodLife, RolloutEvent, State, Step, Timeline};
use belay_core::rollout::{Reason, progress_deadline_seconds};

/// The output of `belay simulate`. Times are seconds since the change.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct SimulateAnswer {
    /// The workload.
    workload: SimulatedWorkload,
    /// The seed of everything random: the same seed, the same rollout.
    seed: u64,
    /// Pods wanted.
    desired: u64,
    /// Number of pods above the wanted one that are allowed; null if the kind has no such bound.
    max_surge: Option<Limit>,
    /// Number of pods that may be missing; null if the kind has no such bound.
    max_unavailable: Option<Limit>,
    /// The bounds, and the extremes that were seen.
    bounds: BoundsAnswer,
    /// The outcome.
    outcome: OutcomeWord,
    /// When that was.
    at: f64,
    /// The reason, if it failed or is stuck; else null.
    reason: Option<Reason>,
    /// The workload's own condition when it failed; null if it did not.
    condition: Option<String>,
    /// The rollback; null if there was none.
    back: Option<BackAnswer>,
    /// The longest time without progress; null if there is none.
    deadline_seconds: Option<i64>,
    /// Objects that are assumed to be there.
    assumed: Vec<String>,
    /// The warnings of the server.
    warnings: Vec<String>,
    /// The events, in order.
    steps: Vec<SimulatedStep>,
    /// Every pod there was.
    pods: Vec<PodAnswer>,
    /// Restarts of all containers together.
    restarts: i64,
}

/// A workload that is simulated.
#[derive(Debug, Serialize, JsonSchema)]
struct SimulatedWorkload {
    /// The kind.
    kind: String,
    /// The namespace.
    namespace: Option<String>,
    /// The name.
    name: String,
}

/// The bounds, and the extremes that were seen.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BoundsAnswer {
    /// The most pods that are allowed; null if nothing bounds them.
    at_most: Option<u64>,
    /// The fewest pods that must be available.
    at_least: u64,
    /// The most that there were, and when first.
    most: ExtremeAnswer,
    /// The fewest that were available, and when first.
    least: ExtremeAnswer,
    /// True when both were held.
    held: bool,
}

/// The most or the fewest, and when first.
#[derive(Debug, Serialize, JsonSchema)]
struct ExtremeAnswer {
    /// The number of pods.
    pods: u64,
    /// When first.
    at: f64,
}

/// The outcome of a simulated rollout.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum OutcomeWord {
    /// Everything is there.
    Complete,
    /// It exceeded its deadline, or said that it failed.
    Failed,
    /// Nothing moves any more, and it has no deadline.
    Stuck,
    /// It still moves when the time is over.
    Unfinished,
}

/// The rollback of a failed rollout.
#[derive(Debug, Serialize, JsonSchema)]
struct BackAnswer {
    /// The revision that it went back to, by the number that it had; null if the cluster kept none.
    revision: Option<i64>,
    /// When the way back began.
    began: f64,
    /// The outcome of the rollback.
    outcome: OutcomeWord,
    /// When that was.
    at: f64,
    /// The reason, if the rollback failed or is stuck; else null.
    reason: Option<Reason>,
}

/// Something that happened to some pods of one version at one moment.
#[derive(Debug, Serialize, JsonSchema)]
struct SimulatedStep {
    /// When.
    at: f64,
    /// The event.
    act: RolloutEvent,
    /// To pods of which version.
    version: Side,
    /// The names of the pods, or of the ReplicaSet.
    names: Vec<String>,
    /// The size that the ReplicaSet is to have; the reason for which pods fail; the step of the canary; else null.
    detail: Option<String>,
    /// The numbers of pods after it.
    counts: PodCounts,
}

/// A pod from its creation to its end.
#[derive(Debug, Serialize, JsonSchema)]
struct PodAnswer {
    /// Its name.
    name: String,
    /// The version.
    version: Side,
    /// The states, in order.
    states: Vec<StateAnswer>,
}

/// The state of a pod from a moment on.
#[derive(Debug, Serialize, JsonSchema)]
struct StateAnswer {
    /// The beginning of the state.
    at: f64,
    /// The state.
    state: State,
}

/// Returns all of it.
pub(super) fn value(
    recording: &Recording,
    timeline: &Timeline,
    bounds: &Bounds,
    assumed: &[String],
    seed: u64,
) -> SimulateAnswer {
    let key = &recording.key;
    let (outcome, reason) = ended(&recording.end);
    let condition = match &recording.end {
        SimulationEnd::Failed { condition, .. } => condition.clone(),
        _ => None,
    };
    let extreme = |extreme: Extreme| ExtremeAnswer { pods: extreme.pods, at: seconds(extreme.at) };
    SimulateAnswer {
        workload: SimulatedWorkload {
            kind: key.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        },
        seed,
        desired: bounds.desired,
        max_surge: bounds.surge.clone(),
        max_unavailable: bounds.unavailable.clone(),
        bounds: BoundsAnswer {
            at_most: bounds.at_most,
            at_least: bounds.at_least,
            most: extreme(bounds.most),
            least: extreme(bounds.least),
            held: bounds.held_at_most() && bounds.held_at_least(),
        },
        outcome,
        at: seconds(recording.end.at()),
        reason,
        condition,
        back: recording.back.as_ref().map(back),
        deadline_seconds: progress_deadline_seconds(key, &recording.after),
        assumed: assumed.to_vec(),
        warnings: recording.warnings.clone(),
        steps: timeline.steps.iter().map(step).collect(),
        pods: timeline.pods.iter().map(pod).collect(),
        restarts: timeline.restarts,
    }
}

/// Returns the outcome in a word, and the reason.
fn ended(end: &SimulationEnd) -> (OutcomeWord, Option<Reason>) {
    match end {
        SimulationEnd::Complete { .. } => (OutcomeWord::Complete, None),
        SimulationEnd::Failed { reason, .. } => (OutcomeWord::Failed, Some(reason.clone())),
        SimulationEnd::Stuck { reason, .. } => (OutcomeWord::Stuck, Some(reason.clone())),
        SimulationEnd::Unfinished { .. } => (OutcomeWord::Unfinished, None),
    }
}

fn back(back: &Back) -> BackAnswer {
    let (outcome, reason) = ended(&back.end);
    BackAnswer { revision: back.revision, began: seconds(back.began), outcome, at: seconds(back.end.at()), reason }
}

fn seconds(at: Duration) -> f64 {
    // To the millisecond, as the clock of the simulation goes.
    at.as_millis() as f64 / 1000.0
}

fn step(step: &Step) -> SimulatedStep {
    SimulatedStep {
        at: seconds(step.at),
        act: step.act,
        version: step.side,
        names: step.names.clone(),
        detail: step.detail.clone(),
        counts: step.counts,
    }
}

fn pod(pod: &PodLife) -> PodAnswer {
    let states = pod.states.iter().map(|(at, state)| StateAnswer { at: seconds(*at), state: *state });
    PodAnswer { name: pod.name.clone(), version: pod.side, states: states.collect() }
}
