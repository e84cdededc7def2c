//! Workloads that are not complete, without a rollout: they count in the state of the source, and the trouble with their
//! pods is published.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::debug;

use crate::cluster::{ClusterError, Served};
use crate::daemon::shared::context::Context;
use crate::daemon::source::state::Source;
use crate::daemon::source::task_result::TaskResult;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::health::{Standing, wrong_pods};
use belay_core::rollout::{LiveWorkload, template};

impl Source {
    /// Notes whether a live workload is complete, by its status.
    pub fn note_health(&mut self, key: &ObjectKey, live: &LiveWorkload) {
        let is_complete = live.standing.is_none_or(|standing| standing == Standing::Complete);
        self.state.unhealthy.note(key, is_complete, Instant::now());
    }

    /// Returns the workloads that are not complete, without a rollout, with the trouble with their pods.
    pub fn unhealthy(&self) -> BTreeMap<ObjectKey, Option<String>> {
        self.state.unhealthy.with_trouble(|key| self.state.has_no_rollout(key))
    }

    /// Returns when pods of such workloads are inspected next.
    pub fn next_pod_look(&self) -> Option<Instant> {
        self.state.unhealthy.next_look(|key| self.state.has_no_rollout(key))
    }

    /// Inspects the pods of those whose time has come, one after the other.
    pub fn look_at_pods(&mut self) {
        let mut unhealthy = std::mem::take(&mut self.state.unhealthy);
        let due = unhealthy.take_due(|key| self.state.has_no_rollout(key), Instant::now());
        self.state.unhealthy = unhealthy;
        let served = |key: ObjectKey| Some((self.watches.watched.serving_group(&key.group, &key.kind)?, key));
        let due: Vec<(Served, ObjectKey)> = due.into_iter().filter_map(served).collect();
        if due.is_empty() {
            return;
        }
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let mut found = Vec::new();
            for (served, key) in due {
                match context.wrong_pods(&served, &key).await {
                    Ok(wrong) => found.push((key, wrong)),
                    Err(error) => debug!(object = %key, %error, "its pods can't be looked at"),
                }
            }
            TaskResult::PodsInspected(found)
        });
    }
}

impl Context {
    /// Returns the trouble with the pods of a workload's present template.
    async fn wrong_pods(&self, served: &Served, key: &ObjectKey) -> Result<Option<String>, ClusterError> {
        let look = async {
            let Some(live) = self.cluster.get(key, served).await? else { return Ok(None) };
            let Some(template) = template(&live) else { return Ok(None) };
            let observed = self.cluster.pods_of_present_template(key, &live).await?;
            Ok(wrong_pods(&observed, template))
        };
        let room = self.requests.room().await;
        Box::pin(self.requests.carry(room, look)).await
    }
}
