//! The hold that a rollback leaves.

use jiff::Timestamp;
use serde_json::Value;

use crate::rollout::{Hold, IgnoredFields, Reason, Wanted};

/// The hold on a manifest that failed, for what has no pod template.
pub(super) fn hold(wanted: &Wanted, reason: &Reason, now: Timestamp) -> Hold {
    Hold::new(&wanted.hash, wanted.config.as_deref(), &wanted.commit.id, &reason.message, now)
}

/// The same about the pod template that the workload goes back to.
pub(super) fn hold_about(wanted: &Wanted, reason: &Reason, now: Timestamp, template: &Value) -> Hold {
    hold(wanted, reason, now).about(template, &IgnoredFields::default())
}
