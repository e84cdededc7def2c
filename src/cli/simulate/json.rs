//! A rollout as JSON, for programs. Fields are only ever added. Times are seconds since the change.
//!
//! ```text
//! workload    kind, namespace, name
//! seed        of everything random: the same seed, the same rollout
//! desired     pods wanted
//! maxSurge, maxUnavailable   written: as in the manifest; pods: as it counts; null where the kind has none
//! bounds      atMost (or null), atLeast; most and least: pods, at; held
//! outcome     complete | failed | stuck | unfinished
//! at          when that was
//! reason      code and message, where it failed or is stuck
//! condition   what the workload itself said when it failed; null where it did not
//! back        how it was taken back, or null: revision, began; outcome, at and reason as above
//! deadlineSeconds   the longest time without progress; null where there is none
//! assumed     objects that are assumed to be there
//! warnings    what the server warns of
//! steps       at, act, version (old | new), names, detail (or null), counts after it
//!             act: sized | created | ready | available | not-ready | failing | ended | deleted | gone | failed |
//!             taken-back
//!             counts: old and new: pods, ready, available; stopping
//! pods        name, version, states: at, state
//!             state: starting | failing | ready | available | stopping | ended | gone
//! restarts    of all containers together
//! ```

use std::time::Duration;

use serde_json::{Value, json};

use super::bounds::{Bounds, Extreme};
use super::ended::{Back, Ended};
use super::film::{Film, PodLife, State, Step};
use super::recording::Recording;
use crate::rollout::progress_deadline_seconds;

/// All of it.
pub(super) fn value(recording: &Recording, film: &Film, bounds: &Bounds, assumed: &[String], seed: u64) -> Value {
    let key = &recording.key;
    let (outcome, reason) = ended(&recording.end);
    let condition = match &recording.end {
        Ended::Failed { condition, .. } => condition.as_deref(),
        _ => None,
    };
    let extreme = |extreme: Extreme| json!({"pods": extreme.pods, "at": seconds(extreme.at)});
    json!({
        "workload": {"kind": key.kind, "namespace": key.namespace, "name": key.name},
        "seed": seed,
        "desired": bounds.desired,
        "maxSurge": bounds.surge,
        "maxUnavailable": bounds.unavailable,
        "bounds": {
            "atMost": bounds.at_most,
            "atLeast": bounds.at_least,
            "most": extreme(bounds.most),
            "least": extreme(bounds.least),
            "held": bounds.held_at_most() && bounds.held_at_least(),
        },
        "outcome": outcome,
        "at": seconds(recording.end.at()),
        "reason": reason,
        "condition": condition,
        "back": recording.back.as_ref().map(back),
        "deadlineSeconds": progress_deadline_seconds(key, &recording.after),
        "assumed": assumed,
        "warnings": recording.warnings,
        "steps": film.steps.iter().map(step).collect::<Vec<_>>(),
        "pods": film.pods.iter().map(pod).collect::<Vec<_>>(),
        "restarts": film.restarts,
    })
}

/// The outcome in a word, and the reason.
fn ended(end: &Ended) -> (&'static str, Value) {
    let (outcome, reason) = match end {
        Ended::Complete { .. } => ("complete", None),
        Ended::Failed { reason, .. } => ("failed", Some(reason)),
        Ended::Stuck { reason, .. } => ("stuck", Some(reason)),
        Ended::Unfinished { .. } => ("unfinished", None),
    };
    (outcome, json!(reason.map(|reason| json!({"code": reason.code, "message": reason.message}))))
}

fn back(back: &Back) -> Value {
    let (outcome, reason) = ended(&back.end);
    json!({
        "revision": back.revision,
        "began": seconds(back.began),
        "outcome": outcome,
        "at": seconds(back.end.at()),
        "reason": reason,
    })
}

fn seconds(at: Duration) -> f64 {
    // To the millisecond, as the clock of the simulation goes.
    at.as_millis() as f64 / 1000.0
}

fn step(step: &Step) -> Value {
    json!({
        "at": seconds(step.at),
        "act": step.act,
        "version": step.side,
        "names": step.names,
        "detail": step.detail,
        "counts": step.counts,
    })
}

fn pod(pod: &PodLife) -> Value {
    let word = |state: State| match state {
        State::Starting => "starting",
        State::Failing => "failing",
        State::Ready => "ready",
        State::Available => "available",
        State::Stopping => "stopping",
        State::Ended => "ended",
        State::Gone => "gone",
    };
    let states = pod.states.iter().map(|(at, state)| json!({"at": seconds(*at), "state": word(*state)}));
    json!({"name": pod.name, "version": pod.side, "states": states.collect::<Vec<_>>()})
}
