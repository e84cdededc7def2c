//! Objects other than workloads that are waited for: objects of custom kinds whose status says that they are healthy,
//! Pods that are hooks of charts, and definitions that are served.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::health_monitor::{HealthMonitor, MonitorEnd};
use super::rollout_task::{Cancelled, RolloutTask};
use crate::daemon::rollout::rollback::failure::FailedRollout;
use belay_core::manifest::{Compact, ObjectKey};
use belay_core::rollout::health::is_taken_up;
use belay_core::rollout::{Baseline, Outcome, Reason, ReasonCode, is_hook_pod, marks};

/// The longest time until a controller writes a first status. After that it counts as one that never does.
const FIRST_STATUS: Duration = Duration::from_secs(10);

impl RolloutTask {
    /// Waits until an object of a custom kind says that it is well, or until a Pod that is a hook has ended. It is never
    /// rolled back, and keeps nobody waiting.
    pub async fn wait_until_healthy(&mut self, mut live: Compact) -> Result<Outcome, Cancelled> {
        // A failure in its status from here on is about this write.
        let written = live.read();
        let baseline = Baseline::of(&self.planned.wanted.key, &written);
        let is_silent = !is_taken_up(&self.planned.wanted.key, &written);
        let generation = marks::generation(&written);
        drop(written);
        if is_silent && !self.context.cluster.has_status(&self.served) {
            return self.end(Outcome::Complete, None).await;
        }
        if is_silent {
            match self.first_status(generation).await? {
                Some(first) => live = first,
                None => return self.is_gone().await,
            }
        }
        let judge = self.judge(baseline);
        let mut judging = HealthMonitor::new(self, judge, None, Outcome::UnderWay);
        match judging.until_judged(Some(live)).await? {
            MonitorEnd::Failed { reason, observed, live } => {
                let failed = FailedRollout { reason, observed: Some(observed), written: None };
                Box::pin(self.roll_back(failed, Some(live))).await
            }
            MonitorEnd::Suspended(why) => self.leave_alone(&why).await,
            MonitorEnd::Gone => self.is_gone().await,
            MonitorEnd::Complete(_) | MonitorEnd::TakenOver(_) | MonitorEnd::SetBack => {
                self.end(Outcome::Complete, None).await
            }
        }
    }

    /// Returns the object as soon as its controller has taken this generation up, or as it is after the longest time for that; `None`
    /// when it is gone then. A newer commit is not kept waiting for that.
    async fn first_status(&mut self, generation: i64) -> Result<Option<Compact>, Cancelled> {
        let key = self.planned.wanted.key.clone();
        let RolloutTask { cancel, live, .. } = &mut *self;
        let taken_up = live.wait_for(|live| {
            let live = live.as_ref().map(Compact::read);
            live.is_some_and(|live| marks::generation(&live) >= generation && is_taken_up(&key, &live))
        });
        let first = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Cancelled),
            first = taken_up => first.map_err(|_| Cancelled)?.clone(),
            () = sleep(FIRST_STATUS) => None,
        };
        match first {
            Some(first) => Ok(Some(first)),
            None => Ok(self.read().await?.map(|read| Compact::of(&read))),
        }
    }

    /// Ends the record of an object that was applied, and that somebody has deleted before it said that it is well.
    async fn is_gone(&self) -> Result<Outcome, Cancelled> {
        let message = "somebody deleted it before it said that it is well".to_owned();
        self.end(Outcome::Failed, Some(Reason::new(ReasonCode::Failed, message))).await
    }

    /// Waits until a definition is served; its objects come in a later rank.
    pub async fn wait_until_established(&mut self, live: Compact) -> Result<(), Cancelled> {
        if self.planned.wanted.key.kind != "CustomResourceDefinition" {
            return Ok(());
        }
        let judge = self.judge(Baseline::default());
        let mut judging = HealthMonitor::new(self, judge, None, Outcome::UnderWay);
        judging.until_judged(Some(live)).await.map(|_| ())
    }
}

/// Returns true when an object is waited for: one of a custom kind, whose operator writes its status, or a Pod that is a hook.
pub fn waits_for(key: &ObjectKey, live: &Value) -> bool {
    key.group.contains('.') && !key.group.ends_with(".k8s.io") || is_hook_pod(key, live)
}
