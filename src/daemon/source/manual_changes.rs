//! Changes of live objects by hand, or by an autoscaler: they are noticed by `state/manual_changes`, and written down here.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;
use tracing::warn;

use super::state::{Event, Source};
use super::task_result::TaskResult;
use crate::daemon::live::external_changes::{is_scaled_by_autoscaler, restarted, scaled};
use crate::daemon::repository::prepared::Prepared;
use crate::daemon::rollout::rollback::manual_rollback::ByHand;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Hold, PlanStep};

impl Source {
    /// Notices a hold that `belay undo` left, or that an undo with kubectl has brought back, and writes it down, once.
    pub fn note_undo(&mut self, key: &ObjectKey, live: &Value, hold: &Hold) {
        if let Some(undone) = self.state.noticed_undo(key, live, hold, self.context.clock.now()) {
            self.happened(key, undone);
        }
    }

    /// Notices a rolling update by `belay rolling-update`: when it is through, that is written down, once.
    pub fn note_rolling_update(&mut self, key: &ObjectKey, live: &Value) {
        if let Some(rolled) = self.state.noticed_rolling_update(key, live, Instant::now()) {
            self.happened(key, rolled);
        }
    }

    /// Notices a restart, once its pods are there.
    pub fn note_restart(&mut self, key: &ObjectKey, live: &Value) {
        let Some((written, since)) = self.state.noticed_restart(key, live) else { return };
        let is_recorded = self.context.records_restart(key, since);
        if is_recorded && self.state.desired().restarted(key) != Some(written.as_str()) {
            self.happened(key, restarted(live, since));
        }
    }

    /// Notices that an autoscaler has changed the number of pods.
    pub fn note_scaling(&mut self, key: &ObjectKey, live: &Value) {
        let Some(change) = self.state.noticed_scaling(key, live, Instant::now()) else { return };
        let Some(autoscaler) = self.context.autoscalers.of(key) else { return };
        if is_scaled_by_autoscaler(live) {
            self.on(Event::Autoscaled(key.clone()));
            self.happened(key, scaled(autoscaler, change, self.context.clock.now()));
        }
    }

    fn happened(&mut self, key: &ObjectKey, change: ByHand) {
        self.on(Event::ChangedByHand { key: key.clone(), change: Box::new(change) });
        self.write_down_by_hand();
    }

    /// Records the changes that were made by hand. Before the first plan there is nothing that it could be a part of.
    pub fn write_down_by_hand(&mut self) {
        let Some(head) = self.state.planning().planned().cloned() else { return };
        for (key, done) in self.state.take_by_hand() {
            if let Err(error) = self.context.write_down_by_hand(self.state.desired(), &head, &key, &done) {
                warn!(object = %key, %error, "failed to write down what was done by hand, trying again with the next plan");
                self.on(Event::ChangedByHand { key, change: Box::new(done) });
            }
        }
    }

    /// Takes over the fields of a held controller that somebody has rolled with the command, beside the loop.
    pub fn adopt_rolled(&mut self, prepared: Prepared, hold: Hold) {
        let (PlanStep::Apply(apply), Some(served)) = (prepared.planned.step, prepared.served) else { return };
        let (context, key, body) = (Arc::clone(&self.context), prepared.planned.wanted.key, apply.body.read());
        self.tasks.spawn(async move {
            context.adopt_rolled(&key, &served, body, &hold).await;
            TaskResult::Told
        });
    }
}
