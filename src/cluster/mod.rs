//! The Kubernetes API for the daemon and the commands: read, watch, apply, evidence, events. It decides nothing.

mod apply;
mod bounded_body;
mod call;
mod changes;
mod connection;
mod controllers;
mod credentials;
mod discovery;
mod error;
mod events;
mod evidence;
mod items;
mod kinds;
mod labelled;
mod lease;
mod live_pods;
mod masking;
mod object_answer;
mod object_text;
mod outage;
mod pages;
mod patch;
mod read;
mod readiness;
mod redirect;
mod response_body;
mod retry;
mod revision;
mod rolling_update;
mod served;
mod unreachable;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

use crate::clock::Clock;
use crate::telemetry::Metrics;
use belay_core::rollout::Outages;

pub use apply::{Mode, Written};
pub use changes::Seen;
pub use connection::{Connector, connect};
pub use controllers::Sent;
pub use credentials::without_credentials;
pub use discovery::Discovered;
pub use error::{AwayCause, ClusterError, ServerRefusal};
pub use events::{Event, EventKind};
pub use evidence::ObservedWorkload;
pub use kinds::paths_of;
pub use lease::{Entitled, Until};
pub use live_pods::LivePod;
pub use object_text::ObjectText;
pub use patch::{Part, Patch};
pub use read::WORKLOADS;
pub use retry::{Backoff, LoggedTrouble};
pub use rolling_update::{Pace, RollError};
pub use served::Served;
pub use watch::Watched;

/// The most time that one request may take; watches are not meant. A request that takes longer is given up and tried
/// again: server-side applies and reads may be repeated.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// One cluster. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    /// The address of its API server, for people.
    server: Option<Arc<str>>,
    clock: Clock,
    kinds: Arc<kinds::Kinds>,
    request_timeout: Duration,
    outage: Arc<outage::Outage>,
    readiness: Arc<readiness::Readiness>,
    /// The time until which it may be written to, if that is not always.
    entitled: Option<Arc<Entitled>>,
    /// The counters of its requests.
    metrics: Metrics,
    /// When its API server did not answer, as far as belay has noticed.
    outages: Arc<Mutex<Outages>>,
    /// The room for its large answers.
    large: response_body::LargeAnswers,
    /// The room for the values of large Secrets.
    masking_room: masking::MaskingRoom,
}

impl Cluster {
    /// Returns the cluster behind `client`.
    #[must_use]
    pub fn new(client: Client, clock: Clock) -> Cluster {
        Cluster {
            client,
            server: None,
            clock,
            kinds: Arc::default(),
            request_timeout: REQUEST_TIMEOUT,
            outage: Arc::default(),
            readiness: Arc::default(),
            entitled: None,
            metrics: Metrics::default(),
            outages: Arc::default(),
            large: response_body::LargeAnswers::default(),
            masking_room: masking::MaskingRoom::default(),
        }
    }

    /// Returns the same with another limit for one request.
    #[must_use]
    pub fn with_request_timeout(self, limit: Duration) -> Cluster {
        Cluster { request_timeout: limit, ..self }
    }

    /// Returns the same, said to be behind this API server.
    #[must_use]
    pub fn of_server(self, server: &str) -> Cluster {
        Cluster { server: Some(server.into()), ..self }
    }

    /// Returns the address of its API server; `None` if it is not known.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// Counts its requests there.
    #[must_use]
    pub fn counted_in(self, metrics: Metrics) -> Cluster {
        Cluster { metrics, ..self }
    }

    /// Returns the times when its API server did not answer lately, as far as belay has noticed.
    #[must_use]
    pub fn outages(&self) -> Outages {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes for a request sent at `began` that the API server answered, or did not.
    fn note(&self, answered: bool, began: Timestamp) {
        let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        if answered { outages.answered(self.clock.steady()) } else { outages.silent(began) }
    }

    /// Returns the namespace of objects whose manifests name none.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        self.client.default_namespace()
    }
}
