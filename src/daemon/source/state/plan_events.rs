//! Events about heads and their plans: which plan takes the place of which. A plan that is being made gives way to a
//! newer head; one that is being recorded is begun first, for a recorded plan must not be lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::event::Effect;
use super::known::State;
use crate::daemon::repository::desired_state::DesiredState;
use crate::daemon::repository::head_change::HeadChange;
use crate::daemon::source::task_result::{FinishedPlan, PlanRecord};
use belay_core::manifest::ObjectKey;

/// Takes a new head that was read. If it waits, for another source or for a window, the one before stays
/// in force: its rollouts go on, and drift from it is corrected.
pub fn new_head(state: &mut State, news: Box<HeadChange>, now: Instant) -> Vec<Effect> {
    if !state.settings.heads_wait {
        return head_to_plan(state, news, now);
    }
    let head = news.head.id.clone();
    vec![Effect::Await(state.planning.wait(news), head)]
}

/// Plans a head whose turn has come, unless a newer one waits by now.
pub fn awaited(state: &mut State, number: u64, let_through: Option<String>, now: Instant) -> Vec<Effect> {
    match state.planning.take_awaiting(number) {
        Some(news) => head_to_plan(state, Box::new(HeadChange { let_through, ..*news }), now),
        None => Vec::new(),
    }
}

/// Begins to plan a head. One that is no change from the commit that is planned by now is read again: it would plan again
/// what that commit changed, and leave what it changed back. While a plan is written down, that waits.
pub fn head_to_plan(state: &mut State, news: Box<HeadChange>, now: Instant) -> Vec<Effect> {
    if state.planning.can_plan(news.since.as_ref()) {
        return vec![Effect::PlanHead(news)];
    }
    state.planning.read_again();
    if !state.planning.is_recording() {
        state.fetch.look_soon(now);
    }
    Vec::new()
}

/// Takes a finished plan. It is written down, unless a newer head has come meanwhile.
pub fn planned(state: &mut State, number: u64, plan: Box<FinishedPlan>) -> Vec<Effect> {
    if !state.planning.makes(number) {
        // Its findings among all kinds are discarded: the search begins again.
        state.prune_search.search_all_again();
        return Vec::new();
    }
    state.planning.record();
    state.prune_search.note_complete(plan.plan.searched);
    vec![Effect::RecordPlan(plan)]
}

/// Puts the content of a new head in the place of the one before.
pub fn head_taken(state: &mut State, desired: Arc<DesiredState>) -> Vec<Effect> {
    state.desired = Arc::clone(&desired);
    vec![Effect::PublishDesired(desired)]
}

/// Takes the news that a plan is begun. One that is being made for an older head is given up.
pub fn plan_begun(state: &mut State) -> Vec<Effect> {
    state.planning.begin();
    Vec::new()
}

/// Notes that this source claims an object of another one.
pub fn claimed(state: &mut State, owner: String, key: ObjectKey) -> Vec<Effect> {
    state.planning.claim(owner, key);
    Vec::new()
}

/// Begins a recorded plan; a head that came meanwhile is read then. One that could not be written down is forgotten,
/// and the repository is read again; so is one whose history is lost since.
pub fn plan_recorded(state: &mut State, record: Box<PlanRecord>, is_lost: bool, now: Instant) -> Vec<Effect> {
    if !state.planning.makes(record.number) {
        return vec![Effect::DropPlan(record)];
    }
    state.planning.end();
    if record.written.is_err() || is_lost {
        state.prune_search.search_all_again();
        return vec![Effect::DropPlan(record)];
    }
    state.planning.note_planned(record.news.head.id.clone());
    let desired = Arc::clone(&state.desired);
    state.retries.retain(|key| desired.has(key));
    state.retries.head_planned(now);
    if state.planning.reads_again() {
        state.fetch.look_soon(now);
    }
    vec![Effect::BeginPlan(record)]
}

impl State {
    /// Gives up the claims to objects that the head has no manifest of any more. Returns them, each with the other source.
    pub fn give_claims_up(&mut self) -> Vec<(String, ObjectKey)> {
        self.planning.give_claims_up(|key| self.desired.mentions(key))
    }

    /// Notes the objects whose manifests the head contradicts elsewhere. Returns those that it contradicts no more, and still
    /// has.
    pub fn contradict(&mut self, contradicted: BTreeMap<ObjectKey, String>) -> Vec<ObjectKey> {
        let before = self.planning.contradict(contradicted).into_iter();
        before.filter(|key| self.desired.has(key)).collect()
    }
}
