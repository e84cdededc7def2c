//! The context that every task of a source gets, and the limits that all of them share.
//!
//! In: the configuration of a source. Out: the cluster, the history, the clock, the room for requests and for blocking
//! work, and small registers that two tasks write. It decides nothing about an object.

pub(super) mod autoscalers;
pub(super) mod blocking_pool;
pub(super) mod cleanup;
pub(super) mod commit_tree;
pub(super) mod context;
pub(super) mod dependent_locks;
pub(super) mod finished_jobs;
pub(super) mod journal_queue;
pub(super) mod kept_holds;
pub(super) mod live;
pub(super) mod missing;
pub(super) mod panics;
pub(super) mod requests;
pub(super) mod rollout_slots;
pub(super) mod source_dependency;
pub(super) mod sync_now;
pub(super) mod tasks;
pub(super) mod windows;
