//! A canary: a workload is rolled out in steps, first with few new pods beside the old ones.
//!
//! Kubernetes' own controller makes the pods, under a lock that holds whatever becomes of belay. It is in the write that
//! changes the pod template.
//!
//! - Deployment: `maxSurge` is the number of new pods, `maxUnavailable` is 0, and `minReadySeconds` is so long that no new pod
//!   counts as available. The controller gives that to the new ReplicaSet alone, so that it can neither make more new pods nor
//!   remove an old one. A second lock is `paused`, once the pods are there.
//! - StatefulSet: the `partition` leaves all pods but the new ones at their revision.
//! - DaemonSet: with `OnDelete` the controller replaces no pod. belay deletes the old ones of as many nodes as the step says.

mod decision;
mod kind;
mod live_canary;
mod lock;
#[cfg(test)]
mod model;
mod replacement;
mod request;
mod steps;
#[cfg(test)]
mod tests;

pub use decision::{CanaryMove, CanaryPods, next_move, why_without_steps};
pub use kind::CanaryKind;
pub use live_canary::LiveCanary;
pub use lock::{CanaryLock, CanaryMark, keep_lock, take_off_locks};
pub use replacement::{DaemonPods, next_replaced};
pub use request::{CanaryAnswer, CanaryRequest, Refusal, request};
pub use steps::{CanaryStep, CanarySteps, InvalidCanary, StepSize};
