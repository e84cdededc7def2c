//! A SMALL KUBERNETES in one process. Knows nothing of belay.
//!
//! Built like the large one: `api` is the API server, a tower service and the only owner of the store; `controllers` and
//! `kubelet` are clients of it like anyone else and take a [`kube::Client`] and nothing more, so that each part can be
//! exchanged for the real one.

pub mod api;
pub mod controllers;
pub mod kubelet;
mod pod_logs;
mod random;

pub use pod_logs::{LogLine, LogPlace, PodLogs, Reading};
pub use random::Random;
