//! A workload that failed, was left as it is, and is complete after all: the verdict stays, and that is said.

use std::sync::Arc;

use serde_json::Value;
use tracing::info;

use super::state::Source;
use super::task_result::TaskResult;
use crate::cluster::EventKind;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, marks};

impl Source {
    /// Tells of a workload that has just become complete, where its newest record says that it failed.
    pub(super) fn tell_recovered(&mut self, key: &ObjectKey, live: &Value) {
        if self.rollouts.under_way.contains_key(key) || self.planning.planned.is_none() {
            return;
        }
        let Some(record) = self.context.newest_record(key).filter(|record| record.outcome == Outcome::Failed) else {
            return;
        };
        if marks::annotation(live, marks::COMMIT) != Some(record.commit.as_str()) {
            return;
        }
        // The live object is what the head says: the status does not go on calling it failed.
        self.note_standing(key, None);
        let cause = self.commit(&record.commit).map(|commit| commit.change_cause()).unwrap_or_default();
        let message = format!("{cause}: complete, but only after its deadline; its record stays failed");
        info!(object = %key, message, "recovered");
        let (context, key, live) = (Arc::clone(&self.context), key.clone(), live.clone());
        self.tasks.spawn(async move {
            context.tell_at_once(&key, &live, EventKind::Normal, "RolloutRecovered", message).await;
            TaskResult::Told
        });
    }
}
