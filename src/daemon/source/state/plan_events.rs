//! Events about heads and their plans: which plan takes the place of which. A plan that is being made gives way to a
//! newer head; one that is being recorded is begun first, for a recorded plan must not be lost.

use std::sync::Arc;

use tokio::time::Instant;

use super::event::Effect;
use super::known::State;
use crate::daemon::repository::head_change::HeadChange;
use crate::daemon::source::task_result::{FinishedPlan, PlanRecord};

/// Takes a new head that was read. If it waits, for another source or for a window, the one before stays
/// in force: its rollouts go on, and drift from it is corrected.
pub fn new_head(state: &mut State, news: Box<HeadChange>, now: Instant) -> Vec<Effect> {
    if !state.settings.heads_wait {
        return head_to_plan(state, news, now);
    }
    state.planning.waits += 1;
    let (number, head) = (state.planning.waits, news.head.id.clone());
    state.planning.awaiting = Some((number, news));
    vec![Effect::Await(number, head)]
}

/// Plans a head whose turn has come, unless a newer one waits by now.
pub fn awaited(state: &mut State, number: u64, let_through: Option<String>, now: Instant) -> Vec<Effect> {
    match state.planning.awaiting.take_if(|(waiting, _)| *waiting == number) {
        Some((_, news)) => head_to_plan(state, Box::new(HeadChange { let_through, ..*news }), now),
        None => Vec::new(),
    }
}

/// Begins to plan a head. One that is no change from the commit that is planned by now is read again: it would plan again
/// what that commit changed, and leave what it changed back. While a plan is written down, that waits.
pub fn head_to_plan(state: &mut State, news: Box<HeadChange>, now: Instant) -> Vec<Effect> {
    if !state.planning.is_recording && news.since == state.planning.planned {
        return vec![Effect::PlanHead(news)];
    }
    state.planning.reads_again = true;
    if !state.planning.is_recording {
        state.fetch.look_soon(now);
    }
    Vec::new()
}

/// Takes a finished plan. It is written down, unless a newer head has come meanwhile.
pub fn planned(state: &mut State, number: u64, plan: Box<FinishedPlan>) -> Vec<Effect> {
    if state.planning.running != Some(number) {
        // Its findings among all kinds are discarded: the search begins again.
        state.pruned.searched = false;
        return Vec::new();
    }
    state.planning.is_recording = true;
    state.pruned.searched = plan.plan.searched.unwrap_or(state.pruned.searched);
    vec![Effect::RecordPlan(plan)]
}

/// Begins a recorded plan; a head that came meanwhile is read then. One that could not be written down is forgotten,
/// and the repository is read again; so is one whose history is lost since.
pub fn plan_recorded(state: &mut State, record: Box<PlanRecord>, is_lost: bool, now: Instant) -> Vec<Effect> {
    if state.planning.running != Some(record.number) {
        return vec![Effect::DropPlan(record)];
    }
    state.planning.running = None;
    state.planning.is_recording = false;
    if record.written.is_err() || is_lost {
        state.pruned.searched = false;
        return vec![Effect::DropPlan(record)];
    }
    state.planning.planned = Some(record.news.head.id.clone());
    state.planning.interrupted.clear();
    state.planning.interrupted_scaling.clear();
    let desired = Arc::clone(&state.desired);
    state.retries.retain(|key| desired.has(key));
    state.retries.head_planned(now);
    if state.planning.reads_again {
        state.fetch.look_soon(now);
    }
    vec![Effect::BeginPlan(record)]
}
