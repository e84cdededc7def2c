//! The decision about an event: the state changes, and the effects follow. Nothing here waits, asks or writes: the same
//! state, event and time always give the same effects. The facts that a decision needs come with its event.

use tokio::time::Instant;

use super::corrections::not_written_down;
use super::drift_events::{begun, checked, compared, disturbed, gone, listed, looked_for, rescaled, search_put_off};
use super::event::{Effect, Event};
use super::fetch_events::{look, look_asked, looked, pushed};
use super::forgotten::{history_lost, look_overtaken, panicked};
use super::known::State;
use super::live_events::pods_inspected;
use super::plan_events::{awaited, claimed, plan_recorded, planned};
use super::retry_events::{due, retried, retry_at_once};
use super::rollout_events::{ended, fault, reopened, stopped, superseded};
use super::startup;

/// Decides about an event.
pub fn on(state: &mut State, event: Event, now: Instant) -> Vec<Effect> {
    match event {
        Event::Resumed { before, at } => startup::resumed(state, *before, at, now),
        Event::Rests { rest, message, at } => startup::rests(state, rest, message, at, now),
        Event::HistoryLost => history_lost(state, now),
        Event::Panicked => panicked(state, now),
        Event::LookAsked => look_asked(state, now),
        Event::Pushed => pushed(state, now),
        Event::RetryAsked(names) => retry_at_once(state, |key| names.contains(&key.to_string()), now),
        Event::Came(objects) => retry_at_once(state, |key| objects.contains(key), now),
        Event::LookDue { at } => look(state, at, now),
        Event::Looked { seen, kept, at } => looked(state, seen, kept, at, now),
        Event::LookOvertaken => look_overtaken(state),
        Event::Awaited(number, let_through) => awaited(state, number, let_through, now),
        Event::Planned { number, plan } => planned(state, number, plan),
        Event::PlanRecorded { record, is_lost } => plan_recorded(state, record, is_lost, now),
        Event::Superseded { by } => superseded(state, &by),
        Event::Due => due(state, now),
        Event::SearchPutOff => search_put_off(state, now),
        Event::NotWritten(prepared) => not_written_down(state, &prepared, now),
        Event::PodsInspected(found) => pods_inspected(state, found),
        Event::Claimed(owner, key) => claimed(state, owner, key),
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
