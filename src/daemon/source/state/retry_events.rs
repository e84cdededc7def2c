//! Events about objects that are tried again by themselves.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::drift_events::{look_into, take_up};
use super::event::{Effect, Start};
use super::known::State;
use super::retries::RetryCause;
use crate::daemon::live::recheck::Recheck;
use crate::daemon::planning::plan_parts::is_definition;
use crate::daemon::planning::refused::is_tried_again;
use crate::daemon::repository::prepared::Prepared;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{PlanStep, Reason, ReasonCode};

/// Tries due objects again, and checks objects that may differ from their manifests.
pub fn due(state: &mut State, now: Instant) -> Vec<Effect> {
    let mut effects = Vec::new();
    let tries = if state.knows_its_head() { tries(state, &mut effects, now) } else { Vec::new() };
    if !tries.is_empty() {
        effects.push(Effect::Retry(tries));
    }
    effects.extend(look_into(state, now));
    effects
}

fn tries(state: &mut State, effects: &mut Vec<Effect>, now: Instant) -> Vec<(Recheck, u64)> {
    let mut tries = Vec::new();
    for (key, number) in state.retries.take_due(now) {
        if state.definition_is_open(&key) {
            state.retries.put_off(&key, RetryCause::Waits, now);
            continue;
        }
        let recheck = state.recheck(&key).filter(|_| !state.rollouts.is_under_way(&key));
        match recheck {
            Some(recheck) => tries.push((recheck, number)),
            None => state.forget_retry(&key, effects),
        }
    }
    tries
}

/// Tries the objects of the list that `wanted` names at once.
pub fn retry_at_once(state: &mut State, wanted: impl Fn(&ObjectKey) -> bool, now: Instant) -> Vec<Effect> {
    state.retries.at_once_where(wanted, now);
    Vec::new()
}

/// Tries objects no more, and takes back what was said of the tries.
pub fn tries_over(state: &mut State, keys: &BTreeSet<ObjectKey>) -> Vec<Effect> {
    let mut effects = Vec::new();
    keys.iter().for_each(|key| state.forget_retry(key, &mut effects));
    effects
}

/// Tries an object later that was refused, or was waited for in vain.
pub fn refused(state: &mut State, key: &ObjectKey, now: Instant) -> Vec<Effect> {
    state.retries.put_off(key, RetryCause::Refused, now);
    Vec::new()
}

/// Takes the result of another try of an object.
pub fn retried(
    state: &mut State,
    key: &ObjectKey,
    number: u64,
    prepared: Option<Box<Prepared>>,
    now: Instant,
) -> Vec<Effect> {
    if !state.retries.ended(key, number) {
        return Vec::new();
    }
    let (mut effects, mut start) = (Vec::new(), Start::default());
    let Some(prepared) = prepared else {
        state.forget_retry(key, &mut effects);
        return effects;
    };
    take_up(state, *prepared, &mut effects, &mut start, now);
    if start != Start::default() {
        effects.push(Effect::Start(start));
    }
    effects
}

impl State {
    /// Tries an object no more, and takes back what was said of the tries.
    pub fn forget_retry(&mut self, key: &ObjectKey, effects: &mut Vec<Effect>) {
        if self.retries.cause(key).is_some_and(|cause| cause != RetryCause::Refused) {
            effects.push(Effect::NoTrouble(key.clone()));
        }
        self.retries.forget(key);
    }

    /// Puts an object without an open record off that can't be planned for now, or is refused. Returns whether nothing else is to
    /// be done about it.
    pub fn put_off(&mut self, prepared: &Prepared, effects: &mut Vec<Effect>, now: Instant) -> bool {
        let key = &prepared.planned.wanted.key;
        match &prepared.planned.step {
            // A deletion that nobody waits for yet gets a record; one that was given up stays so.
            PlanStep::Wait(reason) if reason.code != ReasonCode::DeletionHangs || self.retries.cause(key).is_some() => {
                if reason.code == ReasonCode::Missing {
                    effects.push(Effect::Missing(key.clone()));
                }
                if self.stays_given_up(key, reason) {
                    self.retries.put_off(key, RetryCause::Refused, now);
                    return true;
                }
                self.retries.put_off(key, cause_of(reason), now);
                effects.push(Effect::InTheWay(key.clone(), reason.message.clone()));
                true
            }
            PlanStep::Rejected(reason, _) if is_tried_again(reason) => {
                self.retries.put_off(key, RetryCause::Refused, now);
                effects.push(Effect::NoTrouble(key.clone()));
                effects.push(Effect::StillRefused(key.clone(), reason.clone()));
                false
            }
            _ => {
                if self.retries.cause(key).is_some() {
                    self.retries.forget(key);
                    effects.push(Effect::NoTrouble(key.clone()));
                }
                false
            }
        }
    }

    /// Returns true when an object was given up, or refused, and still can't be tried: that is told already, and there is no need
    /// to try it more often.
    fn stays_given_up(&self, key: &ObjectKey, reason: &Reason) -> bool {
        let is_over = matches!(reason.code, ReasonCode::Missing | ReasonCode::NotServed);
        is_over && self.retries.cause(key) == Some(RetryCause::Refused)
    }

    /// Returns true when the definition of an object's kind is about to change: the object is not tried against the old
    /// one.
    fn definition_is_open(&self, key: &ObjectKey) -> bool {
        let defines = |other: &ObjectKey| is_definition_of(other, key);
        self.rollouts.has_any(defines)
    }
}

/// Returns true when an object defines kinds of the group of another one.
pub fn is_definition_of(definition: &ObjectKey, key: &ObjectKey) -> bool {
    let group = definition.name.split_once('.').map(|(_, group)| group);
    is_definition(definition) && group == Some(key.group.as_str())
}

/// Returns why a waiting object is tried again.
pub fn cause_of(reason: &Reason) -> RetryCause {
    if reason.code.is_waited_for_with_a_limit() { RetryCause::Limited } else { RetryCause::Waits }
}
