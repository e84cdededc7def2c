//! The decision about an event: the state changes, and the effects follow. Nothing here waits, asks or writes: the same
//! state, event and time always give the same effects. The facts that a decision needs come with its event.

use tokio::time::Instant;

use super::corrections::not_written_down;
use super::drift_events::{
    begun, checked, compared, disturbed, found_in_sync, gone, listed, looked_for, may_differ, rescaled, search_left,
    search_put_off, suspension_over,
};
use super::event::{Effect, Event};
use super::fetch_events::{look, look_asked, looked, pushed};
use super::known::State;
use super::live_events::{changed, pods_inspected, released, seen, standing_seen};
use super::manual_changes::autoscaled;
use super::plan_events::{awaited, claimed, head_taken, plan_begun, plan_recorded, planned};
use super::reset_events::{forget_head, history_lost, look_overtaken, panicked};
use super::retry_events::{due, refused, retried, retry_at_once, tries_over};
use super::rollout_events::{
    changed_by_hand, end_in_reading, end_read, ended, fault, interrupted, no_slot, passed_over, reopened, scheduled,
    stopped, superseded, under_way, wait_told, waits,
};
use super::startup;
use super::waiting::{definition_through, record_ended};

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
        Event::HeadTaken(desired) => head_taken(state, desired),
        Event::PlanBegun => plan_begun(state),
        Event::PlanDropped => forget_head(state),
        Event::SearchLeft => search_left(state, now),
        Event::TriesOver(keys) => tries_over(state, &keys),
        Event::Interrupted { key, is_judged } => interrupted(state, &key, is_judged),
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
        Event::Scheduled { key, digest } => scheduled(state, &key, digest),
        Event::UnderWay { key, rollout } => under_way(state, key, *rollout),
        Event::Waits(record) => waits(state, *record),
        Event::WaitTold { key, message } => wait_told(state, key, message),
        Event::NoSlot(key) => no_slot(state, key),
        Event::PassedOver(key) => passed_over(state, &key),
        Event::Refused(key) => refused(state, &key, now),
        Event::EndInReading => end_in_reading(state),
        Event::EndRead => end_read(state),
        Event::ChangedByHand { key, change } => changed_by_hand(state, key, *change),
        Event::Seen(key) => seen(state, &key, now),
        Event::Changed { key, change } => changed(state, &key, change, now),
        Event::Released(key) => released(state, &key, now),
        Event::StandingSeen { key, standing } => standing_seen(state, &key, standing, now),
        Event::Autoscaled(key) => autoscaled(state, &key, now),
        Event::DefinitionThrough(key) => definition_through(state, &key, now),
        Event::RecordEnded { key, outcome, reason } => record_ended(state, &key, outcome, reason.as_ref(), now),
        Event::SuspensionOver(key) => suspension_over(state, &key),
        Event::MayDiffer(key) => may_differ(state, key, now),
        Event::InSync { key, digest } => found_in_sync(state, key, digest, now),
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
