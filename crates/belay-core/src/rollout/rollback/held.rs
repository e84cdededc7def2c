//! The hold that a rollback leaves.

use jiff::Timestamp;
use serde_json::Value;

use crate::rollout::{Hold, IgnoredFields, Reason, Wanted};

/// Returns the hold on a manifest that failed, for an object without a pod template.
pub(super) fn hold(wanted: &Wanted, reason: &Reason, now: Timestamp) -> Hold {
    Hold::new(&wanted.hash, wanted.config.as_deref(), &wanted.commit.id, &reason.message, now)
}

/// Returns the same about the pod template that the workload goes back to.
pub(super) fn hold_about(wanted: &Wanted, reason: &Reason, now: Timestamp, template: &Value) -> Hold {
    hold(wanted, reason, now).about(template, &IgnoredFields::default())
}
