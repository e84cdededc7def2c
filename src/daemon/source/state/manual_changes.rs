//! Changes of live objects by hand, or by an autoscaler, that are written down: undos, rolling updates by the command,
//! restarts, changes of the number of pods.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::event::Effect;
use super::known::State;
use crate::daemon::live::external_changes::restarted_at;
use crate::daemon::rollout::rollback::manual_rollback::ByHand;
use crate::daemon::shared::live::{digest, newest_other_manager};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Hold, UNKNOWN_MANAGER, is_complete, rolling_update, template};

/// At most once in so long it is written down that an autoscaler has scaled a workload: one may do it four times a minute.
const SCALED: Duration = Duration::from_hours(1);

/// Notes that an autoscaler has changed the number of pods of a workload.
pub fn autoscaled(state: &mut State, key: &ObjectKey, now: Instant) -> Vec<Effect> {
    state.live.note_scaled(key, now);
    Vec::new()
}

impl State {
    /// Notices a hold that `belay undo` left, once.
    pub fn noticed_undo(&self, key: &ObjectKey, live: &Value, hold: &Hold, at: Timestamp) -> Option<ByHand> {
        let before = self.live.hold(key);
        if hold.manifest.is_empty() || before == Some(hold) {
            return None;
        }
        if before.is_some_and(|before| before.since > hold.since) {
            return self.noticed_older_hold(key, live, hold, at);
        }
        let by = hold.by.clone()?;
        Some(ByHand::undone(live, hold, by, hold.since, hold.reason.clone()))
    }

    /// Notices that an undo with kubectl has brought a hold back, which its revision still had from an earlier time. If
    /// the hold names the repository's manifest, nothing else needs to be done.
    fn noticed_older_hold(&self, key: &ObjectKey, live: &Value, hold: &Hold, at: Timestamp) -> Option<ByHand> {
        let holds_head = self.desired.hash(key).is_some_and(|hash| hash.to_string() == hold.manifest);
        let in_force = template(live).is_some_and(|present| hold.is_about(present));
        if !holds_head || !in_force || self.rollouts.is_under_way(key) {
            return None;
        }
        let by = newest_other_manager(live).unwrap_or_else(|| UNKNOWN_MANAGER.to_owned());
        let message = format!("taken back by hand ({by}); it was before: {}", hold.reason);
        Some(ByHand::undone(live, hold, by, at, message))
    }

    /// Notices a rolling update by `belay rolling-update` that is under way, or that is through. For an update by
    /// `belay undo` the hold is enough.
    pub fn noticed_rolling_update(&mut self, key: &ObjectKey, live: &Value, now: Instant) -> Option<ByHand> {
        if rolling_update::is_under_way(live) {
            self.rollouts.note_rolled_by_others(key, digest(live), now);
            return None;
        }
        self.rollouts.not_rolled_by_others(key);
        let hand = rolling_update::ByHand::through(live).filter(|hand| !hand.hold_follows)?;
        Some(ByHand::rolled(live, hand))
    }

    /// Notices a restart, once its pods are there. Returns its time, as it is written and as it is.
    pub fn noticed_restart(&mut self, key: &ObjectKey, live: &Value) -> Option<(String, Timestamp)> {
        let written = restarted_at(live).filter(|_| is_complete(key, live))?;
        let is_news = self.live.note_restart(key, written);
        is_news.then(|| Some((written.to_owned(), written.parse().ok()?)))?
    }

    /// Notices that the number of pods has changed, unless an autoscaler did that lately. Returns the numbers before and now.
    pub fn noticed_scaling(&mut self, key: &ObjectKey, live: &Value, now: Instant) -> Option<(i64, i64)> {
        let replicas = live["spec"]["replicas"].as_i64()?;
        let before = self.live.note_replicas(key, replicas)?;
        let scaled = self.live.get(key).and_then(|facts| facts.scaled);
        let is_recent = scaled.is_some_and(|at| now - at < SCALED);
        (!is_recent).then_some((before, replicas))
    }

    /// Takes the changes by hand that are not recorded yet.
    pub fn take_by_hand(&mut self) -> Vec<(ObjectKey, ByHand)> {
        self.rollouts.take_by_hand()
    }
}
