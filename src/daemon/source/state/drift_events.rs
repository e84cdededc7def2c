//! Events about live objects that may differ from the head: when they are checked, and the consequences.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::corrections::{correct, name_writer};
use super::drift::DEBOUNCE;
use super::event::{Effect, Start};
use super::known::State;
use super::retries::RetryCause;
use crate::config::Drift;
use crate::daemon::live::recheck::{Dependencies, Recheck};
use crate::daemon::publish::dispute::Dispute;
use crate::daemon::repository::prepared::Prepared;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{DependencyStanding, Outcome, PlanStep, ReasonCode, Trigger};

/// The longest time that a controller whose pods somebody replaces by hand may make no progress before it is corrected.
/// The command itself gives up after 5 minutes, if nobody said otherwise.
const ROLLED_FOR: Duration = Duration::from_mins(10);

/// Looks into the objects whose time has come. Nothing is compared while a head is planned, or another comparison is
/// under way.
pub fn look_into(state: &mut State, now: Instant) -> Vec<Effect> {
    if state.next_look().is_none_or(|at| at > now) {
        return Vec::new();
    }
    let mut rechecks: Vec<Recheck> = Vec::new();
    let mut under_check = BTreeMap::new();
    for key in state.drift.take_due(now) {
        if state.rollouts.is_under_way(&key) {
            continue;
        }
        if let Some(until) = state.is_being_rolled(&key, now) {
            state.drift.recheck_at(key, until);
            continue;
        }
        let seen = state.live.get(&key).and_then(|facts| facts.seen);
        rechecks.extend(state.recheck(&key));
        under_check.insert(key, seen);
    }
    state.drift.begin_check(under_check, !rechecks.is_empty());
    let plan = state.planning.newest();
    let mut effects = Vec::new();
    if !rechecks.is_empty() {
        effects.push(Effect::Check { plan, rechecks });
    }
    if state.prune_search.begin_if_due(now) {
        effects.push(Effect::Search { plan });
    }
    effects
}

/// Takes the result of the search for objects that have left the repository.
pub fn looked_for(
    state: &mut State,
    plan: u64,
    prepared: Vec<Prepared>,
    searched: Option<bool>,
    now: Instant,
) -> Vec<Effect> {
    state.prune_search.end(searched);
    // A newer head may differ; if it does not, the findings hold, or commits would keep them from ever counting.
    let is_known = state.desired.unreadable().next().is_none() && !state.fetch.is_away();
    if state.planning.is_running() || state.desired.is_forgotten() || plan != state.planning.newest() && !is_known {
        overtaken(state, prepared, now);
        search_on(state, now);
        return Vec::new();
    }
    let (desired, mut prepared) = (Arc::clone(&state.desired), prepared);
    prepared.retain(|one| !desired.mentions(&one.planned.wanted.key));
    take_up_all(state, prepared, now)
}

/// Searches later: nothing is deleted for now, because a file can't be read, or the repository does not answer.
pub fn search_put_off(state: &mut State, now: Instant) -> Vec<Effect> {
    state.prune_search.put_off();
    search_on(state, now);
    Vec::new()
}

fn take_up_all(state: &mut State, prepared: Vec<Prepared>, now: Instant) -> Vec<Effect> {
    let (mut effects, mut start) = (Vec::new(), Start::default());
    prepared.into_iter().for_each(|prepared| take_up(state, prepared, &mut effects, &mut start, now));
    if start != Start::default() {
        effects.push(Effect::Start(start));
    }
    search_on(state, now);
    effects
}

/// Takes the result of a check.
pub fn checked(state: &mut State, plan: u64, mut prepared: Vec<Prepared>, now: Instant) -> Vec<Effect> {
    for key in state.drift.end_check() {
        prepared.retain(|one| one.planned.wanted.key != key);
        state.drift.recheck_after(key, Duration::ZERO, now);
    }
    if plan != state.planning.newest() {
        overtaken(state, prepared, now);
        return Vec::new();
    }
    take_up_all(state, prepared, now)
}

/// Decides about an object that was checked, or tried again.
pub fn take_up(state: &mut State, mut prepared: Prepared, effects: &mut Vec<Effect>, start: &mut Start, now: Instant) {
    let key = prepared.planned.wanted.key.clone();
    if state.rollouts.is_under_way(&key) {
        state.forget_retry(&key, effects);
        return;
    }
    if state.rollouts.resumed(&key).is_some() {
        // An object that was applied before it waited is still judged.
        state.note_continued(&mut prepared);
    }
    if let Some(record) = state.rollouts.take_resumed(&key) {
        if !matches!(prepared.planned.step, PlanStep::Wait(_)) {
            state.retries.forget(&key);
        }
        effects.push(Effect::NoTrouble(key));
        prepared.resume(Some(&record));
        start.resumed.push((record, prepared));
        return;
    }
    name_writer(&mut prepared);
    let was_refused = state.retries.cause(&key) == Some(RetryCause::Refused);
    if state.put_off(&prepared, effects, now) {
        return;
    }
    if let Some(digest) = prepared.digest {
        state.live.note_in_sync(&key, digest);
        state.drift.forget_report(&key);
        effects.push(Effect::NoDrift(key.clone()));
        effects.extend(quiet(state, &key, now));
    }
    prepared.continues_rollout = state.is_to_be_judged(&prepared);
    if matches!(prepared.planned.step, PlanStep::Apply(_)) {
        // A rolling update that failed may be left half-way.
        prepared.resume(None);
    }
    match &prepared.planned.step {
        PlanStep::Apply(_) => correct(state, prepared, effects, start, now),
        PlanStep::Unchanged
            if prepared.continues_rollout
                || was_refused
                || prepared.recorded.was_suspended()
                || is_left_canary(state, &prepared) =>
        {
            prepared.resume(None);
            start.new.push(prepared);
        }
        PlanStep::Rejected(reason, _) => {
            let (reason, fields) = (reason.clone(), prepared.foreign.clone());
            let is_told = prepared.recorded.newest.as_ref().is_some_and(|(end, _)| *end == Outcome::Rejected);
            if reason.code != ReasonCode::ClaimedTwice && !is_told {
                effects.push(Effect::CantCorrect { key, fields, reason: reason.clone() });
            }
            effects.push(Effect::Claim(Box::new(prepared), reason));
        }
        PlanStep::Prune => start.new.push(prepared),
        PlanStep::Held(_) if prepared.was_suspended_on_its_way_back() => {
            prepared.planned.wanted.trigger = Trigger::Retry;
            prepared.resume(None);
            start.new.push(prepared);
        }
        // Somebody deletes it: it is created again as soon as it is gone, and is not complete until then.
        PlanStep::Wait(reason) if reason.code == ReasonCode::DeletionHangs => {
            name_writer(&mut prepared);
            start.new.push(prepared);
        }
        _ => {}
    }
}

/// Returns true when a live workload is at a step of a canary and nobody carries that on, as after a restore of etcd: its locks would
/// stay.
fn is_left_canary(state: &State, prepared: &Prepared) -> bool {
    let is_canary = prepared.live.as_ref().is_some_and(|live| live.canary.is_some());
    is_canary && !prepared.recorded.is_left_failed && state.settings.drift == Drift::Correct
}

/// Rechecks objects later: a newer head has come while they were checked, and its plan differs, or will.
fn overtaken(state: &mut State, prepared: Vec<Prepared>, now: Instant) {
    for prepared in prepared {
        match &prepared.planned.step {
            PlanStep::Prune => {
                state.prune_search.search_all_again();
                state.prune_search.search_at(now + DEBOUNCE);
            }
            _ => state.drift.recheck_after(prepared.planned.wanted.key, Duration::ZERO, now),
        }
    }
}

/// Ends a disagreement about an object that is as in the head: after a while, with another check.
pub fn quiet(state: &mut State, key: &ObjectKey, now: Instant) -> Option<Effect> {
    let at = state.disputes.quiet_at(key)?;
    if at > now {
        state.drift.check_once_more(key.clone(), at);
        return None;
    }
    state.drift.forget_check(key);
    Some(Effect::Disagree { key: key.clone(), dispute: None })
}

/// Records a rollout that was to begin without a new head.
pub fn begun(state: &mut State, key: &ObjectKey) -> Vec<Effect> {
    state.live.forget_released(key);
    Vec::new()
}

/// Others have kept changing an object while it was rolled out: that counts like corrections.
pub fn disturbed(state: &mut State, key: &ObjectKey, dispute: &Dispute, now: Instant) -> Vec<Effect> {
    state.disputes.count_many(key, dispute, now);
    vec![Effect::Disagree { key: key.clone(), dispute: state.disputes.about(key, now) }]
}

/// Takes the news that kinds may be left that could not be searched.
pub fn search_left(state: &mut State, now: Instant) -> Vec<Effect> {
    search_on(state, now);
    Vec::new()
}

/// Checks an object that may not be as it should be.
pub fn may_differ(state: &mut State, key: ObjectKey, now: Instant) -> Vec<Effect> {
    state.drift.recheck_after(key, Duration::ZERO, now);
    Vec::new()
}

/// Takes up an object that was left alone: it was told before that it differs; from here on that is put right.
pub fn suspension_over(state: &mut State, key: &ObjectKey) -> Vec<Effect> {
    state.drift.forget_report(key);
    Vec::new()
}

/// Schedules another search of the kinds that could not be searched.
fn search_on(state: &mut State, now: Instant) {
    if state.settings.prune {
        state.prune_search.search_on(now);
    }
}

/// Takes the comparison of a live object with its manifest. If the result is not certain, the object is checked.
pub fn compared(state: &mut State, key: ObjectKey, digest: u64, in_sync: bool, now: Instant) -> Vec<Effect> {
    if !state.drift.end_comparison(&key, digest) {
        return Vec::new();
    }
    let is_same = state.live.get(&key).is_some_and(|facts| facts.seen == Some(digest));
    if !is_same || state.rollouts.is_under_way(&key) {
        // It is gone, or the work that began since checks it when it ends.
        return Vec::new();
    }
    if in_sync {
        return found_in_sync(state, key, digest, now);
    }
    state.drift.recheck_after(key, Duration::ZERO, now);
    Vec::new()
}

/// Takes the news that a live object is as in the head.
pub fn found_in_sync(state: &mut State, key: ObjectKey, digest: u64, now: Instant) -> Vec<Effect> {
    if state.live.get(&key).is_some_and(|facts| facts.suspended) {
        return Vec::new();
    }
    state.live.note_in_sync(&key, digest);
    state.drift.in_sync(&key);
    let quiet = quiet(state, &key, now);
    std::iter::once(Effect::NoDrift(key)).chain(quiet).collect()
}

/// Rechecks the missing objects of a kind, now that all of its objects are known.
pub fn listed(state: &mut State, group: &str, kind: &str, now: Instant) -> Vec<Effect> {
    let missing: Vec<ObjectKey> = state
        .desired
        .keys()
        .filter(|key| key.kind == kind && key.group == group)
        .filter(|key| !state.live.has(key) && !state.rollouts.is_under_way(key))
        .filter(|key| !state.drift.is_reported(key, None))
        .cloned()
        .collect();
    missing.into_iter().for_each(|key| state.drift.recheck_after(key, Duration::ZERO, now));
    if state.settings.prune {
        state.prune_search.search_at(now + DEBOUNCE);
    }
    Vec::new()
}

/// Takes the news that an object is not there any more.
pub fn gone(state: &mut State, key: ObjectKey, now: Instant) -> Vec<Effect> {
    state.live.remove(&key);
    state.unhealthy.note(&key, true, now);
    state.drift.forget_comparison(&key);
    if !state.rollouts.is_under_way(&key) && state.desired.has(&key) {
        state.drift.recheck_after(key, Duration::ZERO, now);
    }
    Vec::new()
}

/// Rechecks an object that an autoscaler scales from now on, or no longer.
pub fn rescaled(state: &mut State, keys: Vec<ObjectKey>, now: Instant) -> Vec<Effect> {
    if state.planning.planned().is_none() {
        return Vec::new();
    }
    for key in keys {
        if state.desired.has(&key) && !state.rollouts.is_under_way(&key) {
            state.drift.recheck_after(key, Duration::ZERO, now);
        }
    }
    Vec::new()
}

impl State {
    /// Returns true when the search for objects that have left the repository is under way, is due, or has not been
    /// done since the start.
    pub fn awaits_search(&self, now: Instant) -> bool {
        self.settings.prune && self.prune_search.is_new() || self.prune_search.is_awaited(now)
    }

    /// Returns when an object is to be checked or tried again next.
    pub fn next_check(&self) -> Option<Instant> {
        let retry = self.retries.next_due().filter(|_| self.knows_its_head());
        self.next_look().into_iter().chain(retry).min()
    }

    /// Returns true when a head was planned, and its repository need not be read again.
    pub fn knows_its_head(&self) -> bool {
        self.planning.planned().is_some() && !self.desired.is_forgotten()
    }

    /// Returns when an object is to be checked next; `None` while that has to wait for something else.
    fn next_look(&self) -> Option<Instant> {
        if self.drift.is_checking() || self.planning.is_running() || !self.knows_its_head() {
            return None;
        }
        self.drift.next_due().into_iter().chain(self.prune_search.next()).min()
    }

    /// Returns the known facts about an object that may have to be applied again.
    pub fn recheck(&self, key: &ObjectKey) -> Option<Recheck> {
        if self.planning.contradicted().contains_key(key) || !self.desired.has(key) {
            return None;
        }
        let dependencies = self.desired.after_of(key).map(|after| {
            let standings = after.names.iter().map(|name| (name.clone(), self.dependency(name))).collect();
            Dependencies { after, standings }
        });
        let released = self.live.get(key).and_then(|facts| facts.released.as_deref().cloned());
        Some(Recheck { key: key.clone(), resumed: self.rollouts.resumed(key).cloned(), released, dependencies })
    }

    /// Returns the standing of an object that others wait for, without the history's facts.
    pub fn dependency(&self, name: &ObjectKey) -> DependencyStanding {
        DependencyStanding {
            under_way: self.rollouts.has(name),
            newest: None,
            complete: self.live.get(name).map(|facts| facts.complete),
        }
    }

    /// Returns until when a controller is left alone because somebody is just rolling it with the command: that gets
    /// through, or it has not moved for long. A newer commit does not wait for it.
    fn is_being_rolled(&self, key: &ObjectKey, now: Instant) -> Option<Instant> {
        let until = self.rollouts.rolled_by_others_since(key)? + ROLLED_FOR;
        (until > now).then_some(until)
    }
}
