//! Changes of a workload by others that are no drift: a restart, and the number of pods that an autoscaler sets. Both
//! are written down, and nothing is done about them. Targets of autoscalers are updated here, too.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tracing::{debug, warn};

use crate::cluster::Seen;
use crate::daemon::rollout::rollback::manual_rollback::ByHand;
use crate::daemon::shared::autoscalers::Autoscalers;
use crate::daemon::shared::context::Context;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Reason, ReasonCode, Trigger, UNKNOWN_MANAGER, marks, scaled_by};

/// The time by which the clock of a person who restarts a workload may be ahead of belay's.
const AHEAD: SignedDuration = SignedDuration::from_hours(1);
/// The field of a restart.
const RESTARTED: [&str; 4] = ["f:spec", "f:template", "f:metadata", "f:annotations"];

impl Context {
    /// Returns true for a restart that is recorded: none from before belay managed the object, and none with a time too far in
    /// the future.
    pub fn records_restart(&self, key: &ObjectKey, since: Timestamp) -> bool {
        let known = self.newest_record(key).is_some_and(|record| record.started <= since);
        known && since <= self.clock.now().saturating_add(AHEAD).unwrap_or(Timestamp::MAX)
    }
}

/// Returns the record of a restart by hand.
pub fn restarted(live: &Value, since: Timestamp) -> ByHand {
    let by = writer(live, None, &[&RESTARTED[..], &[&format!("f:{}", marks::RESTARTED_AT)]].concat());
    ByHand {
        commit: marks::annotation(live, marks::COMMIT).and_then(|commit| commit.parse().ok()),
        ..ByHand::complete(Trigger::Restart(Some(by.unwrap_or(UNKNOWN_MANAGER).to_owned())), since)
    }
}

/// Returns the record of a change of the number of pods by an autoscaler.
pub fn scaled(autoscaler: ObjectKey, (before, now): (i64, i64), since: Timestamp) -> ByHand {
    let message = format!("from {before} to {now} replicas");
    ByHand {
        reason: Some(Reason::new(ReasonCode::Scaled, message)),
        ..ByHand::complete(Trigger::Autoscaler(autoscaler), since)
    }
}

/// Returns true when an autoscaler has written the number of pods. A person scales in the same way.
pub fn is_scaled_by_autoscaler(live: &Value) -> bool {
    let by = writer(live, Some("scale"), &["f:spec", "f:replicas"]);
    by.is_some_and(|by| !by.starts_with("kubectl") && !by.starts_with(marks::FIELD_MANAGER))
}

/// Goes on without the cluster's autoscalers, while their watch goes on trying: replicas are as the manifests say.
fn unknown(autoscalers: &Autoscalers, message: &str) -> Vec<Option<ObjectKey>> {
    debug!(message, "the autoscalers of the cluster are not known");
    autoscalers.known.send_replace(true);
    Vec::new()
}

/// Returns when a workload was restarted, by its own annotation.
pub fn restarted_at(workload: &Value) -> Option<&str> {
    workload["spec"]["template"]["metadata"]["annotations"][marks::RESTARTED_AT].as_str()
}

/// Returns the writer of a field, through the object itself or through a subresource.
fn writer<'a>(live: &'a Value, subresource: Option<&str>, field: &[&str]) -> Option<&'a str> {
    let entries = live["metadata"]["managedFields"].as_array()?.iter();
    let wrote = |entry: &&Value| {
        let owned = field.iter().fold(&entry["fieldsV1"], |fields, name| &fields[*name]);
        !owned.is_null() && entry["subresource"].as_str() == subresource
    };
    entries.filter(wrote).find_map(|entry| entry["manager"].as_str())
}

impl Autoscalers {
    /// Hears of the cluster's autoscalers. Returns the objects that are scaled from now on, or no longer.
    pub fn saw(&self, seen: Seen) -> Vec<ObjectKey> {
        let touched = match seen {
            Seen::Live(key, text) => match scaled_by(&key, &text.read()) {
                Some(target) => {
                    let before = self.targets().insert(key, target.clone());
                    if before.as_ref() == Some(&target) { Vec::new() } else { vec![Some(target), before] }
                }
                None => vec![self.targets().remove(&key)],
            },
            Seen::Gone(key) => vec![self.targets().remove(&key)],
            Seen::TooLarge(key, error) => {
                warn!(object = %key, %error, "not read: what it scales is as it was known");
                Vec::new()
            }
            Seen::Synced(_) => {
                self.known.send_replace(true);
                Vec::new()
            }
            Seen::Denied(_, None) | Seen::Trouble(_, None) | Seen::Slow(..) => Vec::new(),
            Seen::Denied(_, Some(message)) => unknown(self, &message),
            Seen::Trouble(_, Some(error)) => unknown(self, &error.to_string()),
        };
        touched.into_iter().flatten().collect()
    }
}
