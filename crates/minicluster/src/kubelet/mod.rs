//! Scheduler and nodes of the embedded cluster: binds pods, walks each through its life, and writes the same status as
//! a real kubelet. The behaviour of a pod is data.
//!
//! A client of the Kubernetes API like anyone else: it takes a [`kube::Client`], so it drives pods on a real API server
//! just as well as on the embedded one.

mod agent;
mod directory;
mod driver;
mod event_key;
mod events;
mod fate;
mod image;
mod io;
mod log_server;
mod nodes;
mod placing;
mod pod;
mod pod_name;
mod requests;
mod scheduler;
mod simulated_pod;
#[cfg(test)]
mod tests;
mod writes;
mod written_status;

use std::time::Duration;

use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Clock;
use crate::{PodLogs, Random};

pub use fate::{Script, ScriptError};
pub use nodes::NodeSpec;

/// The options of the kubelet.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Tells the time that is written into objects.
    pub clock: Clock,
    /// Draws container ids.
    pub random: Random,
    /// The logs of containers.
    pub logs: PodLogs,
    /// The nodes to register.
    pub nodes: Vec<NodeSpec>,
    /// The period between two renewals of a node's lease. As often as a real one, every 10 s, keeps a controller
    /// content that watches over nodes; in virtual time, where each costs a write for every 10 s that are skipped, much
    /// less often is better.
    pub heartbeat: Duration,
    /// The factor by which pods live and die faster than their fates; 1 is as written. Not the time in objects, which
    /// is the clock's.
    pub speed: f64,
    /// The choice if the nodes have ports of their own for logs.
    pub ports: Ports,
    /// Rules about the behaviour of images, before the built-in ones.
    pub script: Option<Script>,
}

/// The choice if the nodes have ports of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ports {
    /// They have none: logs are read from [`PodLogs`].
    Closed,
    /// Each has one, over HTTPS on loopback, as a real API server needs to ask for logs. Never in virtual time, which
    /// runs away while a socket is waited for.
    Open,
}

impl Options {
    /// Three nodes of the usual size, at the usual speed.
    #[must_use]
    pub fn new(clock: impl Into<Clock>, random: Random, logs: PodLogs) -> Options {
        Options {
            clock: clock.into(),
            random,
            logs,
            nodes: NodeSpec::several(3),
            heartbeat: Duration::from_secs(10),
            speed: 1.0,
            ports: Ports::Closed,
            script: None,
        }
    }
}

/// A running kubelet. It stops when this is dropped.
#[derive(Debug)]
pub struct Running {
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Running {
    /// Stops it and waits until it has. Pods and nodes stay as they are.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the kubelet ended badly");
        }
    }
}

/// Starts the scheduler and the nodes: they register and drive pods until [`Running`] is stopped or dropped. Whatever
/// the API server refuses or leaves unanswered is tried again.
#[must_use]
pub fn start(client: Client, options: Options) -> Running {
    let stop = CancellationToken::new();
    let task = tokio::spawn(driver::run(client, options, stop.clone()));
    Running { stop: stop.drop_guard(), task }
}
