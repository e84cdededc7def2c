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
//! deadlineSeconds   the longest time without progress; null where there is none
//! assumed     objects that are assumed to be there
//! warnings    what the server warns of
//! steps       at, act, version (old | new), names, detail (or null), counts after it
//!             act: sized | created | ready | available | not-ready | failing | ended | deleted | gone
//!             counts: old and new: pods, ready, available; stopping
//! pods        name, version, states: at, state
//!             state: starting | failing | ready | available | stopping | ended | gone
//! restarts    of all containers together
//! ```

use std::time::Duration;

use serde_json::{Value, json};

use super::bounds::{Bounds, Extreme};
use super::film::{Film, PodLife, State, Step};
use super::play::Ended;
use super::recording::Recording;
use crate::rollout::progress_deadline_seconds;

/// All of it.
pub(super) fn value(recording: &Recording, film: &Film, bounds: &Bounds, assumed: &[String], seed: u64) -> Value {
    let key = &recording.key;
    let (outcome, at, reason) = match &recording.end {
        Ended::Complete { at } => ("complete", at, None),
        Ended::Failed { at, reason } => ("failed", at, Some(reason)),
        Ended::Stuck { at, reason } => ("stuck", at, Some(reason)),
        Ended::Unfinished { at } => ("unfinished", at, None),
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
        "at": seconds(*at),
        "reason": reason.map(|reason| json!({"code": reason.code, "message": reason.message})),
        "deadlineSeconds": progress_deadline_seconds(key, &recording.after),
        "assumed": assumed,
        "warnings": recording.warnings,
        "steps": film.steps.iter().map(step).collect::<Vec<_>>(),
        "pods": film.pods.iter().map(pod).collect::<Vec<_>>(),
        "restarts": film.restarts,
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
