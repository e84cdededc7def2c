//! Changes of a workload by others that are no drift: a restart, and the number of pods that an autoscaler sets. Both
//! are written down, and nothing is done about them. Targets of autoscalers are updated here, too.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::cluster::Seen;
use crate::daemon::shared::autoscalers::Autoscalers;
use crate::daemon::source::state::{ByHand, Event, Source};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, Reason, ReasonCode, Trigger, UNKNOWN_MANAGER, is_complete, marks, scaled_by};

/// At most once in so long it is written down that an autoscaler has scaled a workload: one may do it four times a minute.
const SCALED: Duration = Duration::from_hours(1);
/// The time by which the clock of a person who restarts a workload may be ahead of belay's.
const AHEAD: SignedDuration = SignedDuration::from_hours(1);
/// The field of a restart.
const RESTARTED: [&str; 4] = ["f:spec", "f:template", "f:metadata", "f:annotations"];

impl Source {
    /// Notices a restart, once its pods are there.
    pub fn note_restart(&mut self, key: &ObjectKey, live: &Value) {
        let Some(written) = restarted_at(live).map(str::to_owned) else { return };
        let facts = self.state.live.entry(key.clone()).or_default();
        if facts.restarted.as_ref() == Some(&written) || !is_complete(key, live) {
            return;
        }
        facts.restarted = Some(written.clone());
        let Ok(since) = written.parse::<Timestamp>() else { return };
        // Skips restarts from before belay managed the object, and timestamps too far in the future.
        let known = self.context.newest_record(key).is_some_and(|record| record.started <= since);
        if !known || since > self.context.clock.now().saturating_add(AHEAD).unwrap_or(Timestamp::MAX) {
            return;
        }
        if self.desired().restarted(key) == Some(written.as_str()) {
            return;
        }
        let by = writer(live, None, &[&RESTARTED[..], &[&format!("f:{}", marks::RESTARTED_AT)]].concat());
        self.happened(
            key,
            ByHand {
                commit: marks::annotation(live, marks::COMMIT).and_then(|commit| commit.parse().ok()),
                ..ByHand::complete(Trigger::Restart(Some(by.unwrap_or(UNKNOWN_MANAGER).to_owned())), since)
            },
        );
    }

    /// Notices that an autoscaler has changed the number of pods.
    pub fn note_scaling(&mut self, key: &ObjectKey, live: &Value) {
        let Some(now) = live["spec"]["replicas"].as_i64() else { return };
        let facts = self.state.live.entry(key.clone()).or_default();
        let Some(before) = facts.replicas.replace(now).filter(|before| *before != now) else { return };
        if facts.scaled.is_some_and(|at| at.elapsed() < SCALED) {
            return;
        }
        let Some(autoscaler) = self.context.autoscalers.of(key) else { return };
        // A person scales in the same way.
        let by = writer(live, Some("scale"), &["f:spec", "f:replicas"]);
        if by.is_none_or(|by| by.starts_with("kubectl") || by.starts_with(marks::FIELD_MANAGER)) {
            return;
        }
        self.state.live.entry(key.clone()).or_default().scaled = Some(Instant::now());
        let message = format!("from {before} to {now} replicas");
        let scaled = ByHand {
            reason: Some(Reason::new(ReasonCode::Scaled, message)),
            ..ByHand::complete(Trigger::Autoscaler(autoscaler), self.context.clock.now())
        };
        self.happened(key, scaled);
    }

    fn happened(&mut self, key: &ObjectKey, what: ByHand) {
        self.state.rollouts.manual_rollbacks.insert((key.clone(), what.since), what);
        self.write_down_by_hand();
    }
}

impl ByHand {
    /// Returns the record of a finished change in which belay had no part.
    fn complete(trigger: Trigger, since: Timestamp) -> ByHand {
        ByHand { trigger, outcome: Outcome::Complete, since, commit: None, manifest: None, reason: None, back_to: None }
    }
}

/// Goes on without the cluster's autoscalers, while their watch goes on trying: replicas are as the manifests say.
fn unknown(autoscalers: &Autoscalers, message: &str) -> Vec<Option<ObjectKey>> {
    debug!(message, "the autoscalers of the cluster are not known");
    autoscalers.known.send_replace(true);
    Vec::new()
}

/// Returns when a workload was restarted, by its own annotation.
fn restarted_at(workload: &Value) -> Option<&str> {
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

impl Source {
    /// Hears of the cluster's autoscalers. An object that is scaled from now on, or no longer, is compared again.
    pub fn saw_autoscaler(&mut self, seen: Seen) {
        let autoscalers = self.context.autoscalers.clone();
        let touched = match seen {
            Seen::Live(key, text) => match scaled_by(&key, &text.read()) {
                Some(target) => {
                    let before = autoscalers.targets().insert(key, target.clone());
                    if before.as_ref() == Some(&target) { Vec::new() } else { vec![Some(target), before] }
                }
                None => vec![autoscalers.targets().remove(&key)],
            },
            Seen::Gone(key) => vec![autoscalers.targets().remove(&key)],
            Seen::TooLarge(key, error) => {
                warn!(object = %key, %error, "not read: what it scales is as it was known");
                Vec::new()
            }
            Seen::Synced(_) => {
                autoscalers.known.send_replace(true);
                Vec::new()
            }
            Seen::Denied(_, None) | Seen::Trouble(_, None) | Seen::Slow(..) => Vec::new(),
            Seen::Denied(_, Some(message)) => unknown(&autoscalers, &message),
            Seen::Trouble(_, Some(error)) => unknown(&autoscalers, &error.to_string()),
        };
        self.on(Event::Rescaled(touched.into_iter().flatten().collect()));
    }
}
