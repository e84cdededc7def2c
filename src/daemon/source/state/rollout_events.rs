//! Events about rollouts: those that give way to a newer commit, and the consequences of an end.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::event::Effect;
use super::known::State;
use super::retries::RetryCause;
use super::rollouts::Rollout;
use crate::daemon::rollout::rollback::manual_rollback::ByHand;
use crate::telemetry::Took;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Outcome, Reason, Record, Trigger};

/// Ends the rollouts of a new head's objects that are under way. An unfinished rollout is still judged as the new
/// head's, if that leaves its template alone.
pub fn superseded(state: &mut State, by: &BTreeMap<ObjectKey, CommitId>) -> Vec<Effect> {
    for key in by.keys() {
        // It was as its former manifest says.
        state.live.forget_in_sync(key);
    }
    let mut effects = Vec::new();
    for (key, rollout) in state.rollouts.supersede(by) {
        if rollout.judged || rollout.scales {
            state.planning.interrupt(key, rollout.judged);
        }
        effects.push(Effect::Cancel(key.clone()));
    }
    effects
}

/// Takes the end of a rollout, which is recorded.
pub fn ended(
    state: &mut State,
    key: &ObjectKey,
    outcome: Outcome,
    (recorded, took): (Option<Trigger>, Option<Took>),
    now: Instant,
) -> Vec<Effect> {
    let Some(rollout) = state.rollouts.end(key) else { return Vec::new() };
    state.drift.overtake(key);
    // A seeming drift may have turned out to be an undo by hand.
    let may_differ = matches!(rollout.trigger, Trigger::Drift(_)) && outcome != Outcome::Complete;
    let trigger = recorded.filter(|_| may_differ).unwrap_or(rollout.trigger);
    let mut effects = Vec::new();
    if outcome != Outcome::Rejected {
        state.forget_retry(key, &mut effects);
    }
    if rollout.judged {
        effects.push(Effect::Count { trigger: trigger.clone(), outcome, took });
    }
    match outcome {
        // An object whose manifest is held is corrected to its last good revision.
        Outcome::Complete | Outcome::Held => {
            state.drift.succeeded(key);
            if matches!(trigger, Trigger::Drift(_)) {
                effects.push(Effect::CountCorrection);
            }
        }
        // The server took it in the dry run and not in earnest. It may change its mind; not at once.
        Outcome::Rejected => {
            state.retries.put_off(key, RetryCause::Refused, now);
        }
        _ => {}
    }
    effects
}

/// Takes the end of a rollout that was cancelled. At shutdown its record stays open, to be taken up.
pub fn stopped(state: &mut State, key: &ObjectKey) -> Vec<Effect> {
    let rollout = state.rollouts.end(key);
    let superseded = rollout.and_then(|rollout| Some(Effect::Supersede(rollout.record, rollout.superseded_by?)));
    superseded.into_iter().collect()
}

/// Takes a panic of belay's own in a rollout: it is continued, and after some times recorded as failed.
pub fn fault(state: &mut State, key: &ObjectKey, reason: Reason, now: Instant) -> Vec<Effect> {
    let Some(rollout) = state.rollouts.end(key) else { return Vec::new() };
    if state.rollouts.panicked(rollout.record) {
        let (record, outcome) = (rollout.record, Outcome::Failed);
        return vec![Effect::Finish { key: key.clone(), record, outcome, reason }];
    }
    if state.desired.mentions(key) {
        state.drift.recheck_later(key, now);
    } else {
        state.prune_search.search_all_again();
        state.prune_search.search_at(now + state.drift.again(key));
    }
    vec![Effect::Reopen { record: rollout.record }]
}

/// Takes the record of a rollout that is continued.
pub fn reopened(state: &mut State, record: Record) -> Vec<Effect> {
    if !state.rollouts.is_under_way(&record.object) {
        state.rollouts.resume(record);
    }
    Vec::new()
}

/// Ends the wait of an object that is passed over. A check or a try that began under its record begins nothing: the
/// record ends.
pub fn passed_over(state: &mut State, key: &ObjectKey) -> Vec<Effect> {
    state.rollouts.take_resumed(key);
    state.retries.forget(key);
    state.drift.overtake(key);
    Vec::new()
}

/// Gives the rollout of an object from before belay stopped up for the next plan.
pub fn interrupted(state: &mut State, key: &ObjectKey, is_judged: bool) -> Vec<Effect> {
    state.planning.interrupt(key, is_judged);
    Vec::new()
}

/// Takes a recorded rollout that is begun, put off or left.
pub fn scheduled(state: &mut State, key: &ObjectKey, digest: Option<u64>) -> Vec<Effect> {
    state.rollouts.forget_slot(key);
    if let Some(digest) = digest {
        state.live.note_in_sync(key, digest);
    }
    Vec::new()
}

/// Notes that the rollout of an object is under way.
pub fn under_way(state: &mut State, key: ObjectKey, rollout: Rollout) -> Vec<Effect> {
    state.rollouts.begin(key, rollout);
    Vec::new()
}

/// Keeps the record of a planned object that waits: it is taken up again under that.
pub fn waits(state: &mut State, record: Record) -> Vec<Effect> {
    state.rollouts.resume(record);
    Vec::new()
}

/// Notes the message about a planned object that waits.
pub fn wait_told(state: &mut State, key: ObjectKey, message: String) -> Vec<Effect> {
    state.rollouts.wait(key, message);
    Vec::new()
}

/// Notes that an object waits for a slot of `max_rollouts`.
pub fn no_slot(state: &mut State, key: ObjectKey) -> Vec<Effect> {
    state.rollouts.wait_for_slot(key);
    Vec::new()
}

/// Notes that it is read if others go back with a rollout that has ended.
pub fn end_in_reading(state: &mut State) -> Vec<Effect> {
    state.rollouts.read_end();
    Vec::new()
}

/// Notes that this was read.
pub fn end_read(state: &mut State) -> Vec<Effect> {
    state.rollouts.end_is_read();
    Vec::new()
}

/// Keeps a change by hand until it is recorded.
pub fn changed_by_hand(state: &mut State, key: ObjectKey, change: ByHand) -> Vec<Effect> {
    state.rollouts.note_by_hand(key, change);
    Vec::new()
}

impl State {
    /// Takes the record of a rollout from before belay stopped that is taken up now, or never.
    pub fn take_resumed(&mut self, key: &ObjectKey) -> Option<Record> {
        self.rollouts.take_resumed(key)
    }
}
