//! Live objects: the reports of the watches, and the differences from what was applied.
//!
//! In: events of the watches. Out: comparisons that are due, corrections, undos and restarts by hand, workloads that
//! became unhealthy without a rollout.

mod deferred_watch;
mod external_changes;
pub(super) mod in_sync;
pub(super) mod recheck;
mod recovered;
pub(super) mod reported;
mod rights;
mod same_object;
mod standing;
mod unhealthy_pods;
mod watch_events;
