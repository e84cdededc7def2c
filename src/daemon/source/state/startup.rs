//! The start of a source: the work that was under way before belay stopped is taken up.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::event::{Effect, WorkBeforeRestart};
use super::fetch_events::in_the_way;
use super::known::State;
use super::retries::RetryCause;
use crate::daemon::publish::noted_disputes::time_between;

/// Takes up the work from before belay stopped.
pub fn resumed(state: &mut State, before: WorkBeforeRestart, at: Timestamp, now: Instant) -> Vec<Effect> {
    state.planning.resume(before.planned);
    state.rollouts.resume_all(before.records);
    for key in before.missing {
        // No watch tells of an object whose kind is missing.
        state.retries.put_off(&key, RetryCause::Refused, now);
    }
    let then = |time: Timestamp| now.checked_sub(time_between(time, at)).unwrap_or(now);
    let mut effects = Vec::new();
    for (key, noted) in before.disputes {
        state.disputes.resume(&key, &noted, then);
        let dispute = state.disputes.about(&key, now);
        if let Some(quiet_at) = state.disputes.quiet_at(&key).filter(|_| dispute.is_some()) {
            state.drift.check_once_more(key.clone(), quiet_at);
        }
        effects.push(Effect::StillDisagree { key, dispute });
    }
    effects
}

/// Leaves the repository alone for a while, because belay ended while it read it.
pub fn rests(state: &mut State, rest: Duration, message: String, at: Timestamp, now: Instant) -> Vec<Effect> {
    state.fetch.rest(now + rest);
    vec![in_the_way(state, Some(message), at)]
}
