//! Ownership: the fields and objects that are belay's, those of others, and ignored fields.

pub(in crate::rollout) mod cluster_fields;
pub(in crate::rollout) mod extract;
pub(in crate::rollout) mod field_path;
pub(in crate::rollout) mod field_set;
pub(in crate::rollout) mod ignored_fields;
pub(in crate::rollout) mod lease;
pub(in crate::rollout) mod list_items;
pub(in crate::rollout) mod managers;
pub(in crate::rollout) mod owned;
pub(in crate::rollout) mod recreated_object;
pub(in crate::rollout) mod string_data;
pub(in crate::rollout) mod surplus;
pub(in crate::rollout) mod takeover;
