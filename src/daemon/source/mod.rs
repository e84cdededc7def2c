//! The loop of one source.
//!
//! In: events of tasks, watches, commands and the clock. Out: effects, which start tasks in the other folders. `state`
//! decides; `perform` carries out.

mod continued_rollout;
mod event_loop;
mod event_queue;
pub(super) mod liveness;
mod perform;
mod plan_head;
mod source_completion;
mod start;
mod startup;
pub(super) mod state;
mod task_panics;
pub(super) mod task_result;
