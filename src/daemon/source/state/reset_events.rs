//! Knowledge that is given up: the content of the repository, after a panic of belay's own, and with a history that was lost.

use std::sync::Arc;

use tokio::time::Instant;

use super::event::Effect;
use super::known::State;

/// Forgets the content of the repository: the next fetch reads all of it again.
pub fn forget_head(state: &mut State) -> Vec<Effect> {
    // The waiting head was read as a change from a state that is now forgotten.
    state.planning.forget_awaiting();
    state.desired = Arc::new(state.desired.forgotten());
    vec![Effect::StopWaiting, Effect::PublishDesired(Arc::clone(&state.desired))]
}

/// Takes no result of a fetch: all facts are forgotten since, and differences from them say little. The next fetch reads all
/// of it.
pub fn look_overtaken(state: &mut State) -> Vec<Effect> {
    state.fetch.break_off();
    Vec::new()
}

/// Begins the work of the tasks again after a panic, outside of a rollout.
pub fn panicked(state: &mut State, now: Instant) -> Vec<Effect> {
    state.fetch.break_off();
    state.drift.break_off();
    state.rollouts.forget_read_ends();
    state.planning.end();
    state.planning.note_read();
    state.fetch.look_at(now + state.settings.interval);
    forget_head(state)
}

/// Begins again after the history has: live objects are planned again, and rollouts under way get a record again.
pub fn history_lost(state: &mut State, now: Instant) -> Vec<Effect> {
    state.planning.resume(None);
    state.rollouts.forget_resumed();
    state.prune_search.search_all_again();
    state.fetch.accept();
    state.fetch.look_at(now);
    let mut effects = forget_head(state);
    effects.push(Effect::NoteFollowed(state.fetch.trouble().cloned()));
    effects
}
