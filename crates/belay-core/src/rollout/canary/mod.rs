//! A canary: a Deployment is rolled out in steps, first with few new pods beside all of the old ones.
//!
//! Kubernetes' own controller makes the pods, under two locks that hold whatever becomes of belay. The first is in the write
//! that changes the pod template: `maxSurge` is the number of new pods, `maxUnavailable` is 0, and `minReadySeconds` is so
//! long that no new pod counts as available. The controller gives that to the new ReplicaSet alone, so that it can neither
//! make more new pods nor remove an old one. The second lock is `paused`, once the pods are there.

mod decision;
mod live_canary;
mod lock;
mod request;
mod steps;

pub use decision::{CanaryMove, CanaryPods, has_its_pods, next_move};
pub use live_canary::LiveCanary;
pub use lock::{CanaryLock, CanaryMark, keep_lock, take_off_locks};
pub use request::{CanaryAnswer, CanaryRequest, Refusal, request};
pub use steps::{CanaryStep, CanarySteps, InvalidCanary, StepSize};
