//! The way back from a rollout that failed, as the daemon goes it: the newest earlier template that has not failed is
//! applied and watched, and of a StatefulSet the pods that would stand in its way are deleted.

use std::time::Duration;

use anyhow::Context as _;

use super::ended::Back;
use super::recorder::{RecordedWatches, Recorder};
use super::scenario::{Scenario, Simulator};
use crate::cluster::Written;
use belay_core::rollout::health::is_ready;
use belay_core::rollout::{Workload, rollback_target, same_template, template, with_template};

/// The period between two inspections of the pods of a StatefulSet.
const EVERY: Duration = Duration::from_secs(5);

impl Simulator {
    /// Takes the rollout back and watches until that is over. `None` if the kind does not go back, or there is nothing
    /// to go back to.
    pub(super) async fn take_back(
        &self,
        scenario: &Scenario,
        watches: &mut RecordedWatches,
        recorder: &mut Recorder,
    ) -> anyhow::Result<Option<Back>> {
        if !Workload::of(&self.key).is_some_and(Workload::can_go_back) {
            return Ok(None);
        }
        let failing = self.cluster.get(&self.key, &self.served).await?.context("the workload is gone")?;
        let revisions = self.cluster.revisions(&self.key, &failing).await?;
        let failing_template = template(&failing).cloned().unwrap_or_default();
        let Ok(way) = rollback_target(&failing_template, None, &revisions, &[]) else { return Ok(None) };
        let failed = revisions.iter().find(|revision| same_template(&revision.template, &failing_template));
        let failed = failed.map(|revision| revision.name.clone());
        let began = recorder.now();
        let Written { object: written, .. } = self.apply(&with_template(scenario.after.clone(), &way.template)).await?;
        let judge = self.judge(&written);
        let end = tokio::select! {
            biased;
            end = self.watch(watches, recorder, judge, written.clone()) => end?,
            error = self.unstick(failed) => return Err(error),
        };
        Ok(Some(Back { began, written, revision: way.revision, end }))
    }

    /// Deletes a stuck pod: a StatefulSet does not replace a pod that never became ready, not even when its template
    /// goes back. Goes on for as long as it is polled; returns only an error.
    async fn unstick(&self, failed: Option<String>) -> anyhow::Error {
        let Some(failed) = failed.filter(|_| Workload::of(&self.key) == Some(Workload::StatefulSet)) else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(EVERY).await;
            if let Err(error) = self.delete_unready(&failed).await {
                return error;
            }
        }
    }

    async fn delete_unready(&self, failed: &str) -> anyhow::Result<()> {
        let Some(live) = self.cluster.get(&self.key, &self.served).await? else { return Ok(()) };
        for pod in self.cluster.pods_of_revision(&self.key, &live, failed).await? {
            if !is_ready(&pod) && pod["metadata"].get("deletionTimestamp").is_none() {
                self.cluster.delete_pod(&pod).await?;
            }
        }
        Ok(())
    }
}
