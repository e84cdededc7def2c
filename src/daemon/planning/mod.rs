//! The plan of a head, object by object.
//!
//! In: the desired state, the live objects and the records. Out: one step for each object, by a dry run where something
//! is to be written; and the objects that may be pruned. It writes nothing to the cluster.

pub(super) mod config_rollout;
mod keep_held;
mod live_objects;
mod made;
mod on_outage;
mod ownership_conflict;
pub(super) mod plan_once;
pub(super) mod plan_parts;
pub(super) mod plan_request;
mod plan_surplus;
mod planned_records;
pub(super) mod planner;
pub(super) mod prune_candidates;
mod recorded_facts;
pub(super) mod refused;
mod refused_definitions;
pub(super) mod revision_references;
