//! OUT. The Kubernetes API for the daemon and the commands: read, watch, apply, evidence, events. It decides nothing.

mod apply;
mod call;
mod controllers;
mod credentials;
mod error;
mod events;
mod evidence;
mod kinds;
mod labelled;
mod lease;
mod masking;
mod patch;
mod read;
mod retry;
mod revision;
mod rolling_update;
mod watch;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;

use crate::clock::Clock;

pub use apply::{Mode, Written};
pub use controllers::Sent;
pub use credentials::without_credentials;
pub use error::{ClusterError, Refusal};
pub use events::{Event, EventKind};
pub use evidence::Scene;
pub use kinds::Served;
pub use lease::Entitled;
pub use patch::{Part, Patch};
pub use read::WORKLOADS;
pub use retry::Backoff;
pub use rolling_update::{Pace, RollError};
pub use watch::{Seen, Watched};

/// The most time that one request may take; watches are not meant. A request that takes longer is given up and tried
/// again: server-side applies and reads may be repeated.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// One cluster. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    clock: Clock,
    kinds: Arc<kinds::Kinds>,
    request_timeout: Duration,
    /// Until when it may be written to, where that is not always.
    entitled: Option<Arc<Entitled>>,
}

impl Cluster {
    /// The cluster behind `client`.
    #[must_use]
    pub fn new(client: Client, clock: Clock) -> Cluster {
        Cluster { client, clock, kinds: Arc::default(), request_timeout: REQUEST_TIMEOUT, entitled: None }
    }

    /// The same with another limit for one request.
    #[must_use]
    pub fn with_request_timeout(self, limit: Duration) -> Cluster {
        Cluster { request_timeout: limit, ..self }
    }

    /// The namespace of objects whose manifests name none.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        self.client.default_namespace()
    }
}
