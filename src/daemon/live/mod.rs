//! Live objects: their differences from what was applied, and what is published of them.
//!
//! In: live objects, as the loop hands them over. Out: the results of comparisons, reports of drift, restarts and changes of
//! size by others, the trouble with pods of workloads without a rollout. It does not know the loop.

pub(super) mod external_changes;
pub(super) mod in_sync;
mod published_holds;
pub(super) mod recheck;
mod recovered;
pub(super) mod reported;
mod rights;
mod same_object;
pub(super) mod standing;
mod unhealthy_pods;
