//! The differences between kinds of workloads: ReplicationControllers, whose pods belay replaces itself, StatefulSets
//! with stuck pods, workloads with a canary, Jobs that are gone, and hooks of charts.
//!
//! In: a rollout at a step that depends on its kind. Out: writes to pods and controllers, and whether a Job has run.

mod canary;
mod controller_rollback;
pub(in crate::daemon) mod driver;
mod finished_hooks;
pub(in crate::daemon) mod job_runs;
mod replaced_nodes;
mod replication_controller;
mod rolled_pods;
mod stuck_pods;
