//! The loop of one source.
//!
//! In: events of tasks, watches, commands and the clock. Out: effects, which start tasks in the other folders. `state`
//! decides; `perform` and the files beside it carry out: they start a task with plain arguments, and turn its result into an
//! event.

mod commit_rollback;
mod drift_reports;
mod event_loop;
mod event_queue;
mod history_upkeep;
pub(super) mod liveness;
mod manual_changes;
mod missing_watch;
mod perform;
mod plan_head;
mod record_ends;
mod source_completion;
pub(super) mod source_parts;
mod start;
mod startup;
mod state;
mod task_panics;
mod task_result;
mod waiting;
mod watch_events;
mod watches;
