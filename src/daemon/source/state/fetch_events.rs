//! Looks at the repository: their times, and their consequences.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::drift::DEBOUNCE;
use super::event::{Effect, HeadSeen};
use super::known::State;
use super::plan_events::{head_to_plan, new_head};
use crate::daemon::repository::head_change::{HeadChange, SuspectHead};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::CommitId;

/// Begins a fetch.
pub fn look(state: &mut State, at: Timestamp, now: Instant) -> Vec<Effect> {
    state.fetch.begin(at, state.settings.interval, now);
    let refused = state.fetch.refused().map(|(head, _)| head.clone());
    let awaiting = state.planning.awaiting().map(|news| news.head.id.clone());
    vec![Effect::Look { known: refused.or(awaiting).or_else(|| state.desired.at.clone()) }]
}

/// Looks at the repository at once, because somebody asks for it.
pub fn look_asked(state: &mut State, now: Instant) -> Vec<Effect> {
    state.fetch.look_soon(now);
    Vec::new()
}

/// Looks at the repository soon, because a forge reports a push.
pub fn pushed(state: &mut State, now: Instant) -> Vec<Effect> {
    state.fetch.look_for_a_push(now);
    Vec::new()
}

/// Takes the result of a fetch. If nothing was known of the repository yet, and it did not answer, or its head must
/// wait for another source, the daemon upholds the mirror's content, `kept`.
pub fn looked(
    state: &mut State,
    seen: HeadSeen,
    kept: Option<Box<HeadChange>>,
    at: Timestamp,
    now: Instant,
) -> Vec<Effect> {
    let has_reached = !matches!(seen, HeadSeen::Failed { .. });
    let mut effects = vec![Effect::Fetched(has_reached)];
    effects.extend(state.fetch.end(has_reached).map(Effect::LookedAt));
    if has_reached {
        state.planning.note_read();
    }
    let is_away = !matches!(seen, HeadSeen::New(_));
    let trouble = match seen {
        HeadSeen::Failed { message, passes } => {
            effects.push(Effect::Unreadable((!passes).then(|| message.clone())));
            Some(message)
        }
        HeadSeen::Unborn(message) => {
            effects.push(Effect::Unreadable(Some(message.clone())));
            Some(message)
        }
        HeadSeen::Same => {
            effects.push(Effect::Unreadable(None));
            reached(state, &mut effects, now);
            state.fetch.refused().map(|(_, message)| message.clone())
        }
        HeadSeen::New(news) => {
            effects.push(Effect::Unreadable(None));
            reached(state, &mut effects, now);
            match news.suspect {
                Some(suspect) => effects.push(refuse(state, suspect, &news.head.id)),
                None if kept.is_some() => {
                    // The head is read again as a change from the one that is kept up until then.
                    state.fetch.accept();
                    state.fetch.look_at(now);
                }
                None => {
                    state.fetch.accept();
                    effects.extend(new_head(state, news, now));
                }
            }
            state.fetch.refused().map(|(_, message)| message.clone())
        }
    };
    effects.push(in_the_way(state, trouble, at));
    if let Some(kept) = kept {
        if is_away {
            state.fetch.keep_mirror();
            effects.push(Effect::Away(true));
        }
        // It was planned before, when all that it waited for was complete.
        effects.extend(head_to_plan(state, kept, now));
    }
    effects
}

/// Reports the trouble with reading the repository, and its beginning.
pub fn in_the_way(state: &mut State, message: Option<String>, at: Timestamp) -> Effect {
    let is_news = state.fetch.note_trouble(message.as_ref(), at);
    Effect::RepositoryTrouble { trouble: state.fetch.trouble().cloned(), is_news }
}

/// Rechecks the objects that were left alone, now that the repository has answered.
fn reached(state: &mut State, effects: &mut Vec<Effect>, now: Instant) {
    if !state.fetch.reached() {
        return;
    }
    effects.push(Effect::Away(false));
    let is_well = |key: &ObjectKey| state.live.get(key).is_some_and(|facts| facts.well.is_some());
    let left: Vec<ObjectKey> = state.desired.keys().filter(|key| !is_well(key)).cloned().collect();
    left.into_iter().for_each(|key| state.drift.recheck_after(key, Duration::ZERO, now));
    if state.settings.prune {
        state.prune_search.search_at(now + DEBOUNCE);
    }
}

/// Refuses a suspect head.
fn refuse(state: &mut State, suspect: SuspectHead, head: &CommitId) -> Effect {
    let seen = match suspect {
        SuspectHead::Emptied => {
            format!("leaves no manifest in {:?}, where there were some", state.settings.folders)
        }
        SuspectHead::Replaced => "has neither a commit nor a file in common with what was there".to_owned(),
    };
    let message = format!(
        "commit {} {seen}: refused, in case it is an accident; nothing is changed or deleted until there is another; \
         if it is meant, say belay run --allow-prune, or push a commit with the trailer Belay-Allow-Prune: and how \
         many objects may go",
        head.short()
    );
    state.fetch.refuse(head, message.clone());
    Effect::RefuseHead { head: head.clone(), message }
}
