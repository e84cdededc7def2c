//! The repository of a source, from a fetch to the desired state.
//!
//! In: the branch, tag or commit that is followed, and the rendering tools. Out: the changes of a head, each charged to
//! its commit, and the manifests that are wanted. It asks Git, reads the mirror and runs the tools; it asks the cluster
//! for nothing but the kinds that it serves.

pub(super) mod beyond_limits;
pub(super) mod capabilities;
pub(super) mod desired_state;
mod file_facts;
pub(super) mod head_change;
pub(super) mod head_reading;
pub(super) mod look;
mod lost_folder;
mod moved_objects;
mod offline_start;
pub(super) mod open_mirror;
pub(super) mod prepared;
pub(super) mod quarantine;
mod read_files;
mod read_head;
pub(super) mod source_options;
pub(super) mod source_repository;
mod unit_changes;
pub(super) mod units;
mod unmanaged;
