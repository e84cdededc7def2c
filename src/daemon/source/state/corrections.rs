//! Corrections of what somebody else has changed: which are made now, which later, and which are only reported.

use std::time::Duration;

use tokio::time::Instant;

use super::event::{Effect, Start};
use super::known::State;
use crate::config::Drift;
use crate::daemon::repository::prepared::Prepared;
use belay_core::rollout::{ForeignField, Hold, LiveProgress, PlanStep, Trigger, UNKNOWN_MANAGER, marks};

/// The wait before a correction is tried again that the history could not take.
const NOT_WRITTEN: Duration = Duration::from_secs(5);

/// Puts an object right that somebody else has changed, or reports it.
pub fn correct(state: &mut State, mut prepared: Prepared, effects: &mut Vec<Effect>, start: &mut Start, now: Instant) {
    let key = prepared.planned.wanted.key.clone();
    if let Some(hold) = rolled_by_command(state, &prepared) {
        // It is compared again if this fails. If it succeeds, the watch's next report ends that.
        state.drift.recheck_later(&key, now);
        effects.push(Effect::Adopt { prepared: Box::new(prepared), hold });
        return;
    }
    let retry = !matches!(prepared.planned.wanted.trigger, Trigger::Drift(_));
    if !retry && state.settings.drift == Drift::Report {
        state.drift.report(&key);
        let by = prepared.last_writer.unwrap_or_else(|| UNKNOWN_MANAGER.to_owned());
        effects.push(Effect::ReportDrift { key, served: prepared.served, by, fields: prepared.foreign });
        return;
    }
    if !retry && !may_correct(state, &prepared, effects, now) {
        return;
    }
    let may_be_undone = !retry || lost_its_hold_with_its_template(state, &prepared);
    if let PlanStep::Apply(apply) = &mut prepared.planned.step {
        apply.respects_undo = may_be_undone && apply.corrects_template();
    }
    start.corrections.push(prepared);
}

/// Names the writers who have changed an object that is corrected, in the order of the fields.
pub fn name_writer(prepared: &mut Prepared) {
    if let Trigger::Drift(by) = &mut prepared.planned.wanted.trigger {
        let mut writers: Vec<&str> = Vec::new();
        for field in &prepared.foreign {
            if !writers.contains(&field.manager.as_str()) {
                writers.push(&field.manager);
            }
        }
        *by = match (writers.is_empty(), &prepared.last_writer) {
            (false, _) => writers.join(", "),
            (true, Some(last)) => last.clone(),
            (true, None) => UNKNOWN_MANAGER.to_owned(),
        };
    }
}

/// Returns true when an object may be corrected now. Corrections of a field that somebody else keeps changing become
/// rarer each time.
fn may_correct(state: &mut State, prepared: &Prepared, effects: &mut Vec<Effect>, now: Instant) -> bool {
    let key = &prepared.planned.wanted.key;
    let fields = corrected_fields(prepared);
    let next = state.disputes.next(key, &fields, now);
    match next {
        Some(at) => state.drift.check_once_more(key.clone(), at),
        None => state.disputes.count(key, &fields, now),
    }
    if let Some(dispute) = state.disputes.about(key, now) {
        effects.push(Effect::Disagree { key: key.clone(), dispute: Some(dispute) });
    }
    next.is_none()
}

fn corrected_fields(prepared: &Prepared) -> Vec<ForeignField> {
    if !prepared.foreign.is_empty() {
        return prepared.foreign.clone();
    }
    let manager = prepared.last_writer.clone().unwrap_or_else(|| UNKNOWN_MANAGER.to_owned());
    vec![ForeignField { path: String::new(), manager }]
}

/// Takes the news that corrections could not be written down: they were not made, and are tried again soon.
pub fn not_written_down(state: &mut State, corrections: &[Prepared], now: Instant) -> Vec<Effect> {
    for prepared in corrections {
        let key = &prepared.planned.wanted.key;
        if matches!(prepared.planned.wanted.trigger, Trigger::Drift(_)) {
            state.disputes.take_back(key, &corrected_fields(prepared));
        }
        state.drift.recheck_after(key.clone(), NOT_WRITTEN, now);
    }
    Vec::new()
}

/// Returns the hold of a controller that somebody has rolled with the command. It stays as it was rolled, and is in the
/// history already: that its fields become belay's again is no drift.
fn rolled_by_command(state: &State, prepared: &Prepared) -> Option<Hold> {
    let wanted = &prepared.planned.wanted;
    let is_drift = matches!(wanted.trigger, Trigger::Drift(_)) && state.settings.drift == Drift::Correct;
    let by_command = prepared.last_writer.as_deref() == Some(marks::ROLLING_UPDATE_MANAGER);
    let PlanStep::Apply(apply) = &prepared.planned.step else { return None };
    let adopts = is_drift && by_command && !apply.rolls_out && !apply.creates && prepared.served.is_some();
    state.live.hold(&wanted.key).cloned().filter(|_| adopts)
}

/// Returns true when the hold went together with the template that it kept: an undo with kubectl brings the annotations
/// of another revision along. A person who only removes the hold leaves the template.
fn lost_its_hold_with_its_template(state: &State, prepared: &Prepared) -> bool {
    let held_at = state.live.get(&prepared.planned.wanted.key).and_then(|facts| facts.released.as_ref());
    let held_at = held_at.map(|hold| &hold.template).filter(|template| !template.is_empty());
    let live = prepared.live.as_ref().filter(|live| live.template.is_some());
    let is_at = |held_at: &String, live: &LiveProgress| {
        [&live.held_template, &live.template].into_iter().flatten().any(|present| present == held_at)
    };
    held_at.zip(live).is_some_and(|(held_at, live)| !is_at(held_at, live))
}
