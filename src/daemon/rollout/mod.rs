//! One rollout, from the step of the plan to the end of its record.
//!
//! In: a planned object. Out: writes to the cluster in the order of the plan, the judgement of the workload, and its
//! outcome. `run` is all of it; `kinds` has the differences between kinds of workloads; `rollback` begins where one
//! fails.

mod apply_manifest;
pub(super) mod apply_wave;
mod canary_progress;
pub(super) mod deferred_kinds;
mod established;
pub(super) mod health_monitor;
pub(super) mod kinds;
pub(super) mod patience;
pub(super) mod prune;
pub(super) mod rollback;
pub(super) mod rollout_end;
pub(super) mod rollout_task;
mod run;
mod takeover;
pub(super) mod until_served;
