//! The differences between the kinds of workloads while they are rolled out and rolled back. Code that is the same for
//! all of them asks here, and names no kind.

use std::convert::Infallible;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

use super::controller_rollback;
use super::replication_controller;
use super::stuck_pods;
use crate::daemon::rollout::rollback::failure::RollbackEnd;
use crate::daemon::rollout::rollback::target;
use crate::daemon::rollout::rollout_task::{Cancelled, RolloutStart, RolloutTask};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::rollback::{NoRollbackTarget, Rollback, RollbackTarget};
use belay_core::rollout::{Outcome, Workload};

/// The way in which the pods of an object are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadDriver {
    /// By its controller, if it has pods.
    Controller,
    /// By its controller, which waits for pods that never become ready: belay deletes those.
    StatefulSet,
    /// By belay, with a rolling update.
    ReplicationController,
}

impl WorkloadDriver {
    /// Returns the driver of a rollout's object.
    pub fn of(work: &RolloutTask) -> WorkloadDriver {
        WorkloadDriver::of_object(&work.planned.wanted.key)
    }

    /// Returns the driver of an object.
    pub fn of_object(key: &ObjectKey) -> WorkloadDriver {
        match Workload::of(key) {
            Some(Workload::StatefulSet) => WorkloadDriver::StatefulSet,
            Some(Workload::ReplicationController) => WorkloadDriver::ReplicationController,
            Some(Workload::Deployment | Workload::DaemonSet | Workload::Job) | None => WorkloadDriver::Controller,
        }
    }

    /// Returns true when belay replaces the pods, so that an update itself says how far it is, and others may make one
    /// with `belay rolling-update`.
    pub fn replaces_pods(self) -> bool {
        self == WorkloadDriver::ReplicationController
    }

    /// Carries a manifest through to the end of its record.
    pub fn carry_through(
        self,
        work: &mut RolloutTask,
        start: RolloutStart,
    ) -> BoxFuture<'_, Result<Outcome, Cancelled>> {
        match (self, start) {
            (WorkloadDriver::ReplicationController, start @ (RolloutStart::Apply | RolloutStart::Resume(_))) => {
                Box::pin(replication_controller::roll_out(work, start))
            }
            (_, start) => work.roll_out(start),
        }
    }

    /// Carries it through from the beginning, if others have changed or deleted the object; `None` if it is enough to
    /// apply the manifest again.
    pub async fn begin_again(self, work: &mut RolloutTask) -> Result<Option<Outcome>, Cancelled> {
        match self {
            WorkloadDriver::ReplicationController => Box::pin(replication_controller::again(work)).await.map(Some),
            WorkloadDriver::Controller | WorkloadDriver::StatefulSet => Ok(None),
        }
    }

    /// Finds the target of its rollback.
    pub async fn find_target(
        self,
        work: &RolloutTask,
        live: &Value,
    ) -> Result<Result<RollbackTarget, NoRollbackTarget>, Cancelled> {
        match self {
            WorkloadDriver::ReplicationController => controller_rollback::find_target(work, live).await,
            WorkloadDriver::Controller | WorkloadDriver::StatefulSet => target::find_target(work, live).await,
        }
    }

    /// Removes the new pods, if the controller does not do that once the template is back. Returns the body to write
    /// then, and the object for it; or how the rollout ended.
    pub async fn take_pods_back(
        self,
        work: &mut RolloutTask,
        rollback: Rollback,
        live: Arc<Value>,
    ) -> Result<Result<(Rollback, Arc<Value>), RollbackEnd>, Cancelled> {
        match self {
            WorkloadDriver::ReplicationController => {
                Box::pin(controller_rollback::take_pods_back(work, rollback, live)).await
            }
            WorkloadDriver::Controller | WorkloadDriver::StatefulSet => Ok(Ok((rollback, live))),
        }
    }

    /// Deletes the pods that keep the controller from going on, for as long as it is polled.
    pub fn delete_stuck_pods(self, work: &RolloutTask) -> BoxFuture<'static, Infallible> {
        match self {
            WorkloadDriver::StatefulSet => stuck_pods::delete_again_and_again(work),
            WorkloadDriver::Controller | WorkloadDriver::ReplicationController => std::future::pending().boxed(),
        }
    }
}
