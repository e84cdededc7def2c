//! The decision about an event: the state changes, and the effects follow. Nothing here waits, asks or writes: the same
//! state, event and time always give the same effects. The facts that a decision needs come with its event.

use tokio::time::Instant;

use super::drift_events::{begun, checked, compared, disturbed, gone, listed, looked_for, rescaled};
use super::event::{Effect, Event};
use super::fetch_events::{look, looked};
use super::known::State;
use super::plan_events::{awaited, plan_recorded, planned};
use super::retry_events::{due, retried};
use super::rollout_events::{ended, fault, reopened, stopped, superseded};

/// Decides about an event.
pub fn on(state: &mut State, event: Event, now: Instant) -> Vec<Effect> {
    match event {
        Event::LookDue { at } => look(state, at, now),
        Event::Looked { seen, kept, at } => looked(state, seen, kept, at, now),
        Event::Awaited(number, let_through) => awaited(state, number, let_through, now),
        Event::Planned { number, plan } => planned(state, number, plan),
        Event::PlanRecorded { record, is_lost } => plan_recorded(state, record, is_lost, now),
        Event::Superseded { by } => superseded(state, &by),
        Event::Due => due(state, now),
        Event::Checked { plan, prepared } => checked(state, plan, prepared, now),
        Event::Searched { plan, prepared, searched } => looked_for(state, plan, prepared, searched, now),
        Event::Retried { key, number, prepared } => retried(state, &key, number, prepared, now),
        Event::Begun { key } => begun(state, &key),
        Event::Compared { key, digest, in_sync } => compared(state, key, digest, in_sync, now),
        Event::Listed { group, kind } => listed(state, &group, &kind, now),
        Event::Gone(key) => gone(state, key, now),
        Event::Rescaled(keys) => rescaled(state, keys, now),
        Event::Disturbed { key, dispute } => disturbed(state, &key, &dispute, now),
        Event::Ended { key, outcome, trigger, took } => ended(state, &key, outcome, (trigger, took), now),
        Event::Stopped(key) => stopped(state, &key),
        Event::Fault { key, reason } => fault(state, &key, reason, now),
        Event::Reopened(record) => reopened(state, *record),
    }
}
