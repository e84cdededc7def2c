//! The state that the daemon publishes, and what is in the way of a source.
//!
//! In: obstacles and counters of every source. Out: the status that commands, page and metrics read, and queued
//! Kubernetes Events. It imports no other folder of the daemon.

pub(super) mod canary_plan;
pub(super) mod dispute;
pub(super) mod lasting_trouble;
pub(super) mod noted_disputes;
pub(super) mod obstacle;
pub(super) mod queued_events;
pub(super) mod related_object;
pub(super) mod status;
pub(super) mod status_socket;
